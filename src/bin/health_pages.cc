#include "bin/health_pages.h"

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "core/instance_config/template_check.h"
#include "server/config_source.h"

namespace nstance {

config::Address FirstHealthAddress(const ServerCommandLine& line) {
  if (line.bind.health_addr) return *line.bind.health_addr;
  for (const auto layout : {config::Layout::kNstance, config::Layout::kNstanceV2}) {
    std::ifstream file(line.cachedir + "/" + std::string(ConfigCacheName(layout)),
                       std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    const config::LoadResult loaded = LoadChecked(text);
    if (loaded.config) return loaded.config->server.bind.health_addr;
  }
  return config::Addresses{}.health_addr;
}

Status HealthPages::Open(const config::Address& address) {
  auto server = std::make_shared<WatchedHttpServer>(loop_);
  ASSIGN_OR_RETURN(const std::uint16_t port,
                   server->Listen(address.host, address.port,
                                  [this](const HttpQuestion& question, HttpReply reply) {
                                    page_(question, std::move(reply));
                                  }));
  asked_ = address;
  bound_ = {.host = address.host, .port = port};
  // The old one may be answering: it goes in a turn of its own.
  loop_.Post([old = std::exchange(server_, std::move(server))] {});
  return {};
}

Status HealthPages::Follow(const config::Address& address) {
  if (address == asked_ || address.port == 0 || asked_.port == 0) return {};
  if (address.port != asked_.port) return Open(address);
  // Another host of the same port, which only one of the two can have.
  const config::Address old = asked_;
  server_.reset();
  Status moved = Open(address);
  if (!moved) RETURN_IF_ERROR(Open(old));
  return moved;
}

}  // namespace nstance
