#include "adapters/provider_local/job_pool.h"

#include <algorithm>
#include <utility>

namespace nstance::provider_local {

JobPool::JobPool(Options options) : waiting_limit_(options.waiting) {
  for (std::size_t i = 0; i < options.threads; ++i) threads_.emplace_back([this] { Run(); });
}

JobPool::~JobPool() {
  stop_.request_stop();
  for (std::thread& thread : threads_) thread.join();
}

bool JobPool::Add(Job job, Bound bound) {
  {
    const std::scoped_lock lock(mutex_);
    std::deque<Job>& queue = queues_[job.tenant];
    if (bound == Bound::kHeld && queue.size() >= waiting_limit_) return false;
    queue.push_back(std::move(job));
  }
  ready_.notify_one();
  return true;
}

bool JobPool::Withdraw(std::uint64_t id) {
  Job withdrawn;  // Destroyed after the lock is released.
  const std::scoped_lock lock(mutex_);
  for (auto& [tenant, queue] : queues_) {
    const auto at = std::ranges::find(queue, id, &Job::id);
    if (at == queue.end()) continue;
    withdrawn = std::move(*at);
    queue.erase(at);
    if (queue.empty()) queues_.erase(std::string(tenant));
    return true;
  }
  return false;
}

std::optional<JobPool::Job> JobPool::Take() {
  const auto start = queues_.upper_bound(last_tenant_);
  auto at = start;
  for (std::size_t turn = 0; turn < queues_.size(); ++turn) {
    if (at == queues_.end()) at = queues_.begin();
    std::deque<Job>& queue = at->second;
    const auto free = std::ranges::find_if(
        queue, [this](const Job& job) { return !running_keys_.contains(job.key); });
    if (free != queue.end()) {
      Job job = std::move(*free);
      queue.erase(free);
      last_tenant_ = at->first;
      if (queue.empty()) queues_.erase(at);
      if (!job.key.empty()) running_keys_.insert(job.key);
      return job;
    }
    ++at;
  }
  return std::nullopt;
}

void JobPool::Run() {
  const std::stop_token stop = stop_.get_token();
  for (;;) {
    std::optional<Job> job;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, stop, [&] {
        job = Take();
        return job.has_value();
      });
      if (stop.stop_requested()) {
        // One that was taken in the last moment has not begun; it goes outside of the lock.
        lock.unlock();
        return;
      }
    }
    job->work(stop);
    const std::string key = std::move(job->key);
    job.reset();
    if (key.empty()) continue;
    {
      const std::scoped_lock lock(mutex_);
      running_keys_.erase(key);
    }
    ready_.notify_all();
  }
}

}  // namespace nstance::provider_local
