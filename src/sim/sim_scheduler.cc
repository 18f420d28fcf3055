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

std::uint64_t SimScheduler::Add(Entry entry) {
  const std::uint64_t number = next_number_++;
  entry.at = std::max(entry.at, now_);
  waiting_.emplace(Key(entry.at, number), number);
  entries_.emplace(number, std::move(entry));
  return number;
}

void SimScheduler::Cancel(std::uint64_t number) {
  // Taken out before it is destroyed: the task may own the Pending of another one.
  auto node = entries_.extract(number);
  if (!node.empty()) waiting_.erase(Key(node.mapped().at, number));
}

void SimScheduler::Forget(const Owner& owner) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, entry] : entries_) {
    if (entry.owner == &owner) numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) Cancel(number);
}

void SimScheduler::Release(const Owner& owner) {
  for (auto& [number, entry] : entries_) {
    if (entry.owner != &owner || !entry.held) continue;
    entry.held = false;
    entry.at = now_;
    waiting_.emplace(Key(now_, number), number);
  }
}

void SimScheduler::MoveTimers(const Owner& owner, const std::function<Instant(Instant)>& to_world) {
  for (auto& [number, entry] : entries_) {
    if (entry.owner != &owner || !entry.own_at) continue;
    waiting_.erase(Key(entry.at, number));
    entry.at = std::max(to_world(*entry.own_at), now_);
    entry.held = false;
    waiting_.emplace(Key(entry.at, number), number);
  }
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
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) return;                           // Cancelled after it became ready.
  if (waiting_.contains(Key(entry->second.at, number))) return;  // Moved after it became ready.
  if (entry->second.owner->paused) {
    entry->second.held = true;
    return;
  }
  auto node = entries_.extract(entry);
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
