// `nstance-admin store show`.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "admin/print.h"
#include "admin/storage/cluster_view.h"
#include "admin/storage/store_commands.h"
#include "base/json.h"
#include "base/text.h"
#include "core/config/load.h"
#include "core/deny_list.h"
#include "core/instance_record.h"
#include "core/journal.h"
#include "core/lease.h"
#include "core/object_layout.h"
#include "core/operator_record.h"
#include "crypto/checksum.h"
#include "crypto/envelope.h"

namespace nstance::admin {
namespace {

// What an object turned out to be.
struct Shown {
  std::string kind = {};                               // "journal", "secret"; empty: no idea.
  std::optional<std::string> checksum = std::nullopt;  // "right", "absent", "WRONG".
  std::string problem = {};                            // Why it cannot be used.
  std::string sealed = {};                             // Secrets: form and key.
  bool hidden = false;                                 // The bytes are not shown.
};

std::string_view ChecksumWord(crypto::ChecksumState state) {
  switch (state) {
    case crypto::ChecksumState::kAbsent: return "absent";
    case crypto::ChecksumState::kRight: return "right";
    case crypto::ChecksumState::kWrong: return "WRONG";
  }
  return "";
}

template <class T>
std::string ProblemOf(const Result<T>& decoded) {
  return decoded.has_value() ? std::string() : decoded.error().message;
}

std::string LeaseProblem(std::string_view bytes) {
  const DecodedLease lease = DecodeLease(bytes);
  return lease.form == LeaseForm::kValid ? std::string() : lease.flaw;
}

// The part of "<folder>/<shard>..." that names the shard.
std::optional<ShardId> ShardIn(std::string_view rest, char end) {
  const Result<ShardId> shard = ShardId::Parse(rest.substr(0, rest.find(end)));
  return shard.has_value() ? std::optional(*shard) : std::nullopt;
}

// The journal says itself whose it is; whether that is right its readers decide.
std::string JournalProblem(const ObjectKey& key, std::string_view bytes) {
  const auto shard = ShardIn(std::string_view(key.text()).substr(8), '.');
  const Result<json::Value> value = json::Parse(bytes);
  if (!value.has_value()) return "not JSON: " + value.error().message;
  const json::Value* cluster = value->Find("cluster_id");
  if (cluster == nullptr || cluster->if_string() == nullptr) return "cluster_id: missing";
  const Result<ClusterId> named = ClusterId::Parse(*cluster->if_string());
  if (!named.has_value()) return named.error().message;
  if (!shard) return "the key names no shard";
  return ProblemOf(DecodeJournal(bytes, {.cluster = *named, .shard = *shard}));
}

std::string RecordProblem(const ObjectKey& key, std::string_view bytes) {
  const auto shard = ShardIn(std::string_view(key.text()).substr(9), '/');
  if (!shard) return "the key names no shard";
  const Result<RecordKey> names = ParseInstanceRecordKey(*shard, key);
  if (!names.has_value()) return names.error().message;
  return ProblemOf(DecodeInstanceRecord(bytes, *names));
}

std::string ConfigProblem(const ObjectKey& key, std::string_view bytes) {
  const config::LoadResult loaded = config::Load(bytes);
  return loaded.config ? std::string() : config::Format(loaded.errors.front(), key.text());
}

Shown LookAtSecret(std::string_view bytes) {
  Shown shown{.kind = "secret"};
  if (const auto id = crypto::SealedWith(AsBytes(bytes))) {
    shown.sealed = fmt::format("form v1, key id {}", HexEncode(*id));
  } else if (IsValidUtf8(bytes)) {
    // Sealed bytes are no text: this was put here in the clear.
    shown.problem = "not sealed: its content is not shown. Put it again with its envelope";
    shown.hidden = true;
  } else {
    shown.sealed = "legacy form";
  }
  return shown;
}

Shown LookAt(const ObjectKey& key, std::string_view bytes, const std::string& secrets_prefix) {
  const std::string& name = key.text();
  if (name.starts_with(secrets_prefix)) return LookAtSecret(bytes);
  Shown shown;
  if (name.starts_with("journal/")) {
    shown = {.kind = "journal", .problem = JournalProblem(key, bytes)};
  } else if (name.starts_with("leader/")) {
    shown = {.kind = "lease", .problem = LeaseProblem(bytes)};
  } else if (name.starts_with("instance/")) {
    shown = {.kind = "record", .problem = RecordProblem(key, bytes)};
  } else if (name.starts_with("operator/")) {
    shown = {.kind = "operator", .problem = ProblemOf(DecodeOperatorRecord(bytes))};
  } else if (name == "deny/cluster.json") {
    shown = {.kind = "deny list", .problem = ProblemOf(DecodeDenyList(bytes))};
  } else if (name.starts_with("certlog/")) {
    shown = {.kind = "certificate log"};
  } else if (name.starts_with("config/")) {
    return {.kind = "configuration", .problem = ConfigProblem(key, bytes)};
  } else {
    return shown;
  }
  shown.checksum = ChecksumWord(crypto::CheckChecksum(bytes));
  return shown;
}

bool IsPlainText(std::string_view bytes) {
  return IsValidUtf8(bytes) && std::ranges::none_of(bytes, [](char c) {
           return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r') ||
                  c == 0x7F;
         });
}

Ending JsonEnding(const ObjectKey& key, const Object& object, const Shown& shown) {
  json::Value out = json::Value::Map({});
  out.Set("key", json::Value::String(key.text()));
  out.Set("version", json::Value::String(object.version.text));
  out.Set("size", json::Value::Integer(static_cast<std::int64_t>(object.bytes.size())));
  if (object.modified_at) {
    out.Set("modified_at", json::Value::String(FormatTimestamp(*object.modified_at)));
  }
  if (!shown.kind.empty()) out.Set("kind", json::Value::String(shown.kind));
  if (shown.checksum) out.Set("checksum", json::Value::String(*shown.checksum));
  if (!shown.problem.empty()) out.Set("problem", json::Value::String(shown.problem));
  if (!shown.sealed.empty()) out.Set("sealed", json::Value::String(shown.sealed));
  const bool text = shown.sealed.empty() && IsPlainText(object.bytes);
  if (!shown.hidden) {
    out.Set(text ? "text" : "base64",
            json::Value::String(text ? object.bytes : Base64Encode(AsBytes(object.bytes))));
  }
  return {.out = json::Write(out, {.indent = 2}) + "\n"};
}

Ending TextEnding(const ObjectKey& key, const Object& object, const Shown& shown) {
  Ending ending;
  if (!shown.hidden) {
    ending.out =
        IsPlainText(object.bytes) ? object.bytes : Base64Encode(AsBytes(object.bytes)) + "\n";
    if (!ending.out.ends_with('\n')) ending.out += '\n';
  }
  ending.err = fmt::format("{}: {}{} bytes, version {}", key.text(),
                           shown.kind.empty() ? "" : shown.kind + ", ", object.bytes.size(),
                           object.version.text);
  if (shown.checksum) ending.err += ", checksum " + *shown.checksum;
  if (!shown.sealed.empty()) ending.err += ", sealed: " + shown.sealed;
  ending.err += '\n';
  if (!shown.problem.empty()) {
    ending.err += "Problem: ";
    AppendEscaped(ending.err, shown.problem);
    ending.err += '\n';
  }
  return ending;
}

}  // namespace

Ending Run(const StoreShow& command, const CommonFlags& common, const StorageDeps& deps) {
  StoreSession store(deps);
  const Result<Object> object = store.Get(command.key);
  if (!object.has_value()) return Failed(object.error(), common.output);
  const std::string& prefix = command.cluster.secrets_prefix;
  const Shown shown = LookAt(command.key, object->bytes, prefix.empty() ? "secret/" : prefix);
  return common.output == Output::kJson ? JsonEnding(command.key, *object, shown)
                                        : TextEnding(command.key, *object, shown);
}

}  // namespace nstance::admin
