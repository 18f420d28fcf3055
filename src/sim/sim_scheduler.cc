#include "sim/sim_scheduler.h"

#include <algorithm>
#include <utility>

namespace nstance::sim {
namespace {

std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) {
    hash = (hash ^ (value & 0xFFU)) * 0x100000001B3U;  // FNV-1a.
    value >>= 8U;
  }
  return hash;
}

}  // namespace

std::uint64_t SimScheduler::Add(const void* owner, Instant at, Task task) {
  const std::uint64_t number = next_number_++;
  const Instant due = std::max(at, now_);
  entries_.emplace(number, Entry{.owner = owner, .at = due, .task = std::move(task)});
  waiting_.emplace(Key(due, number), number);
  return number;
}

void SimScheduler::Cancel(std::uint64_t number) {
  // Taken out before it is destroyed: the task may own the Pending of another one.
  auto node = entries_.extract(number);
  if (!node.empty()) waiting_.erase(Key(node.mapped().at, number));
}

void SimScheduler::Forget(const void* owner) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, entry] : entries_) {
    if (entry.owner == owner) numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) Cancel(number);
}

void SimScheduler::CollectReady() {
  while (!waiting_.empty() && waiting_.begin()->first.first <= now_) {
    ready_.push_back(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
  }
}

void SimScheduler::RunReady() {
  const auto pick = static_cast<std::size_t>(prng_.Below(ready_.size()));
  std::swap(ready_[pick], ready_.back());
  const std::uint64_t number = ready_.back();
  ready_.pop_back();
  auto node = entries_.extract(number);
  if (node.empty()) return;  // Cancelled after it became ready.
  trace_hash_ =
      Mix(Mix(trace_hash_, static_cast<std::uint64_t>(now_.since_zero().nanoseconds())), number);
  ++steps_;
  node.mapped().task();
}

bool SimScheduler::Step() {
  const std::uint64_t before = steps_;
  while (steps_ == before) {
    CollectReady();
    if (!ready_.empty()) {
      RunReady();
    } else if (!waiting_.empty()) {
      now_ = waiting_.begin()->first.first;
    } else {
      return false;
    }
  }
  return true;
}

void SimScheduler::RunUntil(Instant end) {
  for (;;) {
    CollectReady();
    if (!ready_.empty()) {
      RunReady();
    } else if (!waiting_.empty() && waiting_.begin()->first.first <= end) {
      now_ = waiting_.begin()->first.first;
    } else {
      break;
    }
  }
  now_ = std::max(now_, end);
}

bool SimScheduler::RunUntilTrue(const std::function<bool()>& done, Duration limit) {
  const Instant end = now_ + limit;
  while (!done()) {
    CollectReady();
    if (!ready_.empty()) {
      RunReady();
    } else if (!waiting_.empty() && waiting_.begin()->first.first <= end) {
      now_ = waiting_.begin()->first.first;
    } else {
      now_ = end;
      return done();
    }
  }
  return true;
}

}  // namespace nstance::sim
