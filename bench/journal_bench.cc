// Group commit beside one write per intent: how many intents per second become durable when the store
// takes 0, 20 or 50 ms.
//
// Both sides run the real journal writer over a simulated store. What is measured is the *virtual* time
// that one thousand intents take, which depends on no machine: `ours` submits them as they come, one
// every millisecond; `one_write_each` waits for each before it submits the next, as a leader without
// group commit would. At 0 ms the time is the machine's own, and only there.
#include <cstdint>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "sim/seeded_random.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "storage/journal_writer.h"

namespace nstance {
namespace {

constexpr int kIntents = 1'000;
constexpr Duration kArrival = Duration::Milliseconds(1);

enum class Side : std::uint8_t { kOurs, kOneWriteEach };

class Run {
 public:
  Run(Side side, Duration latency)
      : side_(side),
        loop_(scheduler_, Timestamp()),
        bucket_(scheduler_, {}),
        store_(bucket_, loop_, {.faults = {.latency_min = latency, .latency_max = latency}}),
        writer_({.loop = loop_, .store = store_, .random = random_},
                {.key = ObjectKey::Parse("journal/a.json").value()},
                JournalMachine({.identity = {.cluster = ClusterId::Parse("c").value(),
                                             .shard = ShardId::Parse("a").value()},
                                .holder = "s/1",
                                .evidence = EpochEvidence::kNone}),
                {.took_over = [this](std::int64_t) { open_ = true; },
                 .refused = [](const Error&) {},
                 .lost = [](JournalLoss) {},
                 .may_start = [](Duration) { return true; }}) {}

  // How long the intents take in virtual time.
  Duration Measure() {
    writer_.Start();
    scheduler_.RunUntilTrue([this] { return open_; }, Duration::Minutes(1));
    const Instant begin = scheduler_.now();
    Arrive();
    scheduler_.RunUntilTrue([this] { return durable_ == kIntents; }, Duration::Hours(1));
    return scheduler_.now() - begin;
  }

 private:
  void Arrive() {
    if (submitted_ == kIntents) return;
    ++submitted_;
    Intent intent{.id = {},
                  .kind = IntentKind::kCreate,
                  .instance_id = id_,
                  .tenant = tenants_[submitted_ % 4],
                  .group = group_,
                  .opened_at = loop_.WallNow(),
                  .reason = "scale-up"};
    writer_.Open(std::move(intent), [this](const Result<std::string>& id) {
      ++durable_;
      writer_.Close(*id);
      if (side_ == Side::kOneWriteEach) Arrive();
    });
    if (side_ == Side::kOurs) arrival_ = loop_.CallAfter(kArrival, [this] { Arrive(); });
  }

  Side side_;
  sim::SimScheduler scheduler_{1};
  sim::SimLoop loop_;
  sim::SeededRandom random_{1};
  sim::SimBucket bucket_;
  sim::SimObjectStore store_;
  JournalWriter writer_;
  InstanceId id_ = ParsePuidv7("knc06bgm7733st2576nx5jht4ecjw").value();
  std::array<TenantId, 4> tenants_ = {TenantId::Parse("a").value(), TenantId::Parse("b").value(),
                                      TenantId::Parse("c").value(), TenantId::Parse("d").value()};
  GroupKey group_ = GroupKey::Parse("workers").value();
  Pending arrival_;
  bool open_ = false;
  std::size_t submitted_ = 0;
  int durable_ = 0;
};

// The time of one intent, virtual.
void Commit(benchmark::State& state, Side side, std::int64_t latency_ms) {
  Duration total;
  for (auto _ : state) {
    const Duration took =
        std::make_unique<Run>(side, Duration::Milliseconds(latency_ms))->Measure();
    total += took;
    state.SetIterationTime(static_cast<double>(took.nanoseconds()) / 1e9);
  }
  const double seconds = static_cast<double>(total.nanoseconds()) / 1e9;
  state.counters["intents_per_second"] =
      seconds > 0 ? static_cast<double>(state.iterations()) * kIntents / seconds : 0;
}

}  // namespace
}  // namespace nstance

int main(int argc, char** argv) {
  using nstance::Side;
  for (const std::int64_t latency : {0, 20, 50}) {
    for (const auto& [side, name] :
         {std::pair(Side::kOurs, "ours"), std::pair(Side::kOneWriteEach, "one_write_each")}) {
      const std::string what = "journal_" + std::to_string(latency) + "ms/" + name;
      benchmark::RegisterBenchmark(
          what.c_str(),
          [side, latency](benchmark::State& state) { nstance::Commit(state, side, latency); })
          ->UseManualTime()
          ->Iterations(1);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
