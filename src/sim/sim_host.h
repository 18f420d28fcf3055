// SimHost: ports/host_facts.h whose values a test sets.
#pragma once

#include "ports/host_facts.h"

namespace nstance::sim {

class SimHost final : public HostFacts {
 public:
  HostReading reading = {.cpu = agent::CpuTimes{}, .memory = agent::MemorySizes{.total = 1}};
  Result<Duration> uptime = Duration::Seconds(59);
  Result<Timestamp> booted_at = Timestamp::FromUnix(1'700'000'000);
  Result<std::string> boot_id = std::string("boot-1");
  HostNames names = {.hostname = "sim-host", .ipv4 = "10.0.0.7"};

  [[nodiscard]] HostReading Sample() override { return reading; }
  [[nodiscard]] Result<Duration> Uptime() override { return uptime; }
  [[nodiscard]] Result<Timestamp> BootedAt() override { return booted_at; }
  [[nodiscard]] Result<std::string> BootId() override { return boot_id; }
  [[nodiscard]] HostNames Names() override { return names; }
};

}  // namespace nstance::sim
