#include "core/config/advertise.h"

#include <array>
#include <string_view>

#include <fmt/core.h>

#include "base/text.h"

namespace nstance::config {
namespace {

struct Part {
  std::string_view key;
  Address Addresses::* bound;
  std::optional<Address> Advertise::* advertised;
  bool by_flag;  // --advertise-host applies.
};

constexpr std::array kParts = {
    Part{"health_addr", &Addresses::health_addr, &Advertise::health_addr, true},
    Part{"election_addr", &Addresses::election_addr, &Advertise::election_addr, true},
    Part{"registration_addr", &Addresses::registration_addr, &Advertise::registration_addr, false},
    Part{"operator_addr", &Addresses::operator_addr, &Advertise::operator_addr, false},
    Part{"agent_addr", &Addresses::agent_addr, &Advertise::agent_addr, false},
};

bool IsUnspecified(std::string_view host) {
  return host.empty() || host == "0.0.0.0" || host == "::";
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// What stands for an unspecified host.
std::string PrimaryHost(const Server& server, const HostAddresses& primary) {
  const std::string& health = server.bind.health_addr.host;
  if (server.provider.kind == ProviderKind::kLocal && IsLoopback(health)) return health;
  const bool six = health.find(':') != std::string::npos;
  if (six) return primary.ipv6;
  if (health.empty() && primary.ipv4.empty()) return primary.ipv6;
  return primary.ipv4;
}

}  // namespace

Result<Addresses> AdvertisedAddresses(const Server& server, const AdvertiseInputs& inputs) {
  Addresses advertised;
  const std::string primary = PrimaryHost(server, inputs.primary);
  for (const Part& part : kParts) {
    const std::optional<Address>& given = server.advertise.*part.advertised;
    Address address = given.value_or(server.bind.*part.bound);
    if (address.port == 0) address.port = (inputs.bound.*part.bound).port;
    if (part.by_flag && inputs.advertise_host) {
      if (given && !IsUnspecified(given->host)) {
        return Fail(InvalidArgument(fmt::format(
            "--advertise-host: server.advertise.{} names the host {} already; one of the two",
            part.key, Quote(given->host))));
      }
      address.host = *inputs.advertise_host;
    }
    if (IsUnspecified(address.host)) address.host = primary;
    if (address.host.empty()) {
      return Fail(FailedPrecondition(
          fmt::format("server.advertise.{}: this host has no address to advertise; name one here, "
                      "or with --advertise-host",
                      part.key)));
    }
    advertised.*part.bound = std::move(address);
  }
  return advertised;
}

}  // namespace nstance::config
