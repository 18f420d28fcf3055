#include "bin/validate_config.h"

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "bin/server_store.h"
#include "core/instance_config/template_check.h"
#include "server/inactive_features.h"

namespace nstance {
namespace {

constexpr int kExitFatal = 1;
constexpr int kExitInvalid = 3;

struct Text {
  std::string name;
  std::string bytes;
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
  ASSIGN_OR_RETURN(const std::unique_ptr<ServerStore> parts,
                   OpenServerStore(AddressOf(line), loop, http));
  const std::string name = fmt::format("config/{}.jsonc", line.shard);
  ASSIGN_OR_RETURN(const ObjectKey key, ObjectKey::Parse(name));
  std::optional<Result<Object>> answer;
  const Pending call = parts->store().Get(key, [&](Result<Object> object) {
    answer.emplace(std::move(object));
    loop.Stop();
  });
  loop.Run();
  ASSIGN_OR_RETURN(Object object, Under(*std::move(answer), name));
  return Text{.name = name, .bytes = std::move(object.bytes)};
}

}  // namespace

ServerEnding ValidateConfig(const ServerCommandLine& line) {
  const bool stored = line.validate_file.empty();
  const Result<Text> text = stored ? ReadStored(line) : ReadFile(line.validate_file);
  if (!text.has_value()) {
    return {.exit_code = kExitFatal, .err = fmt::format("Error: {}\n", text.error().message)};
  }
  const config::LoadResult loaded = LoadChecked(text->bytes);
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
