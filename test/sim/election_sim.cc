#include "test/sim/election_sim.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "test/sim/election_server.h"

namespace nstance::sim {
namespace {

constexpr Duration kFaultyTime = Duration::Seconds(90);
constexpr Duration kStoreTimeout = Duration::Seconds(3);
// The longest that a server leaves the lease to others, and what an election takes after that.
constexpr Duration kCalmLimit = Duration::Seconds(160 + 60);
// Rates that differ by less than lease / (lease - margin) = 4/3, and any.
constexpr std::array<std::int64_t, 5> kNearRates = {870, 930, 1'000, 1'070, 1'150};
constexpr std::array<std::int64_t, 7> kFarRates = {500, 700, 900, 1'000, 1'200, 1'600, 2'000};

ObjectKey Key(std::string_view text) { return ObjectKey::Parse(text).value(); }

LeaseTimings TimingsFor(Plant plant) {
  LeaseTimings timings;
  if (plant == Plant::kNoMargin) timings.margin = Duration();
  return timings;
}

// What one seed is about.
struct Theme {
  ElectionCheckers::Clocks clocks = ElectionCheckers::Clocks::kNear;
  bool rates = false;
  bool restores = false;
  bool vandals = false;
  bool cuts_for_ever = false;  // In calm, all but one server stay cut off one way.
  bool kills_in_calm = false;
  SimStoreFaults faults;
};

std::uint32_t Rate(Prng& prng, std::uint64_t most) {
  return prng.Chance(1, 2) ? static_cast<std::uint32_t>(prng.Below(most)) : 0;
}

Theme DrawTheme(Prng& prng) {
  Theme theme;
  if (prng.Chance(1, 3)) theme.clocks = ElectionCheckers::Clocks::kFar;
  theme.rates = prng.Chance(2, 3);
  theme.restores = theme.clocks == ElectionCheckers::Clocks::kFar && prng.Chance(1, 2);
  theme.vandals = prng.Chance(1, 3);
  theme.cuts_for_ever = prng.Chance(1, 4);
  theme.kills_in_calm = prng.Chance(1, 8);
  theme.faults = {.latency_max = Duration::Milliseconds(prng.Between(20, 400)),
                  .error_not_done = Rate(prng, 1'000),
                  .error_maybe_done = Rate(prng, 1'500),
                  .request_lost = Rate(prng, 1'000),
                  .answer_lost = Rate(prng, 2'000),
                  .applied_late = Rate(prng, 1'500),
                  .delivered_twice = Rate(prng, 1'000),
                  .stale_read = Rate(prng, 1'000)};
  return theme;
}

class Election {
 public:
  explicit Election(const ElectionOptions& options)
      : scheduler_(options.seed),
        world_loop_(scheduler_, Timestamp()),
        bucket_(scheduler_, {}),
        prng_(scheduler_.prng().Fork()),
        theme_(DrawTheme(prng_)),
        checkers_(scheduler_, Identity(),
                  {.lease = Key("leader/a.json"), .journal = Key("journal/a.json")}),
        world_{.scheduler = scheduler_,
               .loop = world_loop_,
               .bucket = bucket_,
               .checkers = checkers_,
               .identity = Identity(),
               .lease_key = Key("leader/a.json"),
               .journal_key = Key("journal/a.json"),
               .timings = TimingsFor(options.plant),
               .plant = options.plant} {
    if (options.trace == ElectionOptions::Trace::kOn) world_.trace = &report_.trace;
    bucket_.set_observer([this](const SimChange& change) {
      if (world_.trace != nullptr) NoteChange(change);
      checkers_.OnChange(change);
    });
  }

  ElectionReport Run() {
    Populate();
    fault_ = NextFault();
    RunWhile([this] { return scheduler_.now().since_zero() < kFaultyTime; });
    fault_ = Pending();
    Calm();
    if (!checkers_.violation()) ExpectOneLeader();
    if (!checkers_.violation() && theme_.kills_in_calm) ExpectQuickTakeOver();
    return Finish();
  }

 private:
  struct Seat {
    std::string id;
    std::unique_ptr<ElectionServer> server;  // Null: dead.
    std::optional<ElectionServer::Memory> saved;
    bool cut_for_ever = false;
    bool detection_due = false;
    Pending revival;
    Pending resumption;
    Pending detection;
  };

  static JournalIdentity Identity() {
    return {.cluster = ClusterId::Parse("c").value(), .shard = ShardId::Parse("a").value()};
  }

  void NoteChange(const SimChange& change) const {
    world_.Note(fmt::format("    {} by {}: {}", change.key.text(),
                            change.process.empty() ? "hand" : change.process,
                            change.after == nullptr ? "" : change.after->bytes));
  }

  // --- The world's course -----------------------------------------------------------------------

  void Populate() {
    if (prng_.Chance(1, 2)) {
      // A journal of an earlier life, with members that we do not know.
      Journal journal = ResetJournal(Identity(), {.highest_epoch = 6, .highest_seq = 40},
                                     {.holder = "old/0", .write_id = "old", .at = Timestamp()});
      journal.audit_head = "head";
      journal.unknown.push_back(
          {.key = "newer", .key_position = {}, .value = json::Value::Integer(1)});
      bucket_.SetByHand(world_.journal_key, EncodeJournal(journal));
    }
    const std::uint64_t servers = 2 + prng_.Below(3);
    seats_.reserve(servers);
    const bool shared_id = prng_.Chance(1, 3);
    for (std::uint64_t i = 0; i < servers; ++i) {
      Seat& seat = seats_.emplace_back();
      seat.id = shared_id && i < 2 ? "s0" : fmt::format("s{}", i);
    }
    for (Seat& seat : seats_) Boot(seat);
  }

  // Runs task by task; the invariants are looked at after each.
  template <class Condition>
  void RunWhile(Condition condition) {
    while (!checkers_.violation() && condition() && scheduler_.Step()) {
      leaders_.clear();
      for (const Seat& seat : seats_) {
        if (!seat.server || !seat.server->Leads()) continue;
        leaders_.push_back(&seat.server->elector().machine().incarnation());
      }
      checkers_.Lead(leaders_, theme_.clocks);
    }
  }

  void Boot(Seat& seat) {
    const bool fresh = bucket_.Find(world_.journal_key) == nullptr;
    const auto skew = Duration::Seconds(prng_.Between(-315'360'000, 315'360'000));
    seat.server = std::make_unique<ElectionServer>(
        world_, ElectionServer::Config{.id = seat.id,
                                       .process = fmt::format("{}#{}", seat.id, ++boots_),
                                       .wall_start = Timestamp::FromUnix(1'767'225'600) + skew,
                                       .bucket = fresh ? BucketAge::kNew : BucketAge::kUsed,
                                       .random_seed = prng_.Next(),
                                       .works = !calm_});
    Settle(seat);
    seat.server->Start();
  }

  // A process that has just come up lives under the faults of the moment.
  void Settle(Seat& seat) {
    if (calm_) {
      if (seat.cut_for_ever) Cut(seat);
      return;
    }
    seat.server->store().faults() = theme_.faults;
    if (theme_.rates) seat.server->loop().SetRate(DrawRate());
  }

  std::int64_t DrawRate() {
    if (theme_.clocks == ElectionCheckers::Clocks::kNear) {
      return kNearRates[prng_.Below(kNearRates.size())];
    }
    return kFarRates[prng_.Below(kFarRates.size())];
  }

  void Calm() {
    world_.Note("calm");
    calm_ = true;
    const std::size_t healthy = prng_.Below(seats_.size());
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      Seat& seat = seats_[i];
      seat.cut_for_ever = theme_.cuts_for_ever && i != healthy;
      seat.revival = Pending();
      seat.resumption = Pending();
      if (seat.server && seat.server->stops()) seat.server.reset();
      if (!seat.server) Boot(seat);
      if (seat.detection_due) Detect(seat);
      seat.server->loop().SetRate(SimLoop::kTrueRate);
      seat.server->loop().Resume();
      seat.server->store().faults() = {};
      seat.server->store().link() = {};
      seat.server->set_works(false);
      if (seat.cut_for_ever) Cut(seat);
    }
  }

  // --- Faults -----------------------------------------------------------------------------------

  Pending NextFault() {
    return world_loop_.CallAfter(Duration::Milliseconds(200) + prng_.UpTo(Duration::Seconds(8)),
                                 [this] {
                                   Strike(seats_[prng_.Below(seats_.size())]);
                                   fault_ = NextFault();
                                 });
  }

  void Strike(Seat& seat) {
    if (!seat.server || seat.server->stops() || seat.server->loop().paused()) return;
    switch (prng_.Below(10)) {
      case 0:
      case 1: return Crash(seat);
      case 2:
      case 3: return Pause(seat);
      case 4: return CutForAWhile(seat);
      case 5: return Jump(seat);
      case 6: return ChangeRate(seat);
      case 7: return Vandalise();
      case 8: return SaveOrRestore(seat);
      default: return Leave(seat);
    }
  }

  void Crash(Seat& seat) {
    world_.Note(seat.server->config().process + " crashes");
    seat.server.reset();
    seat.revival =
        world_loop_.CallAfter(prng_.UpTo(Duration::Seconds(20)), [this, &seat] { Boot(seat); });
  }

  void Pause(Seat& seat) {
    const Duration length = prng_.UpTo(Duration::Seconds(prng_.Chance(1, 4) ? 60 : 12));
    world_.Note(
        fmt::format("{} pauses for {}", seat.server->config().process, FormatDuration(length)));
    seat.server->loop().Pause();
    seat.resumption = world_loop_.CallAfter(length, [this, &seat] {
      if (!seat.server) return;
      world_.Note(seat.server->config().process + " resumes");
      seat.server->loop().Resume();
    });
  }

  void Cut(Seat& seat) {
    SimLink& link = seat.server->store().link();
    link.requests_lost = prng_.Chance(1, 3);
    link.answers_lost = !link.requests_lost || prng_.Chance(1, 3);
  }

  void CutForAWhile(Seat& seat) {
    world_.Note(seat.server->config().process + " is cut off");
    Cut(seat);
    seat.revival = world_loop_.CallAfter(prng_.UpTo(Duration::Seconds(30)), [&seat] {
      if (seat.server) seat.server->store().link() = {};
    });
  }

  void Jump(Seat& seat) {
    const std::int64_t most = prng_.Chance(1, 2) ? 60 : 315'360'000;
    const auto length = Duration::Seconds(prng_.Between(-most, most));
    world_.Note(
        fmt::format("{}: wall clock {}", seat.server->config().process, FormatDuration(length)));
    seat.server->loop().JumpWall(length);
  }

  void ChangeRate(Seat& seat) {
    if (theme_.rates) seat.server->loop().SetRate(DrawRate());
  }

  void Vandalise() {
    if (!theme_.vandals || scheduler_.now().since_zero() < Duration::Seconds(20)) return;
    ++report_.vandalisms;
    switch (prng_.Below(4)) {
      case 0: world_.Note("the lease is deleted"); return bucket_.EraseByHand(world_.lease_key);
      case 1: world_.Note("the lease is emptied"); return bucket_.SetByHand(world_.lease_key, "");
      case 2:
        world_.Note("the lease is corrupted");
        return bucket_.SetByHand(world_.lease_key, "{\"leaderID\":\"s0\"");
      default:
        world_.Note("another program takes the lease");
        return bucket_.SetByHand(world_.lease_key, R"({"leaderID":"go","leaderAddr":"x:1",)"
                                                   R"("lastUpdated":"2026-01-01T00:00:00Z"})");
    }
  }

  void SaveOrRestore(Seat& seat) {
    if (!theme_.restores) return;
    if (!seat.saved || prng_.Chance(1, 2)) {
      seat.saved = seat.server->Save();
      return;
    }
    ++report_.restores;
    world_.Note(seat.server->config().process + " is restored from a saved state");
    seat.server.reset();
    seat.server = std::make_unique<ElectionServer>(world_, *seat.saved,
                                                   fmt::format("{}#{}", seat.id, ++boots_));
    Settle(seat);
    seat.server->Start();
    // The machine's new generation is noticed at some later moment.
    seat.detection_due = true;
    seat.detection =
        world_loop_.CallAfter(prng_.UpTo(Duration::Seconds(5)), [this, &seat] { Detect(seat); });
  }

  void Detect(Seat& seat) {
    seat.detection_due = false;
    if (seat.server) seat.server->elector().Restored();
  }

  void Leave(Seat& seat) {
    world_.Note(seat.server->config().process + " stops");
    seat.server->Stop();
    seat.revival = world_loop_.CallAfter(Duration::Seconds(6) + prng_.UpTo(Duration::Seconds(20)),
                                         [this, &seat] {
                                           seat.server.reset();
                                           Boot(seat);
                                         });
  }

  // --- Liveness ---------------------------------------------------------------------------------

  [[nodiscard]] ElectionServer* OnlyActing() const {
    ElectionServer* found = nullptr;
    for (const Seat& seat : seats_) {
      if (!seat.server || !seat.server->Acts()) continue;
      if (found != nullptr) return nullptr;
      found = seat.server.get();
    }
    return found;
  }

  void ExpectOneLeader() {
    const Instant end = scheduler_.now() + kCalmLimit;
    RunWhile([&] { return OnlyActing() == nullptr && scheduler_.now() < end; });
    if (OnlyActing() == nullptr) {
      checkers_.Violated("I05_InCalmThereIsExactlyOneLeader", "none after the limit");
    }
  }

  // After the leader's death: lease + 1.5 renew + 3 storage calls, under any wall clock.
  void ExpectQuickTakeOver() {
    const Instant settled = scheduler_.now() + kCalmLimit;
    RunWhile([&] { return scheduler_.now() < settled; });
    ElectionServer* leader = OnlyActing();
    const bool others = !theme_.cuts_for_ever;
    if (leader == nullptr) {
      return checkers_.Violated("I05_InCalmThereIsExactlyOneLeader", "lost without a fault");
    }
    if (!others) return;
    world_.Note(leader->config().process + " is killed");
    for (Seat& seat : seats_) {
      if (seat.server.get() == leader) seat.server.reset();
    }
    const LeaseTimings& timings = world_.timings;
    const Duration bound = timings.lease + (timings.renew * 3 / 2) + (kStoreTimeout * 3);
    const Instant end = scheduler_.now() + bound;
    RunWhile([&] { return OnlyActing() == nullptr && scheduler_.now() < end; });
    if (OnlyActing() == nullptr) {
      checkers_.Violated("I04_ADeadLeaderIsReplacedInTime", FormatDuration(bound));
    }
  }

  ElectionReport Finish() {
    report_.violation = checkers_.violation();
    report_.trace_hash = scheduler_.trace_hash();
    report_.steps = scheduler_.steps();
    report_.acquisitions = world_.counts.acquisitions;
    report_.take_overs = world_.counts.take_overs;
    report_.losses = world_.counts.losses;
    report_.effects = world_.counts.effects;
    report_.refused_effects = world_.counts.refused_effects;
    report_.commits = checkers_.commits();
    return std::move(report_);
  }

  SimScheduler scheduler_;
  SimLoop world_loop_;
  SimBucket bucket_;
  Prng prng_;
  Theme theme_;
  ElectionCheckers checkers_;
  ElectionWorld world_;
  ElectionReport report_;
  std::vector<Seat> seats_;
  std::vector<const std::string*> leaders_;
  std::uint64_t boots_ = 0;
  bool calm_ = false;
  Pending fault_;
};

}  // namespace

ElectionReport RunElection(const ElectionOptions& options) { return Election(options).Run(); }

std::string ReplayCommand(const ElectionOptions& options) {
  return fmt::format("election_sim_main --from {} --seeds 1 --plant {} --trace", options.seed,
                     PlantName(options.plant));
}

}  // namespace nstance::sim
