// The texts of /proc and /sys as numbers. Total: any text gives a value or kInvalidArgument.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "core/agent/usage.h"

namespace nstance::agent {

// Lines `cpu` and `cpuN` of /proc/stat. Guest time is part of user time and is not counted twice;
// time waiting for I/O is idle. At most 4096 cores.
[[nodiscard]] Result<CpuTimes> ParseCpuTimes(std::string_view proc_stat);
// Line `btime` of /proc/stat.
[[nodiscard]] Result<Timestamp> ParseBootTime(std::string_view proc_stat);
// MemTotal and MemAvailable of /proc/meminfo.
[[nodiscard]] Result<MemorySizes> ParseMemory(std::string_view proc_meminfo);
// The first number of /proc/uptime, in whole seconds.
[[nodiscard]] Result<Duration> ParseUptime(std::string_view proc_uptime);
// A file that holds one number and a newline.
[[nodiscard]] Result<std::uint64_t> ParseCounter(std::string_view text);

}  // namespace nstance::agent
