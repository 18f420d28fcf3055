#include "adapters/provider_local/records.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "base/json.h"
#include "base/text.h"
#include "core/config/words.h"
#include "crypto/digest.h"

namespace nstance::provider_local {
namespace {

constexpr std::int64_t kVersion = 1;

// Which member of Meta each key of text is.
using TextMember = std::pair<std::string_view, std::string Meta::*>;
constexpr std::array kTexts = std::to_array<TextMember>({
    {"cluster_id", &Meta::cluster_id},
    {"shard", &Meta::shard},
    {"tenant", &Meta::tenant},
    {"group", &Meta::group},
    {"template", &Meta::template_name},
    {"kind", &Meta::kind},
    {"instance_type", &Meta::instance_type},
    {"subnet", &Meta::subnet},
    {"region", &Meta::region},
    {"zone", &Meta::zone},
    {"request_sha256", &Meta::request_sha256},
    {"shell", &Meta::shell},
});

json::Value Text(std::string_view text) { return json::Value::String(std::string(text)); }

json::Value Map(const std::map<std::string, std::string>& map) {
  json::Value value = json::Value::Map({});
  for (const auto& [key, text] : map) value.Set(key, Text(text));
  return value;
}

Error Damaged(std::string_view what) {
  return Error{.code = Code::kDataLoss, .outcome = Outcome::kNotDone, .message = std::string(what)};
}

// Reads members of one object; the first one that is missing or wrong is remembered.
class Reader final {
 public:
  explicit Reader(const json::Value& object) : object_(object) {}

  std::string String(std::string_view key) {
    const json::Value* value = object_.Find(key);
    const std::string* text = value == nullptr ? nullptr : value->if_string();
    if (text == nullptr) Missing(key);
    return text == nullptr ? std::string() : *text;
  }
  std::int64_t Integer(std::string_view key) {
    const json::Value* value = object_.Find(key);
    const std::int64_t* number = value == nullptr ? nullptr : value->if_integer();
    if (number == nullptr || *number < 0) Missing(key);
    return number == nullptr ? 0 : *number;
  }
  std::map<std::string, std::string> Strings(std::string_view key) {
    std::map<std::string, std::string> map;
    const json::Value* value = object_.Find(key);
    const json::Object* members = value == nullptr ? nullptr : value->if_object();
    if (members == nullptr) {
      Missing(key);
      return map;
    }
    for (const json::Member& member : *members) {
      const std::string* text = member.value.if_string();
      if (text == nullptr) {
        Missing(key);
      } else {
        map.emplace(member.key, *text);
      }
    }
    return map;
  }
  Timestamp Time(std::string_view key) {
    const auto time = ParseTimestamp(String(key));
    if (!time) Missing(key);
    return time.value_or(Timestamp());
  }
  [[nodiscard]] bool Has(std::string_view key) const { return object_.Find(key) != nullptr; }

  [[nodiscard]] Status Finish(std::string_view what) const {
    if (bad_.empty()) return {};
    return Fail(Damaged(fmt::format("{}: {} is missing or damaged", what, bad_)));
  }

 private:
  void Missing(std::string_view key) {
    if (bad_.empty()) bad_ = key;
  }
  const json::Value& object_;
  std::string bad_;
};

Result<json::Value> ParseRecord(std::string_view text, std::string_view what) {
  auto value = json::Parse(text, {.max_bytes = kRecordLimit, .max_depth = 8});
  if (!value) return Fail(Damaged(fmt::format("{}: {}", what, value.error().message)));
  const json::Value* version = value->Find("version");
  const std::int64_t* number = version == nullptr ? nullptr : version->if_integer();
  if (number == nullptr || *number != kVersion) {
    return Fail(Damaged(fmt::format("{}: not of version {}", what, kVersion)));
  }
  return value;
}

bool IsVariableName(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_later = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, is_later);
}

Result<std::map<std::string, std::string>> ParseEnvironment(const json::Value& value) {
  const json::Object* members = value.if_object();
  if (members == nullptr) {
    return Fail(InvalidArgument(
        fmt::format("args.Env: {}; must be an object with texts", json::TypeName(value.type()))));
  }
  std::map<std::string, std::string> environment;
  for (const json::Member& member : *members) {
    const std::string* text = member.value.if_string();
    if (text == nullptr) {
      return Fail(InvalidArgument(fmt::format("args.Env.{}: {}; must be a text", Quote(member.key),
                                              json::TypeName(member.value.type()))));
    }
    environment.insert_or_assign(member.key, *text);
  }
  RETURN_IF_ERROR(CheckEnvironment(environment, "args.Env"));
  return environment;
}

Result<Duration> ParseLimit(const json::Value& value) {
  const std::string* text = value.if_string();
  const auto limit = text == nullptr ? Result<Duration>(Fail(InvalidArgument("not a text")))
                                     : ParseDuration(*text);
  if (!limit || *limit <= Duration()) {
    return Fail(InvalidArgument("args.Timeout: must be a duration above zero, like \"1h30m\""));
  }
  return *limit;
}

}  // namespace

std::string WriteMeta(const Meta& meta) {
  json::Value value = json::Value::Map({});
  value.Set("version", json::Value::Integer(kVersion));
  value.Set("instance_id", Text(meta.instance_id.text()));
  for (const auto& [key, member] : kTexts) value.Set(key, Text(meta.*member));
  value.Set("created_at", Text(FormatTimestamp(meta.created_at)));
  value.Set("tags", Map(meta.tags));
  value.Set("environment", Map(meta.environment));
  if (meta.run_limit) {
    value.Set("run_limit_ns", json::Value::Integer(meta.run_limit->nanoseconds()));
  }
  value.Set("kill_grace_ns", json::Value::Integer(meta.kill_grace.nanoseconds()));
  return json::Write(value, {.indent = 2}) + "\n";
}

