// WorkerPool: a few threads for blocking work, and a bounded queue in front of them.
//
// Jobs are started in the order in which they came and run on any of the threads. All methods may
// be called from any thread, the destructor from one that is no worker.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace nstance {

class WorkerPool final {
 public:
  // A job gets the pool's stop token and gives up waiting when it is asked to.
  using Job = std::move_only_function<void(const std::stop_token&)>;

  struct Options {
    std::size_t threads = 4;
    std::size_t queue = 256;  // Jobs that wait for a thread.
  };

  explicit WorkerPool(Options options);
  // Drops what has not begun and waits for what has.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False when the queue is full; the job is then dropped. `id` is for Withdraw().
  [[nodiscard]] bool Add(std::uint64_t id, Job job);

  // True when the job had not begun; it will not.
  bool Withdraw(std::uint64_t id);

 private:
  struct Waiting {
    std::uint64_t id;
    Job job;
  };
  void Work();

  const std::size_t queue_limit_;
  std::stop_source stop_;
  std::mutex mutex_;  // Guards `queue_`.
  std::condition_variable_any ready_;
  std::deque<Waiting> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace nstance
