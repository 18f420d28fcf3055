#include "core/instance_record.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "core/instance_record_parts.h"
#include "core/stored_object.h"
#include "crypto/checksum.h"
#include "crypto/registration_token.h"

namespace nstance {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr int kMaxDepth = 128;
constexpr std::size_t kHashLength = 64;

constexpr std::array<std::string_view, 46> kKnown = {"instance_id",
                                                     "tenant",
                                                     "group",
                                                     "on_demand",
                                                     "subnet_id",
                                                     "provider_instance_id",
                                                     "instance_type",
                                                     "status",
                                                     "private_ipv4",
                                                     "private_ipv6",
                                                     "hostname",
                                                     "created_at",
                                                     "last_updated",
                                                     "config",
                                                     "tags",
                                                     "infra_config_hash",
                                                     "registered_at",
                                                     "public_key_pem",
                                                     "cert_serial",
                                                     "cert_expires_at",
                                                     "version",
                                                     "phase",
                                                     "phase_at",
                                                     "provider",
                                                     "nonce_sha256",
                                                     "nonce",
                                                     "request_sha256",
                                                     "generation",
                                                     "cert_issued_at",
                                                     "cert_scope",
                                                     "blocked",
                                                     "replaces",
                                                     "request_id",
                                                     "drain",
                                                     "deletion",
                                                     "pool",
                                                     "power",
                                                     "quarantine",
                                                     "claims",
                                                     "claim",
                                                     "failure",
                                                     "epoch",
                                                     "seq",
                                                     "write_id",
                                                     "checksum",
                                                     "registration_jwt"};

// Who wrote the record: ours has every member that it must have, another program's may lack some.
enum class Writer : std::uint8_t { kOurs, kForeign };

Error Corrupt(const Error& error) {
  return {.code = Code::kDataLoss, .message = "corrupt instance record: " + error.message};
}

bool Has(const json::Value& object, std::string_view key) { return object.Find(key) != nullptr; }

// Members that may be empty, and in another program's record absent.
struct TextMember {
  std::string_view key;
  std::string InstanceRecord::* member;
};
constexpr std::array<TextMember, 7> kTexts = {
    TextMember{"subnet_id", &InstanceRecord::subnet_id},
    TextMember{"provider_instance_id", &InstanceRecord::provider_instance_id},
    TextMember{"instance_type", &InstanceRecord::instance_type},
    TextMember{"private_ipv4", &InstanceRecord::private_ipv4},
    TextMember{"private_ipv6", &InstanceRecord::private_ipv6},
    TextMember{"hostname", &InstanceRecord::hostname},
    TextMember{"infra_config_hash", &InstanceRecord::infra_config_hash},
};
constexpr std::array<TextMember, 3> kOurTexts = {
    TextMember{"provider", &InstanceRecord::provider},
    TextMember{"nonce_sha256", &InstanceRecord::nonce_sha256},
    TextMember{"request_sha256", &InstanceRecord::request_sha256},
};
// Left out when empty, in every record.
constexpr std::array<TextMember, 6> kOptionalTexts = {
    TextMember{"public_key_pem", &InstanceRecord::public_key_pem},
    TextMember{"cert_serial", &InstanceRecord::cert_serial},
    TextMember{"cert_scope", &InstanceRecord::cert_scope},
    TextMember{"request_id", &InstanceRecord::request_id},
    TextMember{"pool", &InstanceRecord::pool},
    TextMember{"power", &InstanceRecord::power},
};

Status ReadTexts(const json::Value& object, Writer writer, InstanceRecord& record) {
  const ObjectReader reader(object);
  for (const TextMember& text : kTexts) {
    if (writer == Writer::kForeign && !Has(object, text.key)) continue;
    ASSIGN_OR_RETURN(record.*text.member, reader.TextOrEmpty(text.key));
  }
  for (const TextMember& text : kOurTexts) {
    if (writer == Writer::kForeign && !Has(object, text.key)) continue;
    ASSIGN_OR_RETURN(record.*text.member, reader.TextOrEmpty(text.key));
  }
  for (const TextMember& text : kOptionalTexts) {
    if (!Has(object, text.key)) continue;
    ASSIGN_OR_RETURN(record.*text.member, reader.TextOrEmpty(text.key));
  }
  return {};
}

Status CheckHash(std::string_view key, std::string_view hash) {
  if (hash.empty()) return {};
  const auto decoded = HexDecode(hash);
  if (hash.size() == kHashLength && decoded && HexEncode(*decoded) == hash) return {};
  return Fail(InvalidArgument(fmt::format("{}: not 64 lower-case hex digits", key)));
}

Status CheckWord(std::string_view key, std::string_view word,
                 std::span<const std::string_view> allowed) {
  if (word.empty()) return {};
  for (const std::string_view one : allowed) {
    if (word == one) return {};
  }
  return Fail(InvalidArgument(
      fmt::format("{}: {} is none of: {}", key, Quote(word), fmt::join(allowed, ", "))));
}

Status CheckTexts(const InstanceRecord& record) {
  constexpr std::array<std::string_view, 2> kScopes = {"instance", "pool"};
  constexpr std::array<std::string_view, 2> kPowers = {"running", "stopped"};
  RETURN_IF_ERROR(CheckHash("nonce_sha256", record.nonce_sha256));
  RETURN_IF_ERROR(CheckHash("request_sha256", record.request_sha256));
  RETURN_IF_ERROR(CheckWord("cert_scope", record.cert_scope, kScopes));
  return CheckWord("power", record.power, kPowers);
}

// Another program may write the zero time of its language for "never".
Result<std::optional<Timestamp>> ReadMoment(const ObjectReader& reader, std::string_view key,
                                            Writer writer) {
  ASSIGN_OR_RETURN(std::optional<Timestamp> at, reader.OptionalTime(key));
  if (writer == Writer::kForeign && at == Timestamp::GoZero()) return std::nullopt;
  return at;
}

Status ReadTimes(const json::Value& object, Writer writer, InstanceRecord& record) {
  const ObjectReader reader(object);
  if (writer == Writer::kOurs) {
    ASSIGN_OR_RETURN(record.created_at, reader.Time("created_at"));
    ASSIGN_OR_RETURN(record.last_updated, reader.Time("last_updated"));
    ASSIGN_OR_RETURN(record.phase_at, reader.Time("phase_at"));
  } else {
    ASSIGN_OR_RETURN(const auto created, ReadMoment(reader, "created_at", writer));
    record.created_at = created.value_or(record.instance_id.created_at());
    ASSIGN_OR_RETURN(const auto updated, ReadMoment(reader, "last_updated", writer));
    record.last_updated = updated.value_or(record.created_at);
    ASSIGN_OR_RETURN(const auto phase_at, ReadMoment(reader, "phase_at", writer));
    record.phase_at = phase_at.value_or(record.last_updated);
  }
  ASSIGN_OR_RETURN(record.registered_at, ReadMoment(reader, "registered_at", writer));
  ASSIGN_OR_RETURN(record.cert_expires_at, ReadMoment(reader, "cert_expires_at", writer));
  ASSIGN_OR_RETURN(record.cert_issued_at, ReadMoment(reader, "cert_issued_at", writer));
  return {};
}

Status ReadConfig(const json::Value& object, Writer writer, InstanceRecord& record) {
  const json::Value* config = object.Find("config");
  if (config == nullptr || config->if_object() == nullptr) {
    const bool nothing = config == nullptr || config->is_null();
    if (writer == Writer::kOurs || !nothing) {
      return Fail(InvalidArgument("config: not an object"));
    }
  } else {
    record.config = *config->if_object();
  }
  const json::Value* tags = object.Find("tags");
  if (tags == nullptr) {
    if (writer == Writer::kOurs) return Fail(InvalidArgument("tags: missing"));
    return {};
  }
  if (tags->is_null()) return {};
  if (tags->if_object() == nullptr) return Fail(InvalidArgument("tags: not an object or null"));
  record.tags.emplace();
  for (const json::Member& member : *tags->if_object()) {
    const std::string* text = member.value.if_string();
    if (text == nullptr) {
      return Fail(InvalidArgument(fmt::format("tags.{}: not a string", Quote(member.key))));
    }
    record.tags->emplace(member.key, *text);
  }
  return {};
}

Status ReadFlagsAndNumbers(const json::Value& object, Writer writer, InstanceRecord& record) {
  const ObjectReader reader(object);
  const bool ours = writer == Writer::kOurs;
  if (ours || Has(object, "on_demand")) {
    ASSIGN_OR_RETURN(record.on_demand, reader.Flag("on_demand"));
  }
  if (Has(object, "generation")) {
    ASSIGN_OR_RETURN(record.generation, reader.Integer("generation", {1, kMaxStoredInteger}));
  }
  if (ours || Has(object, "epoch")) {
    ASSIGN_OR_RETURN(record.epoch, reader.Integer("epoch", {ours ? 1 : 0, kMaxStoredInteger}));
  }
  if (ours || Has(object, "seq")) {
    ASSIGN_OR_RETURN(record.seq, reader.Integer("seq", {0, kMaxStoredInteger}));
  }
  if (ours || Has(object, "write_id")) {
    ASSIGN_OR_RETURN(record.write_id, reader.TextOrEmpty("write_id"));
  }
  return {};
}

InstancePhase PhaseFromFacts(const InstanceRecord& record, std::string_view status) {
  if (status == "deleting") return InstancePhase::kDeleting;
  if (record.registered_at) return InstancePhase::kRegistered;
  if (!record.provider_instance_id.empty()) return InstancePhase::kProvisioned;
  return InstancePhase::kCreating;
}

Status ReadPhase(const json::Value& object, Writer writer, InstanceRecord& record) {
  const ObjectReader reader(object);
  if (writer == Writer::kForeign && !Has(object, "phase")) {
    std::string status;
    if (Has(object, "status")) {
      ASSIGN_OR_RETURN(status, reader.TextOrEmpty("status"));
    }
    record.phase = PhaseFromFacts(record, status);
    return {};
  }
  ASSIGN_OR_RETURN(const std::string name, reader.Text("phase"));
  ASSIGN_OR_RETURN(record.phase, Under(ParsePhase(name), "phase"));
  if (record.phase == InstancePhase::kIntended) {
    return Fail(InvalidArgument("phase: intended has no record"));
  }
  return {};
}

Status ReadToken(const json::Value& object, InstanceRecord& record) {
  const json::Value* token = object.Find("registration_jwt");
  if (token == nullptr) return {};
  if (token->if_string() == nullptr) {
    return Fail(InvalidArgument("registration_jwt: not a string"));
  }
  if (!token->if_string()->empty() && record.nonce_sha256.empty()) {
    record.nonce_sha256 = crypto::TokenSha256Hex(*token->if_string());
  }
  return {};
}

// Ids of other programs need not be version 7, but they are spelled as ours are.
Result<InstanceId> ReadId(std::string_view text, std::string_view key) {
  ASSIGN_OR_RETURN(InstanceId id, Under(ReadPuidv7(text), key));
  if (id.text() != text) {
    return Fail(InvalidArgument(fmt::format("{}: {} is not spelled as ids are", key, Quote(text))));
  }
  return id;
}

Status CheckKey(const json::Value& object, const RecordKey& expected) {
  const ObjectReader reader(object);
  ASSIGN_OR_RETURN(const std::string id, reader.Text("instance_id"));
  ASSIGN_OR_RETURN(const std::string tenant, reader.Text("tenant"));
  if (id != expected.instance_id.text()) {
    return Fail(InvalidArgument(fmt::format("instance_id: {}, but the object's name says {}",
                                            Quote(id), expected.instance_id.text())));
  }
  if (tenant != expected.tenant.text()) {
    return Fail(InvalidArgument(fmt::format("tenant: {}, but the object's name says {}",
                                            Quote(tenant), expected.tenant.text())));
  }
  return {};
}

Result<Writer> ReadVersion(const json::Value& object) {
  if (!Has(object, "version")) return Writer::kForeign;
  ASSIGN_OR_RETURN(const std::int64_t version,
                   ObjectReader(object).Integer("version", {0, kMaxStoredInteger}));
  if (version != kVersion) {
    return Fail(InvalidArgument(fmt::format("version: {}; this program reads 1", version)));
  }
  return Writer::kOurs;
}

Result<InstanceRecord> Read(std::string_view bytes, const RecordKey& expected) {
  ASSIGN_OR_RETURN(const json::Value object,
                   json::Parse(bytes, {.max_bytes = kMaxRecordBytes, .max_depth = kMaxDepth}));
  if (object.if_object() == nullptr) return Fail(InvalidArgument("not an object"));
  if (crypto::CheckChecksum(bytes) == crypto::ChecksumState::kWrong) {
    return Fail(InvalidArgument("checksum: wrong"));
  }
  ASSIGN_OR_RETURN(const Writer writer, ReadVersion(object));
  RETURN_IF_ERROR(CheckKey(object, expected));
  ASSIGN_OR_RETURN(const std::string group_text, ObjectReader(object).Text("group"));
  ASSIGN_OR_RETURN(const GroupKey group, Under(GroupKey::Parse(group_text), "group"));
  InstanceRecord record{
      .instance_id = expected.instance_id, .tenant = expected.tenant, .group = group};
  RETURN_IF_ERROR(ReadFlagsAndNumbers(object, writer, record));
  RETURN_IF_ERROR(ReadTexts(object, writer, record));
  RETURN_IF_ERROR(CheckTexts(record));
  RETURN_IF_ERROR(ReadTimes(object, writer, record));
  RETURN_IF_ERROR(ReadConfig(object, writer, record));
  RETURN_IF_ERROR(ReadPhase(object, writer, record));
  RETURN_IF_ERROR(ReadToken(object, record));
  if (Has(object, "replaces")) {
    ASSIGN_OR_RETURN(const std::string text, ObjectReader(object).Text("replaces"));
    ASSIGN_OR_RETURN(record.replaces, ReadId(text, "replaces"));
  }
  RETURN_IF_ERROR(ReadRecordParts(object, record));
  record.unknown = UnknownMembers(object, kKnown);
  return record;
}

void AppendIfText(std::string& out, std::string_view key, std::string_view text) {
  if (!text.empty()) AppendText(out, key, text);
}

void AppendIfTime(std::string& out, std::string_view key, std::optional<Timestamp> at) {
  if (at) AppendTime(out, key, *at);
}

void AppendShared(std::string& out, const InstanceRecord& record) {
  AppendText(out, "tenant", record.tenant.text());
  AppendText(out, "group", record.group.text());
  AppendKey(out, "on_demand");
  out += record.on_demand ? "true" : "false";
  AppendText(out, "subnet_id", record.subnet_id);
  AppendText(out, "provider_instance_id", record.provider_instance_id);
  AppendText(out, "instance_type", record.instance_type);
  AppendText(out, "status", ForeignStatus(record.phase));
  AppendText(out, "private_ipv4", record.private_ipv4);
  AppendText(out, "private_ipv6", record.private_ipv6);
  AppendText(out, "hostname", record.hostname);
  AppendTime(out, "created_at", record.created_at);
  AppendTime(out, "last_updated", record.last_updated);
  AppendKey(out, "config");
  out += json::Write(json::Value::Map(record.config));
  AppendKey(out, "tags");
  if (record.tags) {
    json::Object tags;
    for (const auto& [key, text] : *record.tags) {
      tags.push_back({.key = key, .key_position = {}, .value = json::Value::String(text)});
    }
    out += json::Write(json::Value::Map(std::move(tags)));
  } else {
    out += "null";
  }
  AppendText(out, "infra_config_hash", record.infra_config_hash);
  AppendIfTime(out, "registered_at", record.registered_at);
  AppendIfText(out, "public_key_pem", record.public_key_pem);
  AppendIfText(out, "cert_serial", record.cert_serial);
  AppendIfTime(out, "cert_expires_at", record.cert_expires_at);
}

void AppendOurs(std::string& out, const InstanceRecord& record) {
  AppendInteger(out, "version", kVersion);
  AppendText(out, "phase", PhaseName(record.phase));
  AppendTime(out, "phase_at", record.phase_at);
  AppendText(out, "provider", record.provider);
  AppendText(out, "nonce_sha256", record.nonce_sha256);
  AppendNonce(out, record);
  AppendText(out, "request_sha256", record.request_sha256);
  if (record.generation > 0) AppendInteger(out, "generation", record.generation);
  AppendIfTime(out, "cert_issued_at", record.cert_issued_at);
  AppendIfText(out, "cert_scope", record.cert_scope);
  AppendMark(out, "blocked", record.blocked);
  if (record.replaces) AppendText(out, "replaces", record.replaces->text());
  AppendIfText(out, "request_id", record.request_id);
  AppendDrainAndDeletion(out, record);
  AppendIfText(out, "pool", record.pool);
  AppendIfText(out, "power", record.power);
  AppendMark(out, "quarantine", record.quarantine);
  AppendClaims(out, record);
  AppendFailure(out, record);
}

}  // namespace

std::string_view ForeignStatus(InstancePhase phase) {
  using enum InstancePhase;
  return phase == kDeleting || phase == kGone || phase == kFailed ? "deleting" : "pending";
}

Result<InstanceRecord> DecodeInstanceRecord(std::string_view bytes, const RecordKey& expected) {
  Result<InstanceRecord> record = Read(bytes, expected);
  if (!record) return Fail(Corrupt(record.error()));
  return record;
}

std::string EncodeInstanceRecord(const InstanceRecord& record) {
  CHECK(record.phase != InstancePhase::kIntended, "{}", record.instance_id.text());
  std::string out = "{\"instance_id\":";
  json::AppendString(out, record.instance_id.text());
  AppendShared(out, record);
  AppendOurs(out, record);
  AppendInteger(out, "epoch", record.epoch);
  AppendInteger(out, "seq", record.seq);
  AppendText(out, "write_id", record.write_id);
  AppendUnknown(out, record.unknown);
  out += '}';
  return crypto::AppendChecksum(out);
}

}  // namespace nstance