Result<Meta> ParseMeta(std::string_view text) {
  ASSIGN_OR_RETURN(const json::Value value, ParseRecord(text, kMetaFile));
  Reader reader(value);
  const auto id = ParsePuidv7(reader.String("instance_id"));
  if (!id) return Fail(Damaged(fmt::format("{}: instance_id is damaged", kMetaFile)));
  Meta meta{.instance_id = *id};
  for (const auto& [key, member] : kTexts) meta.*member = reader.String(key);
  meta.created_at = reader.Time("created_at");
  meta.tags = reader.Strings("tags");
  meta.environment = reader.Strings("environment");
  if (reader.Has("run_limit_ns")) {
    meta.run_limit = Duration::Nanoseconds(reader.Integer("run_limit_ns"));
  }
  meta.kill_grace = Duration::Nanoseconds(reader.Integer("kill_grace_ns"));
  RETURN_IF_ERROR(reader.Finish(kMetaFile));
  return meta;
}

std::string WriteRun(const Run& run) {
  json::Value value = json::Value::Map({});
  value.Set("version", json::Value::Integer(kVersion));
  value.Set("pid", json::Value::Integer(run.keeper.pid));
  value.Set("start_time", json::Value::Integer(static_cast<std::int64_t>(run.keeper.start_time)));
  value.Set("boot_id", Text(run.boot_id));
  value.Set("pid_namespace", Text(run.pid_namespace));
  value.Set("started_at", Text(FormatTimestamp(run.started_at)));
  if (run.exit_code) value.Set("exit_code", json::Value::Integer(*run.exit_code));
  return json::Write(value, {.indent = 2}) + "\n";
}

Result<Run> ParseRun(std::string_view text) {
  ASSIGN_OR_RETURN(const json::Value value, ParseRecord(text, kRunFile));
  Reader reader(value);
  Run run;
  const std::int64_t pid = reader.Integer("pid");
  if (pid <= 1 || pid > std::numeric_limits<pid_t>::max()) {
    return Fail(Damaged(fmt::format("{}: pid is damaged", kRunFile)));
  }
  run.keeper.pid = static_cast<pid_t>(pid);
  run.keeper.start_time = static_cast<std::uint64_t>(reader.Integer("start_time"));
  run.boot_id = reader.String("boot_id");
  run.pid_namespace = reader.String("pid_namespace");
  run.started_at = reader.Time("started_at");
  if (reader.Has("exit_code")) {
    run.exit_code = static_cast<int>(std::min<std::int64_t>(reader.Integer("exit_code"), 255));
  }
  RETURN_IF_ERROR(reader.Finish(kRunFile));
  return run;
}

Result<Meta> ReadMeta(int folder) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(folder, std::string(kMetaFile), kRecordLimit));
  return ParseMeta(text);
}

Result<std::optional<Run>> ReadRun(int folder) {
  const auto text = ReadFile(folder, std::string(kRunFile), kRecordLimit);
  if (!text && text.error().code == Code::kNotFound) return std::nullopt;
  if (!text) return Fail(text.error());
  ASSIGN_OR_RETURN(Run run, ParseRun(*text));
  return run;
}

Status CheckEnvironment(const std::map<std::string, std::string>& environment,
                        std::string_view where) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : environment) {
    if (!IsVariableName(name)) {
      return Fail(InvalidArgument(fmt::format(
          "{}: {} is no name of a variable; allowed are letters, digits and _, no digit first",
          where, Quote(name))));
    }
    if (name == kMarkVariable) {
      return Fail(InvalidArgument(fmt::format("{}: {} is reserved", where, kMarkVariable)));
    }
    if (value.find('\0') != std::string::npos) {
      return Fail(InvalidArgument(
          fmt::format("{}.{}: a zero byte; a variable cannot hold one", where, name)));
    }
    bytes += name.size() + value.size() + 2;
  }
  if (bytes > kMaxEnvironmentBytes) {
    return Fail(InvalidArgument(
        fmt::format("{}: {} bytes; at most {} are allowed", where, bytes, kMaxEnvironmentBytes)));
  }
  return {};
}

Result<LocalArgs> ParseArgs(const json::Object& args) {
  LocalArgs parsed;
  for (const json::Member& member : args) {
    if (member.key == "Env") {
      ASSIGN_OR_RETURN(parsed.environment, ParseEnvironment(member.value));
    } else if (member.key == "Timeout") {
      ASSIGN_OR_RETURN(parsed.run_limit, ParseLimit(member.value));
    } else {
      return Fail(InvalidArgument(fmt::format(
          "args.{}: unknown; the provider local knows Env and Timeout", Quote(member.key))));
    }
  }
  return parsed;
}

std::string RequestDigest(const ProviderCreate& request) {
  json::Value value = json::Value::Map({});
  value.Set("instance_id", Text(request.instance_id.text()));
  value.Set("tenant", Text(request.tenant.text()));
  value.Set("group", Text(request.group));
  value.Set("template", Text(request.template_name));
  value.Set("kind", Text(request.kind));
  value.Set("arch", Text(config::Word(request.arch)));
  value.Set("instance_type", Text(request.instance_type));
  value.Set("subnet", Text(request.subnet));
  value.Set("args", json::Value::Map(request.args));
  value.Set("user_data_sha256", Text(crypto::Sha256Hex(AsBytes(request.user_data))));
  value.Set("tags", Map(request.tags));
  value.Set("created_at", Text(FormatTimestamp(request.created_at)));
  return crypto::Sha256Hex(AsBytes(json::WriteCanonical(value)));
}

}  // namespace nstance::provider_local
