#include "bin/addresses_file.h"

#include "adapters/cache_folder/disk_cache_folder.h"
#include "base/json.h"
#include "core/config/config.h"

namespace nstance {

Status AddressesFile::Write(std::int64_t epoch, const std::map<RpcPort, RpcAddress>& open) const {
  if (path_.empty()) return {};
  json::Object members;
  const auto add = [&](std::string key, json::Value value) {
    members.push_back({.key = std::move(key), .key_position = {}, .value = std::move(value)});
  };
  const auto text = [](const RpcAddress& address) {
    const std::string host = address.host.empty() ? "127.0.0.1" : address.host;
    return json::Value::String(config::FormatAddress({.host = host, .port = address.port}));
  };
  add("health", text(health_));
  if (election_.port != 0) add("election", text(election_));
  for (const auto& [port, address] : open) add(std::string(RpcPortName(port)), text(address));
  add("epoch", json::Value::Integer(epoch));
  return ReplaceFile(path_, json::Write(json::Value::Map(std::move(members))) + "\n", 0644);
}

}  // namespace nstance
