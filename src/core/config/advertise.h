// Advertised addresses: what others are told to connect to (config.md 4.2).
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "core/config/config.h"

namespace nstance::config {

// What the program knows about its host; empty: it has no such address.
struct HostAddresses {
  std::string ipv4 = {};
  std::string ipv6 = {};
};

struct AdvertiseInputs {
  HostAddresses primary = {};
  std::optional<std::string> advertise_host = std::nullopt;  // --advertise-host
  Addresses bound = {};  // As really bound: only the ports are used.
};

// Every host is named and every port is not zero, provided that those of `bound` are not.
//   - What `server.advertise` gives is kept; the rest comes from `server.bind`.
//   - Port 0 is the port that was bound.
//   - An empty, 0.0.0.0 or :: host becomes the host's primary address, in the family of the health
//     address that is bound; with provider `local` on a loopback bind, that loopback.
//   - `advertise_host` replaces the host of the health and election addresses; an error when the
//     configuration names one there.
[[nodiscard]] Result<Addresses> AdvertisedAddresses(const Server& server,
                                                    const AdvertiseInputs& inputs);

}  // namespace nstance::config
