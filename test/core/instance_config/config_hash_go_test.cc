// Config hashes against Go's own encoder: generated configurations go to the peer as JSON texts
// with shuffled keys and odd spellings; both hashes must be ours.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/instance_config/config_hash.h"
#include "test/core/instance_config/random_config.h"
#include "test/support/peers.h"
#include "test/support/process.h"

namespace nstance::test {
namespace {

json::Value MapOf(const config::StringMap& map) {
  json::Value object = json::Value::Map({});
  for (const auto& [key, value] : map) object.Set(key, json::Value::String(value));
  return object;
}

json::Value FileOf(const config::File& file) {
  json::Value object = json::Value::Map({});
  object.Set("kind", json::Value::String(std::string(config::Word(file.kind))));
  if (!file.source.empty()) object.Set("source", json::Value::String(file.source));
  if (file.content) object.Set("template", *file.content);
  if (file.key) {
    json::Value key = json::Value::Map({});
    key.Set("name", json::Value::String(file.key->name));
    key.Set("source", json::Value::String(file.key->source));
    object.Set("key", std::move(key));
  }
  return object;
}

json::Value UserDataOf(const config::UserData& userdata) {
  json::Value object = json::Value::Map({});
  if (userdata.source) object.Set("source", json::Value::String(*userdata.source));
  if (userdata.encoding) object.Set("encoding", json::Value::String(*userdata.encoding));
  object.Set("content", json::Value::String(userdata.content));
  if (!userdata.sha256.empty()) object.Set("sha256", json::Value::String(userdata.sha256));
  return object;
}

// The configuration as a file would give it to a Go program.
json::Value TextOf(const MergedInstanceConfig& config) {
  json::Value object = json::Value::Map({});
  object.Set("vars", MapOf(config.vars));
  json::Value files = json::Value::Map({});
  for (const auto& [name, file] : config.files) files.Set(name, FileOf(file));
  object.Set("files", std::move(files));
  object.Set("args", json::Value::Map(config.args));
  object.Set("instance_type", json::Value::String(config.instance_type));
  object.Set("subnet_pool",
             json::Value::String(config.subnet_pool ? config.subnet_pool->text() : ""));
  if (config.userdata) object.Set("userdata", UserDataOf(*config.userdata));
  object.Set("kind", json::Value::String(config.kind));
  object.Set("arch", json::Value::String(std::string(config::Word(config.arch))));
  return object;
}

TEST(ConfigHashGoTest, BothHashesAreThoseOfGosEncoder) {
  NSTANCE_GO_PEER_OR_SKIP(peer, "go_config_hash");
  std::string input;
  std::vector<std::string> ours;
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    RandomConfig random(seed);
    const MergedInstanceConfig config = random.Next();
    RandomJson writer(seed);
    input += writer.Text(writer.Shuffled(TextOf(config)), {.one_line = true}) + "\n";
    ours.push_back(RuntimeConfigHash(config) + " " + InfraConfigHash(config));
  }
  const Result<ProcessOutput> answer = RunProcess({.argv = {peer}, .input = input});
  ASSERT_TRUE(answer) << answer.error().ToString();
  ASSERT_EQ(answer->exit_code, 0) << answer->err;
  std::string_view rest = answer->out;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    ASSERT_EQ(ours[i], line) << "seed " << i + 1;
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
}

}  // namespace
}  // namespace nstance::test
