#include "core/fleet/subnet.h"

#include <tuple>

namespace nstance::fleet {

std::optional<std::size_t> ChooseSubnet(std::span<const SubnetView> subnets) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < subnets.size(); ++i) {
    if (subnets[i].full || subnets[i].room == std::uint64_t{0}) continue;
    if (!best || std::tie(subnets[i].live, subnets[i].id) <
                     std::tie(subnets[*best].live, subnets[*best].id)) {
      best = i;
    }
  }
  return best;
}

}  // namespace nstance::fleet
