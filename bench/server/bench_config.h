// The flags of nstance_bench_server, those of bench/baseline_go's server, and the configuration of
// the shard that follows from them.
//
//   -dir DIR -addresses-file F [-store URL] [-instances N] [-per-tenant N] [-tenants a,b]
//   [-interval D] [-create-ms N]
//
// `-instances N` become groups of at most 100, so that their creations run side by side; with
// `-per-tenant M` every M of them belong to a tenant of their own, t0, t1 and so on.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace nstance::bench {

struct BenchFlags {
  std::string dir = {};
  std::string addresses_file = {};
  std::string store = {};  // "http://host:port/bucket"; empty: files below `dir`.
  std::int64_t instances = 0;
  std::int64_t per_tenant = 0;
  std::set<std::string> tenants = {"default"};  // All of them, `default` included.
  Duration create_time = {};                    // How long the provider takes.
};

inline constexpr const char* kBenchCluster = "bench";
inline constexpr const char* kBenchShard = "a";
inline constexpr const char* kBenchTemplate = "bench";  // As the generator's upserts name it.

// `words` without the program's own name.
[[nodiscard]] Result<BenchFlags> ReadBenchFlags(std::span<const std::string> words);

// What config/a.jsonc holds. User data is the registration token alone.
[[nodiscard]] std::string BenchConfig(const BenchFlags& flags);

}  // namespace nstance::bench
