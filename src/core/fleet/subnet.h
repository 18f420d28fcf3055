// Which subnet of its pool a new instance goes to: one that is not full by the provider's word,
// with the fewest live instances, then by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace nstance::fleet {

struct SubnetView {
  std::string id = {};
  int live = 0;  // Instances of the shard in it that are neither gone nor failed.
  bool full = false;
  // Places that are left, by the provider's word; empty: no limit is known. Zero is full.
  std::optional<std::uint64_t> room = std::nullopt;
  friend bool operator==(const SubnetView&, const SubnetView&) = default;
};

// Its index; nothing when all are full or there is none.
[[nodiscard]] std::optional<std::size_t> ChooseSubnet(std::span<const SubnetView> subnets);

}  // namespace nstance::fleet
