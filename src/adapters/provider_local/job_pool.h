// JobPool: threads for blocking work, shared fairly.
//
// Each tenant has a queue of its own with a bound of its own, and the queues take turns: a tenant
// with a thousand calls delays another's by one job per thread. Jobs with the same key never run at
// the same time; within a tenant they run in the order in which they came. All methods may be
// called from any thread, the destructor from one that is no worker.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace nstance::provider_local {

class JobPool final {
 public:
  // A job gives up waiting when it is asked to stop.
  using Work = std::move_only_function<void(const std::stop_token&)>;

  struct Options {
    std::size_t threads = 16;
    std::size_t waiting = 64;  // Jobs of one tenant that wait for a thread.
  };

  enum class Bound : std::uint8_t { kHeld, kIgnored };

  struct Job {
    std::uint64_t id = 0;     // For Withdraw().
    std::string tenant = {};  // Whose turn it takes.
    std::string key = {};     // Empty: may run beside everything.
    Work work = {};
  };

  explicit JobPool(Options options);
  // Drops what has not begun and waits for what has.
  ~JobPool();
  JobPool(const JobPool&) = delete;
  JobPool& operator=(const JobPool&) = delete;

  // False when the tenant's queue is full; the job is then dropped.
  [[nodiscard]] bool Add(Job job, Bound bound = Bound::kHeld);
  // True when the job had not begun; it will not.
  bool Withdraw(std::uint64_t id);

 private:
  void Run();
  // The next job by turns whose key is free; nothing when there is none.
  [[nodiscard]] std::optional<Job> Take();

  const std::size_t waiting_limit_;
  std::stop_source stop_;
  std::mutex mutex_;  // Guards everything below but the threads.
  std::condition_variable_any ready_;
  std::map<std::string, std::deque<Job>> queues_;
  std::string last_tenant_;
  std::set<std::string> running_keys_;
  std::vector<std::thread> threads_;
};

}  // namespace nstance::provider_local
