#include "core/journal.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/text.h"
#include "core/stored_object.h"
#include "crypto/checksum.h"

namespace nstance {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMaxJournalBytes = std::size_t{2} * 1024 * 1024;
constexpr int kMaxDepth = 32;
constexpr std::size_t kMaxIdLength = 64;
constexpr std::size_t kMaxReasonLength = 64;

constexpr std::array<std::string_view, 15> kJournalKeys = {
    "version",   "cluster_id", "shard",      "epoch",      "seq",
    "write_id",  "holder",     "updated_at", "created_at", "records",
    "restarted", "groups",     "intents",    "audit_head", "checksum"};

constexpr std::array kKinds = {IntentKind::kCreate, IntentKind::kDrain, IntentKind::kDelete,
                               IntentKind::kClaim,  IntentKind::kPark,  IntentKind::kWake};

constexpr std::array<std::string_view, 7> kCommonKeys = {
    "id", "kind", "instance_id", "tenant", "group", "opened_at", "epoch"};
constexpr std::array<std::string_view, 5> kCreateKeys = {"reason", "replaces", "attempts",
                                                         "not_before", "request_id"};
constexpr std::array<std::string_view, 6> kDrainKeys = {"reason",  "deadline", "length_ms",
                                                        "ordered", "counted",  "acked_at"};
constexpr std::array<std::string_view, 6> kDeleteKeys = {"reason",      "ordered",  "counted",
                                                         "record_etag", "attempts", "not_before"};
constexpr std::array<std::string_view, 4> kClaimKeys = {"record_etag", "class", "vars",
                                                        "request_id"};
constexpr std::array<std::string_view, 2> kPowerKeys = {"attempts", "not_before"};

std::span<const std::string_view> KeysOf(IntentKind kind) {
  switch (kind) {
    case IntentKind::kCreate: return kCreateKeys;
    case IntentKind::kDrain: return kDrainKeys;
    case IntentKind::kDelete: return kDeleteKeys;
    case IntentKind::kClaim: return kClaimKeys;
    case IntentKind::kPark:
    case IntentKind::kWake: return kPowerKeys;
  }
  return {};
}

bool Has(IntentKind kind, std::string_view key) {
  return std::ranges::find(KeysOf(kind), key) != KeysOf(kind).end();
}

Error Corrupt(const Error& error) {
  return {.code = Code::kDataLoss, .message = "corrupt journal: " + error.message};
}

Result<IntentKind> ParseKind(const std::string& name) {
  for (const IntentKind kind : kKinds) {
    if (IntentKindName(kind) == name) return kind;
  }
  return Fail(
      InvalidArgument(fmt::format("kind: {} is none that this version knows", Quote(name))));
}

// Three whole numbers joined by hyphens.
Status CheckIntentId(std::string_view id) {
  const bool characters =
      std::ranges::all_of(id, [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
  const bool joined = std::ranges::count(id, '-') == 2 && !id.starts_with('-') &&
                      !id.ends_with('-') && !id.contains("--");
  if (characters && joined && id.size() <= kMaxIdLength) return {};
  return Fail(InvalidArgument(fmt::format("id: {} is not <epoch>-<seq>-<n>", Quote(id))));
}

Status ReadCommon(const ObjectReader& reader, Intent& intent) {
  ASSIGN_OR_RETURN(intent.id, reader.Text("id"));
  RETURN_IF_ERROR(CheckIntentId(intent.id));
  ASSIGN_OR_RETURN(intent.opened_at, reader.Time("opened_at"));
  ASSIGN_OR_RETURN(intent.epoch, reader.Integer("epoch", {1, kMaxStoredInteger}));
  return {};
}

Status ReadTexts(const ObjectReader& reader, Intent& intent) {
  if (Has(intent.kind, "reason")) {
    ASSIGN_OR_RETURN(intent.reason, reader.Text("reason"));
    if (intent.reason.size() > kMaxReasonLength) {
      return Fail(InvalidArgument("reason: above 64 bytes"));
    }
  }
  if (Has(intent.kind, "record_etag")) {
    ASSIGN_OR_RETURN(intent.record_etag, reader.TextOrEmpty("record_etag"));
  }
  if (intent.kind == IntentKind::kClaim) {
    ASSIGN_OR_RETURN(intent.claim_class, reader.Text("class"));
    ASSIGN_OR_RETURN(intent.request_id, reader.Text("request_id"));
  } else if (intent.kind == IntentKind::kCreate) {
    ASSIGN_OR_RETURN(auto request_id, reader.OptionalText("request_id"));
    intent.request_id = std::move(request_id).value_or("");
  }
  return {};
}

Status ReadRest(const json::Value& object, const ObjectReader& reader, Intent& intent) {
  if (intent.kind == IntentKind::kDrain) {
    ASSIGN_OR_RETURN(intent.deadline, reader.Time("deadline"));
    ASSIGN_OR_RETURN(const std::int64_t length,
                     reader.Integer("length_ms", {0, Duration::Max().milliseconds()}));
    intent.length = Duration::Milliseconds(length);
    ASSIGN_OR_RETURN(intent.acked_at, reader.OptionalTime("acked_at"));
  }
  if (Has(intent.kind, "ordered")) {
    ASSIGN_OR_RETURN(intent.ordered, reader.Flag("ordered"));
    ASSIGN_OR_RETURN(intent.counted, reader.Flag("counted"));
  }
  if (Has(intent.kind, "attempts")) {
    if (object.Find("attempts") != nullptr) {
      ASSIGN_OR_RETURN(intent.attempts, reader.Integer("attempts", {0, kMaxStoredInteger}));
    }
    ASSIGN_OR_RETURN(intent.not_before, reader.OptionalTime("not_before"));
  }
  if (intent.kind == IntentKind::kCreate) {
    ASSIGN_OR_RETURN(const auto replaces, reader.OptionalText("replaces"));
    if (replaces) {
      ASSIGN_OR_RETURN(intent.replaces, Under(ParsePuidv7(*replaces), "replaces"));
    }
  }
  if (intent.kind == IntentKind::kClaim) {
    const json::Value* vars = object.Find("vars");
    if (vars == nullptr || vars->if_object() == nullptr) {
      return Fail(InvalidArgument("vars: not an object"));
    }
    intent.vars = *vars->if_object();
  }
  return {};
}

Result<Intent> ReadIntent(const json::Value& object) {
  if (object.if_object() == nullptr) return Fail(InvalidArgument("not an object"));
  const ObjectReader reader(object);
  ASSIGN_OR_RETURN(const std::string kind_name, reader.Text("kind"));
  ASSIGN_OR_RETURN(const IntentKind kind, ParseKind(kind_name));
  ASSIGN_OR_RETURN(const std::string instance_text, reader.Text("instance_id"));
  ASSIGN_OR_RETURN(const InstanceId instance_id, Under(ParsePuidv7(instance_text), "instance_id"));
  ASSIGN_OR_RETURN(const std::string tenant_text, reader.Text("tenant"));
  ASSIGN_OR_RETURN(const TenantId tenant, TenantId::Parse(tenant_text));
  ASSIGN_OR_RETURN(const std::string group_text, reader.Text("group"));
  ASSIGN_OR_RETURN(const GroupKey group, GroupKey::Parse(group_text));
  Intent intent{.id = {},
                .kind = kind,
                .instance_id = instance_id,
                .tenant = tenant,
                .group = group,
                .opened_at = {}};
  RETURN_IF_ERROR(ReadCommon(reader, intent));
  RETURN_IF_ERROR(ReadTexts(reader, intent));
  RETURN_IF_ERROR(ReadRest(object, reader, intent));
  std::vector<std::string_view> known(kCommonKeys.begin(), kCommonKeys.end());
  known.insert(known.end(), KeysOf(kind).begin(), KeysOf(kind).end());
  intent.unknown = UnknownMembers(object, known);
  return intent;
}

Status ReadIntents(const json::Value& object, Journal& journal) {
  const json::Value* intents = object.Find("intents");
  if (intents == nullptr || intents->if_array() == nullptr) {
    return Fail(InvalidArgument("intents: not a list"));
  }
  std::set<std::string, std::less<>> ids;
  for (const json::Value& item : *intents->if_array()) {
    const std::string where = fmt::format("intents[{}]", journal.intents.size());
    ASSIGN_OR_RETURN(Intent intent, Under(ReadIntent(item), where));
    if (!ids.insert(intent.id).second) {
      return Fail(InvalidArgument(fmt::format("{}: id {} twice", where, intent.id)));
    }
    journal.intents.push_back(std::move(intent));
  }
  return {};
}

Result<JournalRestart> ReadRestart(const json::Value& object) {
  if (object.if_object() == nullptr) return Fail(InvalidArgument("not an object"));
  const ObjectReader reader(object);
  JournalRestart restart;
  ASSIGN_OR_RETURN(restart.at, reader.Time("at"));
  ASSIGN_OR_RETURN(restart.by, reader.Text("by"));
  ASSIGN_OR_RETURN(auto mode, reader.OptionalText("mode"));
  restart.mode = std::move(mode).value_or("");
  return restart;
}

Result<GroupsMark> ReadMark(const json::Value& object) {
  if (object.if_object() == nullptr) return Fail(InvalidArgument("not an object"));
  const ObjectReader reader(object);
  GroupsMark mark;
  ASSIGN_OR_RETURN(mark.epoch, reader.Integer("epoch", {1, kMaxStoredInteger}));
  ASSIGN_OR_RETURN(mark.seq, reader.Integer("seq", {1, kMaxStoredInteger}));
  ASSIGN_OR_RETURN(mark.sha256, reader.Text("sha256"));
  return mark;
}

Status ReadMemory(const json::Value& object, JournalMemory& memory) {
  const ObjectReader reader(object);
  ASSIGN_OR_RETURN(memory.created_at, reader.OptionalTime("created_at"));
  if (object.Find("records") != nullptr) {
    ASSIGN_OR_RETURN(memory.records, reader.Integer("records", {0, kMaxStoredInteger}));
  }
  if (const json::Value* restarted = object.Find("restarted")) {
    ASSIGN_OR_RETURN(memory.restarted, Under(ReadRestart(*restarted), "restarted"));
  }
  if (const json::Value* groups = object.Find("groups")) {
    ASSIGN_OR_RETURN(memory.groups, Under(ReadMark(*groups), "groups"));
  }
  return {};
}

Status ReadJournal(const json::Value& object, Journal& journal) {
  const ObjectReader reader(object);
  ASSIGN_OR_RETURN(journal.epoch, reader.Integer("epoch", {1, kMaxStoredInteger}));
  ASSIGN_OR_RETURN(journal.seq, reader.Integer("seq", {1, kMaxStoredInteger}));
  ASSIGN_OR_RETURN(journal.write_id, reader.Text("write_id"));
  ASSIGN_OR_RETURN(journal.holder, reader.Text("holder"));
  ASSIGN_OR_RETURN(journal.updated_at, reader.Time("updated_at"));
  RETURN_IF_ERROR(ReadMemory(object, journal.memory));
  RETURN_IF_ERROR(ReadIntents(object, journal));
  ASSIGN_OR_RETURN(journal.audit_head, reader.OptionalText("audit_head"));
  journal.unknown = UnknownMembers(object, kJournalKeys);
  return {};
}

Result<json::Value> ReadEnvelope(std::string_view bytes) {
  ASSIGN_OR_RETURN(json::Value object,
                   json::Parse(bytes, {.max_bytes = kMaxJournalBytes, .max_depth = kMaxDepth}));
  if (object.if_object() == nullptr) return Fail(InvalidArgument("not an object"));
  if (crypto::CheckChecksum(bytes) == crypto::ChecksumState::kWrong) {
    return Fail(InvalidArgument("wrong checksum"));
  }
  ASSIGN_OR_RETURN(const std::int64_t version,
                   ObjectReader(object).Integer("version", {0, kMaxStoredInteger}));
  if (version != kVersion) {
    return Fail(InvalidArgument(fmt::format("version {}; this program reads 1", version)));
  }
  return object;
}

void AppendMemory(std::string& out, const JournalMemory& memory) {
  if (memory.created_at) AppendTime(out, "created_at", *memory.created_at);
  if (memory.records) AppendInteger(out, "records", *memory.records);
  if (memory.restarted) {
    out += ",\"restarted\":{\"at\":";
    json::AppendString(out, FormatTimestamp(memory.restarted->at));
    AppendText(out, "by", memory.restarted->by);
    if (!memory.restarted->mode.empty()) AppendText(out, "mode", memory.restarted->mode);
    out += '}';
  }
  if (memory.groups) {
    out += fmt::format(",\"groups\":{{\"epoch\":{},\"seq\":{}", memory.groups->epoch,
                       memory.groups->seq);
    AppendText(out, "sha256", memory.groups->sha256);
    out += '}';
  }
}

void AppendReplay(std::string& out, const Intent& intent) {
  if (intent.attempts > 0) AppendInteger(out, "attempts", intent.attempts);
  if (intent.not_before) AppendTime(out, "not_before", *intent.not_before);
}

void AppendCounting(std::string& out, const Intent& intent) {
  fmt::format_to(std::back_inserter(out), ",\"ordered\":{},\"counted\":{}", intent.ordered,
                 intent.counted);
}

void AppendKind(std::string& out, const Intent& intent) {
  switch (intent.kind) {
    case IntentKind::kCreate:
      AppendText(out, "reason", intent.reason);
      if (intent.replaces) AppendText(out, "replaces", intent.replaces->text());
      AppendReplay(out, intent);
      if (!intent.request_id.empty()) AppendText(out, "request_id", intent.request_id);
      return;
    case IntentKind::kDrain:
      AppendText(out, "reason", intent.reason);
      AppendTime(out, "deadline", intent.deadline);
      AppendInteger(out, "length_ms", intent.length.milliseconds());
      AppendCounting(out, intent);
      if (intent.acked_at) AppendTime(out, "acked_at", *intent.acked_at);
      return;
    case IntentKind::kDelete:
      AppendText(out, "reason", intent.reason);
      AppendCounting(out, intent);
      AppendText(out, "record_etag", intent.record_etag);
      return AppendReplay(out, intent);
    case IntentKind::kClaim:
      AppendText(out, "record_etag", intent.record_etag);
      AppendText(out, "class", intent.claim_class);
      out += ",\"vars\":" + json::Write(json::Value::Map(intent.vars));
      return AppendText(out, "request_id", intent.request_id);
    case IntentKind::kPark:
    case IntentKind::kWake: return AppendReplay(out, intent);
  }
}

}  // namespace

std::string_view IntentKindName(IntentKind kind) {
  switch (kind) {
    case IntentKind::kCreate: return "create";
    case IntentKind::kDrain: return "drain";
    case IntentKind::kDelete: return "delete";
    case IntentKind::kClaim: return "claim";
    case IntentKind::kPark: return "park";
    case IntentKind::kWake: return "wake";
  }
  return "unknown";
}

bool IsBelow(const GroupsMark& left, const GroupsMark& right) {
  return std::pair(left.epoch, left.seq) < std::pair(right.epoch, right.seq);
}

JournalMemory Merge(JournalMemory memory, const JournalMemory& news) {
  if (news.created_at) memory.created_at = news.created_at;
  if (news.records) memory.records = news.records;
  if (news.restarted) memory.restarted = news.restarted;
  if (news.groups) memory.groups = news.groups;
  return memory;
}

std::string EncodeIntent(const Intent& intent) {
  std::string out = "{\"id\":";
  json::AppendString(out, intent.id);
  AppendText(out, "kind", IntentKindName(intent.kind));
  AppendText(out, "instance_id", intent.instance_id.text());
  AppendText(out, "tenant", intent.tenant.text());
  AppendText(out, "group", intent.group.text());
  AppendTime(out, "opened_at", intent.opened_at);
  AppendInteger(out, "epoch", intent.epoch);
  AppendKind(out, intent);
  AppendUnknown(out, intent.unknown);
  out += '}';
  return out;
}

std::string EncodeJournal(const Journal& journal) {
  std::string out = fmt::format("{{\"version\":{}", kVersion);
  AppendText(out, "cluster_id", journal.cluster.text());
  AppendText(out, "shard", journal.shard.text());
  AppendInteger(out, "epoch", journal.epoch);
  AppendInteger(out, "seq", journal.seq);
  AppendText(out, "write_id", journal.write_id);
  AppendText(out, "holder", journal.holder);
  AppendTime(out, "updated_at", journal.updated_at);
  AppendMemory(out, journal.memory);
  out += ",\"intents\":[";
  for (const Intent& intent : journal.intents) {
    if (&intent != &journal.intents.front()) out += ',';
    out += EncodeIntent(intent);
  }
  out += ']';
  if (journal.audit_head) AppendText(out, "audit_head", *journal.audit_head);
  AppendUnknown(out, journal.unknown);
  out += '}';
  return crypto::AppendChecksum(out);
}

Result<Journal> DecodeJournal(std::string_view bytes, const JournalIdentity& expected) {
  const Result<json::Value> object = ReadEnvelope(bytes);
  if (!object) return Fail(Corrupt(object.error()));
  const ObjectReader reader(*object);
  const Result<std::string> cluster = reader.Text("cluster_id");
  const Result<std::string> shard = reader.Text("shard");
  if (!cluster || !shard) return Fail(Corrupt((cluster ? shard : cluster).error()));
  if (*cluster != expected.cluster.text() || *shard != expected.shard.text()) {
    return Fail(FailedPrecondition(
        fmt::format("the journal is that of cluster {}, shard {}; expected {}, {}", Quote(*cluster),
                    Quote(*shard), expected.cluster.text(), expected.shard.text())));
  }
  Journal journal{.cluster = expected.cluster,
                  .shard = expected.shard,
                  .epoch = 0,
                  .seq = 0,
                  .write_id = {},
                  .holder = {},
                  .updated_at = {},
                  .memory = {},
                  .intents = {}};
  if (const Status read = ReadJournal(*object, journal); !read) return Fail(Corrupt(read.error()));
  return journal;
}

Journal TakeOver(Journal found, const JournalStamp& stamp) {
  if (!Planted(Plant::kTakeOverKeepsEpoch)) ++found.epoch;
  if (!Planted(Plant::kTakeOverKeepsSeq)) ++found.seq;
  found.holder = stamp.holder;
  found.write_id = stamp.write_id;
  found.updated_at = stamp.at;
  return found;
}

Result<Journal> FirstJournal(const JournalIdentity& identity, EpochEvidence evidence,
                             const JournalStamp& stamp) {
  if (evidence == EpochEvidence::kSome) {
    return Fail(
        FailedPrecondition("the journal is missing although instance records carry an epoch; "
                           "repair: nstance-admin store reset-journal"));
  }
  return ResetJournal(identity, {.memory = {.created_at = stamp.at, .records = 0}}, stamp);
}

Journal ResetJournal(const JournalIdentity& identity, const JournalTraces& traces,
                     const JournalStamp& stamp) {
  return {.cluster = identity.cluster,
          .shard = identity.shard,
          .epoch = traces.highest_epoch + 1,
          .seq = traces.highest_seq + 1,
          .write_id = stamp.write_id,
          .holder = stamp.holder,
          .updated_at = stamp.at,
          .memory = traces.memory,
          .intents = {}};
}

}  // namespace nstance
