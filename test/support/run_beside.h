// RunBeside: a program that talks to this process's own loop, run to its end while the loop turns.
#pragma once

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "adapters/real_loop/real_loop.h"
#include "test/support/loop_runner.h"
#include "test/support/process.h"

namespace nstance::test {

[[nodiscard]] inline Result<ProcessOutput> RunBeside(RealLoop& loop, ProcessRequest request) {
  std::atomic<bool> done = false;
  std::optional<Result<ProcessOutput>> answer;
  const Duration limit = request.deadline + Duration::Seconds(20);
  std::thread runner([&] {
    answer = RunProcess(request);
    done = true;
  });
  // RunProcess() ends by itself in time, so that waiting for the thread cannot hang.
  (void)RunUntil(loop, [&] { return done.load(); }, limit);
  runner.join();
  return *std::move(answer);
}

}  // namespace nstance::test
