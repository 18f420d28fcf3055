#include "adapters/rpc/server_link.h"

#include <utility>

namespace nstance::grpc {

void ThreadLink::Push(Event event) {
  const std::scoped_lock lock(mutex_);
  if (closed_) return;
  waiting_.fetch_add(1);
  events_.push_back(std::move(event));
  if (events_.size() == 1) wake_loop_();
}

std::vector<Event> ThreadLink::TakeEvents() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(events_, {});
}

bool ThreadLink::Handled(std::size_t count) {
  const std::size_t before = waiting_.fetch_sub(count);
  return before >= kMaxEvents / 2 && before - count < kMaxEvents / 2;
}

void ThreadLink::Push(Command command) {
  const std::scoped_lock lock(mutex_);
  if (closed_) return;
  commands_.push_back(std::move(command));
  if (commands_.size() > 1) return;
  if (wake_held_) {
    wake_owed_ = true;
  } else {
    wake_thread_();
  }
}

void ThreadLink::HoldWake() {
  const std::scoped_lock lock(mutex_);
  wake_held_ = true;
}

void ThreadLink::ReleaseWake() {
  const std::scoped_lock lock(mutex_);
  wake_held_ = false;
  if (std::exchange(wake_owed_, false) && !closed_) wake_thread_();
}

std::vector<Command> ThreadLink::TakeCommands() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(commands_, {});
}

void ThreadLink::Close() {
  std::vector<Event> events;
  std::vector<Command> commands;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    wake_loop_ = nullptr;
    wake_thread_ = nullptr;
    events = std::exchange(events_, {});
    commands = std::exchange(commands_, {});
  }
}

}  // namespace nstance::grpc
