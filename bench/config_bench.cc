// Loading the complete example of the documentation, beside Go's encoding/json with unknown keys
// refused and the same kind of checks (test/peers/go_config). Ours also finds duplicate keys, keeps
// positions and collects templates. Without Go only our side is measured.
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>

#include "core/config/load.h"
#include "test/core/config/complete_example.h"
#include "test/support/peers.h"
#include "test/support/process.h"

namespace nstance {
namespace {

void LoadOurs(benchmark::State& state) {
  for (auto _ : state) {
    config::LoadResult result = config::Load(config::kCompleteExample);
    if (!result.config) std::abort();
    benchmark::DoNotOptimize(result);
  }
}

// Go measures its own CPU time, many loads per run, so that starting the program does not count.
void LoadGo(benchmark::State& state) {
  constexpr int kLoads = 2'000;
  const Result<std::string> peer = test::BuildGoPeer("go_config");
  if (!peer) {
    state.SkipWithError(peer.error().message.c_str());
    return;
  }
  for (auto _ : state) {
    const auto answer = test::RunProcess(
        {.argv = {*peer, std::to_string(kLoads)}, .input = std::string(config::kCompleteExample)});
    std::int64_t nanoseconds = 0;
    if (!answer || answer->exit_code != 0 ||
        std::from_chars(answer->out.data(), answer->out.data() + answer->out.size(), nanoseconds)
                .ec != std::errc()) {
      state.SkipWithError("the peer failed");
      return;
    }
    state.SetIterationTime(static_cast<double>(nanoseconds) / kLoads / 1e9);
  }
}

BENCHMARK(LoadOurs)->Name("config_load/ours");
// A manual time per run: few runs are enough, each is 2,000 loads.
BENCHMARK(LoadGo)->Name("config_load/go")->UseManualTime()->Iterations(10);

}  // namespace
}  // namespace nstance

BENCHMARK_MAIN();
