#include "sim/sim_scheduler.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

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

SimScheduler::Handle SimScheduler::Add(Entry entry) {
  if (free_places_.empty()) {
    CHECK(places_.size() < (std::size_t{1} << kPlaceBits), "{} tasks wait", places_.size());
    free_places_.push_back(static_cast<std::uint32_t>(places_.size()));
    places_.push_back({.owner = nullptr, .at = {}, .task = {}, .state = State::kGone});
  }
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  entry.handle = (next_number_++ << kPlaceBits) | place;
  entry.state = State::kHeld;
  places_[place] = std::move(entry);
  Wait(places_[place], places_[place].at);
  return places_[place].handle;
}

SimScheduler::Entry* SimScheduler::Find(Handle handle) {
  Entry& entry = places_[handle & ((Handle{1} << kPlaceBits) - 1)];
  return entry.handle == handle && entry.state != State::kGone ? &entry : nullptr;
}

Task SimScheduler::TakeOut(Entry& entry) {
  if (entry.state == State::kWaiting) --live_waiting_;
  entry.state = State::kGone;
  free_places_.push_back(static_cast<std::uint32_t>(&entry - places_.data()));
  return std::move(entry.task);
}

void SimScheduler::Cancel(Handle handle) {
  // Taken out before it is destroyed: the task may own the Pending of another one.
  Task task;
  if (Entry* entry = Find(handle)) task = TakeOut(*entry);
}

std::vector<SimScheduler::Handle> SimScheduler::Of(const Owner& owner) const {
  std::vector<Handle> handles;
  for (const Entry& entry : places_) {
    if (entry.owner == &owner && entry.state != State::kGone) handles.push_back(entry.handle);
  }
  std::ranges::sort(handles);
  return handles;
}

void SimScheduler::Forget(const Owner& owner) {
  for (const Handle handle : Of(owner)) Cancel(handle);
}

void SimScheduler::Release(const Owner& owner) {
  for (const Handle handle : Of(owner)) {
    Entry& entry = *Find(handle);
    if (entry.state == State::kHeld) Wait(entry, now_);
  }
}

void SimScheduler::MoveTimers(const Owner& owner,
                              const std::function<Instant(Instant&)>& to_world) {
  for (const Handle handle : Of(owner)) {
    Entry& entry = *Find(handle);
    if (entry.own_at) Wait(entry, to_world(*entry.own_at));
  }
}

void SimScheduler::Wait(Entry& entry, Instant at) {
  if (entry.state != State::kWaiting) ++live_waiting_;
  entry.state = State::kWaiting;
  entry.at = std::max(at, now_);
  if (entry.at == now_) return fresh_.push_back({.at = now_, .handle = entry.handle});
  waiting_.push_back({.at = entry.at, .handle = entry.handle});
  std::ranges::push_heap(waiting_, std::greater());
  DropStale();
}

bool SimScheduler::IsCurrent(const Due& due) {
  const Entry* entry = Find(due.handle);
  return entry != nullptr && entry->state == State::kWaiting && entry->at == due.at;
}

void SimScheduler::Pop() {
  std::ranges::pop_heap(waiting_, std::greater());
  waiting_.pop_back();
}

SimScheduler::Next SimScheduler::NextDue() {
  while (!waiting_.empty() && !IsCurrent(waiting_.front())) Pop();
  if (waiting_.empty()) return {};
  return {.any = true, .at = waiting_.front().at};
}

// Most timers are cancelled long before they are due.
void SimScheduler::DropStale() {
  constexpr std::size_t kFew = 64;
  if (waiting_.size() < kFew || waiting_.size() < 2 * live_waiting_) return;
  std::erase_if(waiting_, [this](const Due& due) { return !IsCurrent(due); });
  std::ranges::make_heap(waiting_, std::greater());
}

// In the order of time, then of their numbers.
void SimScheduler::CollectReady() {
  for (Next next = NextDue(); next.any && next.at <= now_; next = NextDue()) {
    fresh_.push_back(waiting_.front());
    Pop();
  }
  if (fresh_.empty()) return;
  if (!std::ranges::is_sorted(fresh_)) std::ranges::sort(fresh_);
  for (const Due& due : fresh_) {
    if (!IsCurrent(due)) continue;
    Find(due.handle)->state = State::kReady;
    --live_waiting_;
    ready_.push_back(due.handle);
  }
  fresh_.clear();
}

void SimScheduler::RunReady() {
  const auto pick = static_cast<std::size_t>(prng_.Below(ready_.size()));
  std::swap(ready_[pick], ready_.back());
  const Handle handle = ready_.back();
  ready_.pop_back();
  Entry* entry = Find(handle);
  // Cancelled, or moved, after it became ready.
  if (entry == nullptr || entry->state != State::kReady) return;
  if (entry->owner->paused) {
    entry->state = State::kHeld;
    return;
  }
  if (entry->owner->first) {
    ready_.push_back(handle);
    return Run(*entry->owner, 0, std::exchange(entry->owner->first, nullptr));
  }
  Owner& owner = *entry->owner;
  Run(owner, handle >> kPlaceBits, TakeOut(*entry));
}

void SimScheduler::Run(Owner& owner, std::uint64_t number, Task task) {
  trace_hash_ =
      Mix(Mix(trace_hash_, static_cast<std::uint64_t>(now_.since_zero().nanoseconds())), number);
  ++steps_;
  owner.ran_at = now_;
  running_ = &owner;
  last_ = running_;
  task();
  running_ = nullptr;
}

bool SimScheduler::Step() {
  const std::uint64_t before = steps_;
  while (steps_ == before) {
    CollectReady();
    if (!ready_.empty()) {
      RunReady();
    } else if (const Next next = NextDue(); next.any) {
      now_ = next.at;
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
    } else if (const Next next = NextDue(); next.any && next.at <= end) {
      now_ = next.at;
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
    } else if (const Next next = NextDue(); next.any && next.at <= end) {
      now_ = next.at;
    } else {
      now_ = end;
      return done();
    }
  }
  return true;
}

}  // namespace nstance::sim
