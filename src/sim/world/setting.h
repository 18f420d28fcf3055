// Setting: what a simulated cluster consists of, and the configuration that its servers read.
//
// One cluster `c1` with shards `a` and `b` in one bucket. Tenants `default` and `prod`. Each shard
// has an address (its leader network) that whoever leads has on its machine; agents and operators
// dial it. All times are shrunk so that T_quiet stays below a quarter of an hour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/name.h"
#include "base/time.h"
#include "core/fleet/times.h"

namespace nstance::sim {

inline constexpr std::uint16_t kRegistrationPort = 8992;
inline constexpr std::uint16_t kOperatorPort = 8993;
inline constexpr std::uint16_t kAgentPort = 8994;

[[nodiscard]] const ClusterId& SimCluster();
[[nodiscard]] const ShardId& ShardA();
[[nodiscard]] const ShardId& ShardB();
[[nodiscard]] const TenantId& Prod();
[[nodiscard]] Timestamp WorldStart();
// The address that moves with the shard's leadership.
[[nodiscard]] std::string LeaderAddress(const ShardId& shard);

struct Setting {
  int servers_a = 2;
  int servers_b = 1;
  int workers = 10;  // default/workers, shard a.
  int api = 5;       // prod/api, shard a.
  int edge = 4;      // prod/edge, shard b.
  Duration consistency_window = {};
  Duration interval = Duration::Seconds(20);
  Duration report = Duration::Seconds(10);
  Duration drain_timeout = Duration::Seconds(60);
  Duration agent_life = Duration::Hours(2);
  Duration sweep = Duration::Seconds(30);
  Duration orphan_grace = Duration::Minutes(1);
  Duration brake_window = Duration::Minutes(1);
  Duration lease = Duration::Seconds(8);
  Duration renew = Duration::Seconds(2);
  Duration store_timeout = Duration::Seconds(3);
  Duration request_timeout = Duration::Seconds(10);
  // Of unordered deletions: expiry after so long; zero: never.
  Duration eligible_age = {};
  fleet::FleetTimes times = {.t_vis = Duration::Seconds(20),
                             .t_settle = Duration::Seconds(40),
                             .t_grace = Duration::Seconds(15),
                             .t_mass = Duration::Minutes(2),
                             .t_intent = Duration::Minutes(2),
                             .registration_timeout = Duration::Minutes(1),
                             .proven_after = Duration::Seconds(20)};

  // How much one turn of a server's loop may plan (load.md LB16): groups and instances.
  std::size_t steps_per_turn = 10'000;

  // Above zero: servers keep their rows in SQLite, on disks whose faults are drawn from it.
  std::uint64_t database_seed = 0;

  // faults.md 1, from these values.
  [[nodiscard]] Duration Quiet() const;
};

// What administrators change in a shard's file while the world runs.
struct ConfigEdits {
  std::map<std::pair<std::string, std::string>, int> sizes = {};  // By tenant and static group.
  int generation = 1;                                             // Of the template's user data.
  bool broken = false;                                            // The file does not validate.
};
[[nodiscard]] ConfigEdits FirstEdits(const Setting& setting, const ShardId& shard);
[[nodiscard]] std::string ConfigText(const Setting& setting, const ShardId& shard,
                                     const ConfigEdits& edits);

}  // namespace nstance::sim
