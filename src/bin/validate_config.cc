#include "bin/validate_config.h"

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "bin/server_factories.h"
#include "core/instance_config/template_check.h"
#include "server/inactive_features.h"
#include "storage/prefixed_store.h"

namespace nstance {
namespace {

constexpr int kExitFatal = 1;
constexpr int kExitInvalid = 3;

struct Text {
  std::string name;
  std::string bytes;
  config::Layout layout = config::Layout::kNstance;
};

Result<Text> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(Unavailable(path + ": cannot be read"));
  std::string bytes(ObjectStore::kMaxObjectBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad() || bytes.size() > ObjectStore::kMaxObjectBytes) {
    return Fail(InvalidArgument(fmt::format("{}: cannot be read, or larger than {} bytes", path,
                                            ObjectStore::kMaxObjectBytes)));
  }
  return Text{.name = path, .bytes = std::move(bytes)};
}

Result<Text> ReadStored(const ServerCommandLine& line) {
  RealLoop loop;
  CurlHttpClient http({.io = loop, .home = loop});
  ASSIGN_OR_RETURN(const std::unique_ptr<OpenedStore> parts,
                   OpenStore(AddressOf(line), loop, http));
  ASSIGN_OR_RETURN(const std::string prefix, CheckStorePrefix(line.prefix));
  const std::vector<ConfigSource::Place> places =
      ConfigPlaces({.id = line.id,
                    .shard = *ShardId::Parse(line.shard),
                    .layout = line.layout,
                    .prefix = prefix});
  for (const ConfigSource::Place& place : places) {
    std::optional<Result<Object>> answer;
    const Pending call = parts->store().Get(place.key, [&](Result<Object> object) {
      answer.emplace(std::move(object));
      loop.Stop();
    });
    loop.Run();
    if (answer->has_value()) {
      return Text{
          .name = place.key.text(), .bytes = std::move((*answer)->bytes), .layout = place.layout};
    }
    if (answer->error().code != Code::kNotFound || place.key == places.back().key) {
      return Fail(std::move(*answer).error().Under(places.front().key.text()));
    }
  }
  return Fail(Internal("no place for a configuration"));
}

}  // namespace

ServerEnding ValidateConfig(const ServerCommandLine& line) {
  const bool stored = line.validate_file.empty();
  const Result<Text> text = stored ? ReadStored(line) : ReadFile(line.validate_file);
  if (!text.has_value()) {
    return {.exit_code = kExitFatal, .err = fmt::format("Error: {}\n", text.error().message)};
  }
  const config::LoadResult loaded = LoadChecked(text->bytes, {.layout = text->layout});
  ServerEnding ending;
  for (const auto& problem : loaded.warnings) {
    ending.out += config::Format(problem, text->name) + "\n";
  }
  for (const auto& problem : loaded.errors) {
    ending.out += config::Format(problem, text->name) + "\n";
  }
  if (!loaded.errors.empty()) ending.exit_code = kExitInvalid;
  if (!loaded.config) return ending;
  for (const std::string& warning : InactiveFeatures(*loaded.config)) {
    ending.out += fmt::format("{}: warning: {}\n", text->name, warning);
  }
  if (stored && loaded.config->server.shard.text() != line.shard) {
    ending.exit_code = kExitInvalid;
    ending.out += fmt::format("{}: error: server.shard: {} is not the --shard {}\n", text->name,
                              loaded.config->server.shard.text(), line.shard);
  }
  return ending;
}

}  // namespace nstance
