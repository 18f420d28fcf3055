#include "core/instance_config/config_hash.h"

#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"

namespace nstance {
namespace {

using config::File;
using config::StringMap;
using config::UserData;

// An object whose keys stand in the order of the calls.
class ObjectWriter final {
 public:
  explicit ObjectWriter(std::string& out) : out_(out) { out_ += '{'; }

  std::string& Key(std::string_view key) {
    if (!first_) out_ += ',';
    first_ = false;
    json::AppendString(out_, key);
    out_ += ':';
    return out_;
  }
  void String(std::string_view key, std::string_view value) { json::AppendString(Key(key), value); }
  void StringUnlessEmpty(std::string_view key, std::string_view value) {
    if (!value.empty()) String(key, value);
  }
  void Close() { out_ += '}'; }

 private:
  std::string& out_;
  bool first_ = true;
};

void AppendMap(std::string& out, const StringMap& map) {
  ObjectWriter object(out);
  for (const auto& [key, value] : map) object.String(key, value);
  object.Close();
}

void AppendFile(std::string& out, const File& file) {
  ObjectWriter object(out);
  object.String("kind", config::Word(file.kind));
  object.StringUnlessEmpty("source", file.source);
  if (file.content && !file.content->is_null()) {
    object.Key("template") += json::WriteCanonical(*file.content);
  }
  if (file.key) {
    ObjectWriter key(object.Key("key"));
    key.String("source", file.key->source);
    key.String("name", file.key->name);
    key.Close();
  }
  object.Close();
}

void AppendUserData(std::string& out, const UserData& userdata) {
  ObjectWriter object(out);
  object.StringUnlessEmpty("source", userdata.source.value_or(""));
  object.StringUnlessEmpty("encoding", userdata.encoding.value_or(""));
  object.String("content", userdata.content);
  object.StringUnlessEmpty("sha256", userdata.sha256);
  object.Close();
}

std::string Hashed(std::string_view text) { return "sha256:" + crypto::Sha256Hex(AsBytes(text)); }

}  // namespace

std::string RuntimeConfigJson(const StringMap& vars, const std::map<std::string, File>& files) {
  std::string out;
  ObjectWriter object(out);
  AppendMap(object.Key("vars"), vars);
  ObjectWriter listed(object.Key("files"));
  for (const auto& [name, file] : files) AppendFile(listed.Key(name), file);
  listed.Close();
  object.Close();
  return out;
}

std::string InfraConfigJson(const MergedInstanceConfig& config) {
  std::string out;
  ObjectWriter object(out);
  object.Key("args") += json::WriteCanonical(json::Value::Map(config.args));
  object.String("instance_type", config.instance_type);
  object.String("subnet_pool", config.subnet_pool ? config.subnet_pool->text() : "");
  if (config.userdata) AppendUserData(object.Key("userdata"), *config.userdata);
  object.String("kind", config.kind);
  object.String("arch", config::Word(config.arch));
  object.Close();
  return out;
}

std::string RuntimeConfigHash(const MergedInstanceConfig& config) {
  return Hashed(RuntimeConfigJson(config.vars, config.files));
}

std::string InfraConfigHash(const MergedInstanceConfig& config) {
  return Hashed(InfraConfigJson(config));
}

std::string WarmConfigHash(const MergedInstanceConfig& config,
                           const std::vector<std::string>& warm_files) {
  std::map<std::string, File> files;
  for (const std::string& name : warm_files) {
    const auto found = config.files.find(name);
    if (found != config.files.end()) files.insert(*found);
  }
  return Hashed(RuntimeConfigJson(config.vars, files));
}

}  // namespace nstance
