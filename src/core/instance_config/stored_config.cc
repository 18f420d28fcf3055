#include "core/instance_config/stored_config.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/config/words.h"

namespace nstance {
namespace {

using config::File;
using config::StringMap;
using config::UserData;

json::Member MakeMember(std::string key, json::Value value) {
  return {.key = std::move(key), .key_position = {}, .value = std::move(value)};
}

void AddText(json::Object& out, std::string key, std::string_view text) {
  out.push_back(MakeMember(std::move(key), json::Value::String(std::string(text))));
}

void AddTextUnlessEmpty(json::Object& out, std::string key, std::string_view text) {
  if (!text.empty()) AddText(out, std::move(key), text);
}

json::Value EncodeMap(const StringMap& map) {
  json::Object out;
  for (const auto& [key, value] : map) AddText(out, key, value);
  return json::Value::Map(std::move(out));
}

json::Value EncodeFile(const File& file) {
  json::Object out;
  AddText(out, "kind", config::Word(file.kind));
  AddTextUnlessEmpty(out, "source", file.source);
  if (file.content) out.push_back(MakeMember("template", *file.content));
  if (file.key) {
    json::Object key;
    AddText(key, "source", file.key->source);
    AddText(key, "name", file.key->name);
    out.push_back(MakeMember("key", json::Value::Map(std::move(key))));
  }
  return json::Value::Map(std::move(out));
}

json::Value EncodeUserData(const UserData& userdata) {
  json::Object out;
  AddTextUnlessEmpty(out, "source", userdata.source.value_or(""));
  AddTextUnlessEmpty(out, "encoding", userdata.encoding.value_or(""));
  AddText(out, "content", userdata.content);
  AddTextUnlessEmpty(out, "sha256", userdata.sha256);
  return json::Value::Map(std::move(out));
}

Error Corrupt(std::string_view member, std::string_view what) {
  return {.code = Code::kDataLoss, .message = fmt::format("config: {}: {}", member, what)};
}

// Null: absent.
Result<const json::Object*> ObjectAt(const json::Value& from, std::string_view key) {
  const json::Value* value = from.Find(key);
  if (value == nullptr || value->is_null()) return nullptr;
  const json::Object* object = value->if_object();
  if (object == nullptr) return Fail(Corrupt(key, "must be an object"));
  return object;
}

Result<std::string> TextAt(const json::Value& from, std::string_view key) {
  const json::Value* value = from.Find(key);
  if (value == nullptr || value->is_null()) return std::string();
  const std::string* text = value->if_string();
  if (text == nullptr) return Fail(Corrupt(key, "must be a string"));
  return *text;
}

Result<StringMap> DecodeMap(const json::Value& from, std::string_view key) {
  StringMap out;
  ASSIGN_OR_RETURN(const json::Object* object, ObjectAt(from, key));
  if (object == nullptr) return out;
  for (const json::Member& member : *object) {
    const std::string* text = member.value.if_string();
    if (text == nullptr) return Fail(Corrupt(key, "must hold strings"));
    out[member.key] = *text;
  }
  return out;
}

Result<File> DecodeFile(const json::Value& from) {
  if (from.if_object() == nullptr) return Fail(Corrupt("files", "must hold objects"));
  File out;
  ASSIGN_OR_RETURN(const std::string kind, TextAt(from, "kind"));
  const auto word = config::FromWord<config::FileKind>(kind);
  if (!word) return Fail(Corrupt("files", "has a file of an unknown kind"));
  out.kind = *word;
  ASSIGN_OR_RETURN(out.source, TextAt(from, "source"));
  if (const json::Value* content = from.Find("template")) out.content = *content;
  const json::Value* key = from.Find("key");
  if (key == nullptr || key->is_null()) return out;
  config::FileKey file_key;
  ASSIGN_OR_RETURN(file_key.source, TextAt(*key, "source"));
  ASSIGN_OR_RETURN(file_key.name, TextAt(*key, "name"));
  out.key = std::move(file_key);
  return out;
}

Result<std::optional<UserData>> DecodeUserData(const json::Value& from) {
  const json::Value* userdata = from.Find("userdata");
  if (userdata == nullptr || userdata->is_null()) return std::nullopt;
  if (userdata->if_object() == nullptr) return Fail(Corrupt("userdata", "must be an object"));
  UserData out;
  ASSIGN_OR_RETURN(std::string source, TextAt(*userdata, "source"));
  if (!source.empty()) out.source = std::move(source);
  ASSIGN_OR_RETURN(std::string encoding, TextAt(*userdata, "encoding"));
  if (!encoding.empty()) out.encoding = std::move(encoding);
  ASSIGN_OR_RETURN(out.content, TextAt(*userdata, "content"));
  ASSIGN_OR_RETURN(out.sha256, TextAt(*userdata, "sha256"));
  return out;
}

}  // namespace

json::Object EncodeStoredConfig(const MergedInstanceConfig& config) {
  json::Object out;
  out.push_back(MakeMember("args", json::Value::Map(config.args)));
  out.push_back(MakeMember("vars", EncodeMap(config.vars)));
  json::Object files;
  for (const auto& [name, file] : config.files) files.push_back(MakeMember(name, EncodeFile(file)));
  out.push_back(MakeMember("files", json::Value::Map(std::move(files))));
  if (config.userdata) out.push_back(MakeMember("userdata", EncodeUserData(*config.userdata)));
  AddText(out, "instance_type", config.instance_type);
  AddText(out, "subnet_pool", config.subnet_pool ? config.subnet_pool->text() : "");
  AddText(out, "kind", config.kind);
  AddText(out, "arch", config::Word(config.arch));
  AddText(out, "template", config.template_name);
  return out;
}

Result<MergedInstanceConfig> DecodeStoredConfig(const json::Object& stored) {
  const json::Value from = json::Value::Map(stored);
  MergedInstanceConfig out;
  ASSIGN_OR_RETURN(const json::Object* args, ObjectAt(from, "args"));
  if (args != nullptr) out.args = *args;
  ASSIGN_OR_RETURN(out.vars, DecodeMap(from, "vars"));
  ASSIGN_OR_RETURN(const json::Object* files, ObjectAt(from, "files"));
  if (files != nullptr) {
    for (const json::Member& member : *files) {
      ASSIGN_OR_RETURN(out.files[member.key], DecodeFile(member.value));
    }
  }
  ASSIGN_OR_RETURN(out.userdata, DecodeUserData(from));
  ASSIGN_OR_RETURN(out.instance_type, TextAt(from, "instance_type"));
  ASSIGN_OR_RETURN(const std::string pool, TextAt(from, "subnet_pool"));
  if (!pool.empty()) {
    Result<SubnetPoolName> name = SubnetPoolName::Parse(pool);
    if (!name.has_value()) return Fail(Corrupt("subnet_pool", name.error().message));
    out.subnet_pool = std::move(name).value();
  }
  ASSIGN_OR_RETURN(out.kind, TextAt(from, "kind"));
  ASSIGN_OR_RETURN(const std::string arch, TextAt(from, "arch"));
  if (!arch.empty()) {
    const auto word = config::FromWord<config::Arch>(arch);
    if (!word) return Fail(Corrupt("arch", "is unknown"));
    out.arch = *word;
  }
  ASSIGN_OR_RETURN(out.template_name, TextAt(from, "template"));
  return out;
}

}  // namespace nstance
