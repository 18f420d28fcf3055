#include "adapters/file_store/worker_pool.h"

#include <algorithm>
#include <utility>

namespace nstance {

WorkerPool::WorkerPool(Options options) : queue_limit_(options.queue) {
  for (std::size_t i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Work(); });
}

WorkerPool::~WorkerPool() {
  stop_.request_stop();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::Add(std::uint64_t id, Job job) {
  {
    const std::scoped_lock lock(mutex_);
    if (queue_.size() >= queue_limit_) return false;
    queue_.push_back({.id = id, .job = std::move(job)});
  }
  ready_.notify_one();
  return true;
}

bool WorkerPool::Withdraw(std::uint64_t id) {
  Waiting withdrawn{.id = 0, .job = nullptr};  // Destroyed after the lock is released.
  const std::scoped_lock lock(mutex_);
  const auto at = std::ranges::find(queue_, id, &Waiting::id);
  if (at == queue_.end()) return false;
  withdrawn = std::move(*at);
  queue_.erase(at);
  return true;
}

void WorkerPool::Work() {
  const std::stop_token stop = stop_.get_token();
  for (;;) {
    Waiting next{.id = 0, .job = nullptr};
    {
      std::unique_lock lock(mutex_);
      if (!ready_.wait(lock, stop, [this] { return !queue_.empty(); }) || stop.stop_requested()) {
        return;
      }
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next.job(stop);
  }
}

}  // namespace nstance
