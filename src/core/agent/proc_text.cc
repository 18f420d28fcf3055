#include "core/agent/proc_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/core.h>

#include "base/text.h"

namespace nstance::agent {
namespace {

constexpr std::size_t kMaxCores = 4'096;
// user nice system idle iowait irq softirq steal; guest times follow and are part of the first two.
constexpr std::size_t kCpuFields = 8;
constexpr std::size_t kIdle = 3;
constexpr std::size_t kIoWait = 4;

// Takes the next line off the front; without its end.
std::string_view NextLine(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

// Takes the next word off the front.
std::string_view NextWord(std::string_view& rest) {
  constexpr std::string_view kBlanks = " \t";
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  const std::size_t end = std::min(rest.find_first_of(kBlanks), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

template <class T>
std::optional<T> Number(std::string_view word) {
  T value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

Error Missing(std::string_view what) {
  return InvalidArgument(fmt::format("{} is missing or no number", what));
}

std::optional<CpuTime> CpuLine(std::string_view fields, int core) {
  CpuTime time{.core = core};
  for (std::size_t i = 0; i < kCpuFields; ++i) {
    const auto ticks = Number<std::uint64_t>(NextWord(fields));
    if (!ticks) {
      if (i <= kIdle) return std::nullopt;  // Old kernels have four.
      break;
    }
    if (__builtin_add_overflow(time.total, *ticks, &time.total)) return std::nullopt;
    if (i != kIdle && i != kIoWait) time.busy += *ticks;
  }
  return time;
}

}  // namespace

Result<CpuTimes> ParseCpuTimes(std::string_view proc_stat) {
  CpuTimes times;
  bool found = false;
  while (!proc_stat.empty()) {
    std::string_view line = NextLine(proc_stat);
    const std::string_view name = NextWord(line);
    if (!name.starts_with("cpu")) continue;
    const auto core = name == "cpu" ? std::optional(-1) : Number<int>(name.substr(3));
    const auto time = core ? CpuLine(line, *core) : std::nullopt;
    if (!time || *core < -1) {
      return Fail(InvalidArgument(fmt::format("line {} is no processor time", Quote(name))));
    }
    if (*core == -1) {
      times.all = *time;
      found = true;
    } else if (times.cores.size() < kMaxCores) {
      times.cores.push_back(*time);
    }
  }
  if (!found) return Fail(Missing("line cpu"));
  return times;
}

Result<Timestamp> ParseBootTime(std::string_view proc_stat) {
  while (!proc_stat.empty()) {
    std::string_view line = NextLine(proc_stat);
    if (NextWord(line) != "btime") continue;
    if (const auto seconds = Number<std::int64_t>(NextWord(line)); seconds && *seconds >= 0) {
      return Timestamp::FromUnix(*seconds);
    }
  }
  return Fail(Missing("btime"));
}

Result<MemorySizes> ParseMemory(std::string_view proc_meminfo) {
  std::optional<std::uint64_t> total;
  std::optional<std::uint64_t> available;
  while (!proc_meminfo.empty()) {
    std::string_view line = NextLine(proc_meminfo);
    const std::string_view name = NextWord(line);
    if (name == "MemTotal:") total = Number<std::uint64_t>(NextWord(line));
    if (name == "MemAvailable:") available = Number<std::uint64_t>(NextWord(line));
  }
  if (!total || *total == 0) return Fail(Missing("MemTotal"));
  if (!available) return Fail(Missing("MemAvailable"));
  return MemorySizes{.total = *total, .available = *available};
}

Result<Duration> ParseUptime(std::string_view proc_uptime) {
  const std::string_view word = NextWord(proc_uptime);
  const auto seconds = Number<std::int64_t>(word.substr(0, word.find('.')));
  if (!seconds || *seconds < 0) return Fail(Missing("uptime"));
  return Duration::Seconds(*seconds);
}

Result<std::uint64_t> ParseCounter(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (const auto value = Number<std::uint64_t>(text)) return *value;
  return Fail(Missing("counter"));
}

}  // namespace nstance::agent
