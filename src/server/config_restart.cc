#include "server/config_restart.h"

namespace nstance {

std::vector<std::string_view> NeedsRestart(const config::Config& started,
                                           const config::Config& now) {
  const config::Server& was = started.server;
  const config::Server& is = now.server;
  std::vector<std::string_view> keys;
  const auto note = [&](bool differs, std::string_view key) {
    if (differs) keys.push_back(key);
  };
  note(was.bind != is.bind, "server.bind");
  note(was.advertise != is.advertise, "server.advertise");
  note(was.storage != is.storage, "server.storage");
  note(was.secrets.provider != is.secrets.provider, "server.secrets.provider");
  note(was.provider.kind != is.provider.kind, "server.provider.kind");
  note(was.leader_election != is.leader_election, "server.leader_election");
  return keys;
}

}  // namespace nstance
