#include "core/agent/usage.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"

namespace nstance::agent {
namespace {

std::uint64_t Rise(std::uint64_t before, std::uint64_t after) {
  return after > before ? after - before : 0;
}

// numerator / denominator in millionths, at most one; exact enough without 128 bits because both
// are scaled down first when they are large.
Ppm Share(std::uint64_t numerator, std::uint64_t denominator) {
  if (denominator == 0) return 0;
  constexpr std::uint64_t kLargest = UINT64_MAX / static_cast<std::uint64_t>(kWhole);
  while (denominator > kLargest) {
    denominator /= 2;
    numerator /= 2;
  }
  const std::uint64_t part = std::min(numerator, denominator);
  return static_cast<Ppm>(part * static_cast<std::uint64_t>(kWhole) / denominator);
}

std::optional<Ppm> Busy(const CpuTime& before, const CpuTime& after) {
  const std::uint64_t total = Rise(before.total, after.total);
  if (total == 0) return std::nullopt;
  return Share(Rise(before.busy, after.busy), total);
}

void AddCpu(const CpuTimes& before, const CpuTimes& after, Usage& usage) {
  usage.cpu = Busy(before.all, after.all);
  for (const CpuTime& core : after.cores) {
    const auto old = std::ranges::find(before.cores, core.core, &CpuTime::core);
    if (old == before.cores.end()) continue;
    if (const auto share = Busy(*old, core)) {
      usage.cores.push_back({.core = core.core, .share = *share});
    }
  }
}

// What was counted between the two; everything that is there when the counter began again.
std::uint64_t Counted(std::uint64_t before, std::uint64_t after) {
  return after >= before ? after - before : after;
}

constexpr std::array kTrafficFields = {&TrafficCounters::rx_bytes,   &TrafficCounters::tx_bytes,
                                       &TrafficCounters::rx_packets, &TrafficCounters::tx_packets,
                                       &TrafficCounters::rx_drops,   &TrafficCounters::tx_drops};

TrafficCounters Difference(const TrafficCounters& before, const TrafficCounters& after) {
  TrafficCounters difference;
  for (const auto field : kTrafficFields) {
    difference.*field = Counted(before.*field, after.*field);
  }
  return difference;
}

void AddTo(TrafficCounters& sum, const TrafficCounters& more) {
  for (const auto field : kTrafficFields) {
    if (__builtin_add_overflow(sum.*field, more.*field, &(sum.*field))) sum.*field = UINT64_MAX;
  }
}

struct Average {
  Ppm sum = 0;
  Ppm count = 0;
  void Add(std::optional<Ppm> share) {
    if (!share) return;
    sum += *share;
    ++count;
  }
  [[nodiscard]] std::optional<Ppm> value() const {
    if (count == 0) return std::nullopt;
    return sum / count;
  }
};

std::optional<Ppm> ShareOf(const Usage& usage, int core) {
  const auto at = std::ranges::find(usage.cores, core, &CoreUsage::core);
  if (at == usage.cores.end()) return std::nullopt;
  return at->share;
}

}  // namespace

void UsageHistory::Add(const UsageReading& reading) {
  if (last_) {
    Usage usage;
    if (last_->cpu && reading.cpu) AddCpu(*last_->cpu, *reading.cpu, usage);
    if (reading.memory) {
      usage.memory =
          Share(Rise(reading.memory->available, reading.memory->total), reading.memory->total);
    }
    if (last_->traffic && reading.traffic) {
      usage.traffic = Difference(*last_->traffic, *reading.traffic);
    }
    ring_.push_back(std::move(usage));
    if (ring_.size() > kIntervals) ring_.pop_front();
  }
  last_ = reading;
}

std::optional<Usage> UsageHistory::Mean(std::size_t intervals) const {
  CHECK(intervals > 0 && intervals <= kIntervals, "{}", intervals);
  if (ring_.size() < intervals) return std::nullopt;
  const auto first = ring_.end() - static_cast<std::ptrdiff_t>(intervals);
  Average cpu;
  Average memory;
  Usage mean;
  for (auto at = first; at != ring_.end(); ++at) {
    cpu.Add(at->cpu);
    memory.Add(at->memory);
    if (!at->traffic) continue;
    if (!mean.traffic) mean.traffic.emplace();
    AddTo(*mean.traffic, *at->traffic);
  }
  mean.cpu = cpu.value();
  mean.memory = memory.value();
  for (const CoreUsage& core : ring_.back().cores) {
    Average share;
    for (auto at = first; at != ring_.end(); ++at) share.Add(ShareOf(*at, core.core));
    mean.cores.push_back({.core = core.core, .share = *share.value()});
  }
  return mean;
}

}  // namespace nstance::agent
