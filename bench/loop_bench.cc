// The loop: what a task, a timer and a crossing between threads cost, beside the least that could
// do the same job.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "adapters/real_loop/real_loop.h"
#include "sim/sim_loop.h"

namespace nstance {
namespace {

constexpr int kBatch = 1'000;

// Tasks posted and run on the same thread.
void PostOurs(benchmark::State& state) {
  RealLoop loop;
  for (auto _ : state) {
    int runs = 0;
    for (int i = 0; i < kBatch; ++i) {
      loop.Post([&] {
        if (++runs == kBatch) loop.Stop();
      });
    }
    loop.Run();
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void PostVector(benchmark::State& state) {
  for (auto _ : state) {
    int runs = 0;
    std::vector<std::move_only_function<void()>> tasks;
    for (int i = 0; i < kBatch; ++i) tasks.emplace_back([&] { ++runs; });
    for (auto& task : tasks) task();
    benchmark::DoNotOptimize(runs);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

// Timers set and cancelled, as deadlines mostly are.
void TimerOurs(benchmark::State& state) {
  RealLoop loop;
  for (auto _ : state) {
    std::vector<Pending> timers;
    for (int i = 0; i < kBatch; ++i) timers.push_back(loop.CallAfter(Duration::Seconds(i), [] {}));
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void TimerMap(benchmark::State& state) {
  for (auto _ : state) {
    std::map<std::pair<std::int64_t, int>, std::move_only_function<void()>> timers;
    for (int i = 0; i < kBatch; ++i) timers.emplace(std::pair(std::int64_t{i}, i), [] {});
    for (int i = 0; i < kBatch; ++i) timers.erase(std::pair(std::int64_t{i}, i));
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

// One task there and one back, between two threads.
void PingPongOurs(benchmark::State& state) {
  RealLoop here;
  RealLoop there;
  std::thread thread([&] { there.Run(); });
  for (auto _ : state) {
    there.Post([&] { here.Post([&] { here.Stop(); }); });
    here.Run();
  }
  there.Stop();
  thread.join();
}

void PingPongCondition(benchmark::State& state) {
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;  // 0: here, 1: there, 2: end.
  std::thread thread([&] {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return turn != 0; });
      if (turn == 2) return;
      turn = 0;
      changed.notify_one();
    }
  });
  for (auto _ : state) {
    std::unique_lock lock(mutex);
    turn = 1;
    changed.notify_one();
    changed.wait(lock, [&] { return turn == 0; });
  }
  {
    const std::scoped_lock lock(mutex);
    turn = 2;
  }
  changed.notify_one();
  thread.join();
}

void SimStep(benchmark::State& state) {
  sim::SimScheduler scheduler(1);
  sim::SimLoop loop(scheduler, Timestamp());
  std::vector<Pending> timers(50);
  std::function<void(std::size_t)> arm = [&](std::size_t i) {
    timers[i] = loop.CallAfter(Duration::Milliseconds(1 + static_cast<std::int64_t>(i)),
                               [&arm, i] { arm(i); });
  };
  for (std::size_t i = 0; i < timers.size(); ++i) arm(i);
  for (auto _ : state) scheduler.Step();
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(PostOurs)->Name("loop_post/ours");
BENCHMARK(PostVector)->Name("loop_post/plain_vector");
BENCHMARK(TimerOurs)->Name("loop_timer/ours");
BENCHMARK(TimerMap)->Name("loop_timer/plain_map");
BENCHMARK(PingPongOurs)->Name("thread_ping_pong/ours")->UseRealTime();
BENCHMARK(PingPongCondition)->Name("thread_ping_pong/condition_variable")->UseRealTime();
BENCHMARK(SimStep)->Name("sim_step/ours");

}  // namespace
}  // namespace nstance

BENCHMARK_MAIN();
