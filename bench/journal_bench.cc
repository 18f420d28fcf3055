// Group commit: the time of one durable intent when the store takes 0, 20 or 50 ms, beside a leader
// that makes one write per intent.
//
// Both sides run the real journal writer on the real loop; only the store is in this process, and
// answers after a timer. `ours` has 128 intents under way, each closed and replaced by a new one
// as soon as it is durable, as a leader that scales a fleet has; `one_write_each` submits the next
// intent when the one before is durable. The journal is one object that every write replaces, so
// its writes cannot overlap, and one after the other is the best that a leader without group
// commit can do. The time shown is that of one intent; processor time counts, at 0 ms it is all
// there is.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/secure_random/system_random.h"
#include "base/check.h"
#include "storage/journal_writer.h"

namespace nstance {
namespace {

// Below the journal's limit for one tenant's creations, also while as many are being closed.
constexpr int kTogether = 128;
constexpr int kWrites = 5;                      // Of one run, where the store has a latency.
constexpr int kIntentsAtOnce = 10 * kTogether;  // Of one run, where it has none.

// One object, honest about conditions, that answers after a while.
class SlowStore final : public ObjectStore {
 public:
  SlowStore(Loop& loop, Duration latency) : loop_(loop), latency_(latency) {}

  Pending Get(const ObjectKey& /*key*/, Done<Object> done) override {
    return Later<Object>(std::move(done), [this]() -> Result<Object> {
      if (!bytes_) return Fail(NotFound("no such object"));
      return Object{.bytes = *bytes_, .version = Version()};
    });
  }
  Pending Put(PutRequest request, Done<ObjectVersion> done) override {
    return Later<ObjectVersion>(
        std::move(done), [this, request = std::move(request)]() mutable -> Result<ObjectVersion> {
          const auto* from = std::get_if<IfVersion>(&request.condition);
          const bool holds = from == nullptr ? !bytes_ : bytes_ && from->version == Version();
          if (!holds) return Fail(Aborted("412"));
          bytes_ = std::move(request.bytes);
          ++writes_;
          return Version();
        });
  }
  Pending Head(const ObjectKey& /*key*/, Done<ObjectHead> done) override {
    return Refuse<ObjectHead>(std::move(done));
  }
  Pending Delete(DeleteRequest /*request*/, Done<void> done) override {
    return Refuse<void>(std::move(done));
  }
  Pending List(ListRequest /*request*/, Done<ListPage> done) override {
    return Refuse<ListPage>(std::move(done));
  }
  Pending PutUnconditionally(ObjectKey /*key*/, std::string /*bytes*/,
                             Done<ObjectVersion> done) override {
    return Refuse<ObjectVersion>(std::move(done));
  }

  [[nodiscard]] std::int64_t writes() const { return writes_; }

 private:
  [[nodiscard]] ObjectVersion Version() const { return {std::to_string(writes_)}; }
  template <class T>
  Pending Later(Done<T> done, std::move_only_function<Result<T>()> judge) {
    return loop_.CallAfter(
        latency_, [done = std::move(done), judge = std::move(judge)]() mutable { done(judge()); });
  }
  template <class T>
  Pending Refuse(Done<T> done) {
    return Later<T>(std::move(done), [] { return Fail(Internal("a journal needs no such call")); });
  }

  Loop& loop_;
  Duration latency_;
  std::optional<std::string> bytes_;
  std::int64_t writes_ = 0;
};

// A leader that always has so many intents under way.
class Leader final {
 public:
  Leader(Duration latency, int together)
      : together_(together),
        store_(loop_, latency),
        writer_({.loop = loop_, .store = store_, .random = random_},
                {.key = ObjectKey::Parse("journal/a.json").value()},
                JournalMachine({.identity = {.cluster = ClusterId::Parse("c").value(),
                                             .shard = ShardId::Parse("a").value()},
                                .holder = "s/1",
                                .evidence = EpochEvidence::kNone}),
                {.took_over = [this](std::int64_t) { loop_.Stop(); },
                 .refused = [](const Error& why) { CHECK(false, "{}", why.message); },
                 .lost = [](JournalLoss loss) { CHECK(false, "{}", JournalLossName(loss)); },
                 .may_start = [](Duration) { return true; }}) {
    writer_.Start();
    loop_.Run();
  }

  // How long that many intents take.
  std::chrono::duration<double> Commit(int intents) {
    left_ = intents;
    durable_ = 0;
    wanted_ = intents;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < together_; ++i) Open();
    loop_.Run();
    return std::chrono::steady_clock::now() - begin;
  }
  [[nodiscard]] std::int64_t writes() const { return store_.writes(); }

 private:
  void Open() {
    if (left_ == 0) return;
    --left_;
    Intent intent{.id = {},
                  .kind = IntentKind::kCreate,
                  .instance_id = id_,
                  .tenant = tenant_,
                  .group = group_,
                  .opened_at = loop_.WallNow(),
                  .reason = "scale-up"};
    writer_.Open(std::move(intent), [this](const Result<std::string>& id) {
      writer_.Close(id.value());
      if (++durable_ == wanted_) return loop_.Stop();
      Open();
    });
  }

  int together_;
  RealLoop loop_;
  SystemRandom random_;
  SlowStore store_;
  JournalWriter writer_;
  InstanceId id_ = ParsePuidv7("knc06bgm7733st2576nx5jht4ecjw").value();
  TenantId tenant_ = TenantId::Parse("prod").value();
  GroupKey group_ = GroupKey::Parse("workers").value();
  int left_ = 0;
  int durable_ = 0;
  int wanted_ = 0;
};

void Commit(benchmark::State& state, std::int64_t latency_ms, int together) {
  Leader leader(Duration::Milliseconds(latency_ms), together);
  const int intents = latency_ms == 0 ? kIntentsAtOnce : together * kWrites;
  double seconds = 0;
  double made = 0;
  for (auto _ : state) {
    const double took = leader.Commit(intents).count();
    state.SetIterationTime(took / intents);
    seconds += took;
    made += intents;
  }
  state.counters["intents_per_second"] = made / seconds;
  // The take-over is one more.
  state.counters["intents_per_write"] = made / static_cast<double>(leader.writes() - 1);
}

void Register(std::int64_t latency_ms, const char* side, int together) {
  const std::string name = "journal_" + std::to_string(latency_ms) + "ms/" + side;
  benchmark::RegisterBenchmark(
      name.c_str(),
      [latency_ms, together](benchmark::State& state) { Commit(state, latency_ms, together); })
      ->UseManualTime()
      ->Iterations(1);
}

}  // namespace
}  // namespace nstance

int main(int argc, char** argv) {
  for (const std::int64_t latency_ms : {0, 20, 50}) {
    nstance::Register(latency_ms, "ours", nstance::kTogether);
    nstance::Register(latency_ms, "one_write_each", 1);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
