// LinuxHost: ports/host_facts.h from /proc, /sys and the interface list.
#pragma once

#include <string>

#include "ports/host_facts.h"

namespace nstance {

class LinuxHost final : public HostFacts {
 public:
  struct Options {
    std::string interface = {};  // Whose counters are read; empty: neither these nor conntrack.
    std::string root = {};       // In front of /proc and /sys; for tests.
  };
  explicit LinuxHost(Options options) : options_(std::move(options)) {}

  [[nodiscard]] HostReading Sample() override;
  [[nodiscard]] Result<Duration> Uptime() override;
  [[nodiscard]] Result<Timestamp> BootedAt() override;
  // The kernel's boot id alone. A virtual machine that is set back to a saved state keeps it, and
  // no file tells such a machine's generation dependably: Linux's `vmgenid` driver gives the id to
  // the kernel's random generator and at most an event without it (`NEW_VMGENID=1`) to programs,
  // and the counter in `/dev/vmclock0` is there only with the newest kernels on few hypervisors.
  [[nodiscard]] Result<std::string> BootId() override;
  [[nodiscard]] HostNames Names() override;

 private:
  [[nodiscard]] Result<std::string> ReadText(const std::string& path) const;
  [[nodiscard]] Result<std::uint64_t> ReadCounter(const std::string& path) const;
  [[nodiscard]] Result<agent::TrafficCounters> ReadTraffic() const;
  [[nodiscard]] Result<ConntrackUse> ReadConntrack() const;

  Options options_;
};

}  // namespace nstance
