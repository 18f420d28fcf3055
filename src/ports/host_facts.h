// HostFacts: what an agent tells of the machine that it runs on, and by what a server knows that it
// still runs on the same one. Synchronous and quick: the kernel's own tables, no disk and no
// network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "core/agent/usage.h"

namespace nstance {

struct ConntrackUse {
  std::uint64_t count = 0;
  std::uint64_t max = 0;
};

// Each source by itself: one that fails takes nothing else with it.
struct HostReading {
  Result<agent::CpuTimes> cpu = {};
  Result<agent::MemorySizes> memory = {};
  // Empty without an interface to look at.
  std::optional<Result<agent::TrafficCounters>> traffic = std::nullopt;
  std::optional<Result<ConntrackUse>> conntrack = std::nullopt;
};

// Empty texts: there is none.
struct HostNames {
  std::string hostname = {};
  // First address of an interface that is up, neither loopback nor link-local.
  std::string ipv4 = {};
  std::string ipv6 = {};
};

class HostFacts {
 public:
  HostFacts() = default;
  HostFacts(const HostFacts&) = delete;
  HostFacts& operator=(const HostFacts&) = delete;
  virtual ~HostFacts() = default;

  [[nodiscard]] virtual HostReading Sample() = 0;
  // Whole seconds.
  [[nodiscard]] virtual Result<Duration> Uptime() = 0;
  [[nodiscard]] virtual Result<Timestamp> BootedAt() = 0;
  // Another one whenever this kernel is not the one that was asked before: the machine started
  // again, or the memory of this process was saved and goes on elsewhere.
  [[nodiscard]] virtual Result<std::string> BootId() = 0;
  [[nodiscard]] virtual HostNames Names() = 0;
};

}  // namespace nstance
