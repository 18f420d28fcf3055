#include "test/sim/election_sim.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "test/sim/election_server.h"

namespace nstance::sim {
namespace {

constexpr Duration kStoreTimeout = Duration::Seconds(3);
// The longest that a server leaves the lease to others, and what an election takes after that.
constexpr Duration kCalmLimit = Duration::Seconds(160 + 60);
// Rates that differ by less than lease / (lease - margin) = 4/3, and any.
constexpr std::array<std::int64_t, 5> kNearRates = {870, 930, 1'000, 1'070, 1'150};
constexpr std::array<std::int64_t, 7> kFarRates = {500, 500, 700, 1'000, 1'600, 2'000, 2'000};

ObjectKey Key(std::string_view text) { return ObjectKey::Parse(text).value(); }

LeaseTimings TimingsFor(Plant plant, Duration take_over_limit) {
  LeaseTimings timings;
  timings.take_over_limit = take_over_limit;
  if (plant == Plant::kNoMargin) timings.margin = Duration();
  return timings;
}

enum class Clocks : std::uint8_t {
  kOne,
  kNear,  // Rates differ by less than lease / (lease - margin): leaderships never overlap.
  kFar,   // They may; the journal alone fences.
};

// What one seed is about.
struct Theme {
  Duration length;  // Of the faults.
  Duration take_over_limit;
  Clocks clocks = Clocks::kOne;
  bool restores = false;
  bool vandals = false;
  bool journal_vandals = false;
  bool cuts_for_ever = false;  // In calm, all but one server stay cut off one way.
  bool lingers = false;        // In calm, the one leader is watched for a while,
  bool kills_in_calm = false;  // or is killed, long after.
  SimStoreFaults faults;
};

std::uint32_t Rate(Prng& prng, std::uint64_t most) {
  return prng.Chance(1, 2) ? static_cast<std::uint32_t>(prng.Below(most)) : 0;
}

Theme DrawTheme(Prng& prng) {
  constexpr std::array kClocks = {Clocks::kOne, Clocks::kNear, Clocks::kFar};
  constexpr std::array kLateMax = {Duration::Seconds(10), Duration::Seconds(60),
                                   Duration::Minutes(10)};
  Theme theme;
  theme.length = Duration::Seconds(prng.Between(20, 60));
  theme.take_over_limit = Duration::Seconds(prng.Chance(1, 4) ? 60 : 10);
  theme.clocks = kClocks.at(prng.Below(kClocks.size()));
  theme.restores = prng.Chance(1, 4);
  theme.vandals = prng.Chance(1, 3);
  theme.journal_vandals = prng.Chance(1, 6);
  theme.cuts_for_ever = prng.Chance(1, 4);
  theme.lingers = prng.Chance(1, 4);
  theme.kills_in_calm = prng.Chance(1, 20);
  theme.faults = {.latency_max = Duration::Milliseconds(prng.Between(20, 400)),
                  .error_not_done = Rate(prng, 1'000),
                  .error_maybe_done = Rate(prng, 1'500),
                  .request_lost = Rate(prng, 1'000),
                  .answer_lost = Rate(prng, 2'000),
                  .applied_late = Rate(prng, 1'500),
                  .late_max = kLateMax.at(prng.Below(kLateMax.size())),
                  .delivered_twice = Rate(prng, 1'000),
                  .stale_read = Rate(prng, 1'000)};
  return theme;
}

JournalIdentity Identity() {
  return {.cluster = ClusterId::Parse("c").value(), .shard = ShardId::Parse("a").value()};
}

ElectionCheckers::Options CheckerOptions(const Theme& theme, const std::string& blind_to) {
  return {.identity = Identity(),
          .lease_key = Key("leader/a.json"),
          .journal_key = Key("journal/a.json"),
          .slowest_near = kNearRates.front(),
          .stale_by = theme.faults.stale_read > 0 ? theme.faults.stale_by : Duration(),
          .blind_to = blind_to};
}

class Election {
 public:
  explicit Election(const ElectionOptions& options)
      : scheduler_(options.seed),
        world_loop_(scheduler_, Timestamp()),
        bucket_(scheduler_, {}),
        prng_(scheduler_.prng().Fork()),
        theme_(DrawTheme(prng_)),
        checkers_(scheduler_, CheckerOptions(theme_, options.blind_to)),
        world_{.scheduler = scheduler_,
               .loop = world_loop_,
               .bucket = bucket_,
               .checkers = checkers_,
               .identity = Identity(),
               .lease_key = Key("leader/a.json"),
               .journal_key = Key("journal/a.json"),
               .timings = TimingsFor(options.plant, theme_.take_over_limit),
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
    RunWhile([this] { return scheduler_.now().since_zero() < theme_.length; });
    fault_ = Pending();
    Calm();
    if (!checkers_.violation()) ExpectOneLeader();
    if (!checkers_.violation() && theme_.lingers) ExpectToStay();
    if (!checkers_.violation() && theme_.kills_in_calm) ExpectQuickTakeOver();
    return Finish();
  }

 private:
  struct Seat {
    std::string id;
    std::unique_ptr<ElectionServer> server;  // Null: dead.
    std::optional<ElectionServer::Memory> saved;
    bool cut_for_ever = false;
    std::int64_t slowest = SimLoop::kTrueRate;  // Of its clock, in the life of the process.
    Instant new_until;  // It may still believe that nobody has ever led here.
    Pending revival;
    Pending resumption;
    Pending detection;
  };

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
      world_.was_led = true;
      was_used_ = true;
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
      if (calm_ && !rates_are_one_) ForgetRates();
      leaders_.clear();
      for (const Seat& seat : seats_) {
        if (!seat.server || !seat.server->Leads()) continue;
        leaders_.push_back({.incarnation = &seat.server->elector().machine().incarnation(),
                            .slowest = seat.slowest,
                            .restored = seat.server->unaware()});
      }
      checkers_.Lead(leaders_);
    }
  }

  // A lease that was timed by clocks of different rates is over.
  void ForgetRates() {
    if (scheduler_.now() < calm_since_ + (world_.timings.lease * 2)) return;
    for (Seat& seat : seats_) seat.slowest = SimLoop::kTrueRate;
    checkers_.RatesAreOne();
    rates_are_one_ = true;
  }

  void Boot(Seat& seat) {
    const bool fresh = bucket_.Find(world_.journal_key) == nullptr;
    const auto skew = Duration::Seconds(prng_.Between(-315'360'000, 315'360'000));
    seat.slowest = SimLoop::kTrueRate;
    if (fresh) seat.new_until = scheduler_.now() + (world_.timings.lease * 2);
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
    ChangeRate(seat);
  }

  void ChangeRate(Seat& seat) {
    if (theme_.clocks == Clocks::kOne) return;
    ++world_.counts.rate_changes;
    const std::int64_t rate = theme_.clocks == Clocks::kNear
                                  ? kNearRates.at(prng_.Below(kNearRates.size()))
                                  : kFarRates.at(prng_.Below(kFarRates.size()));
    seat.server->loop().SetRate(rate);
    seat.slowest = std::min(seat.slowest, rate);
    checkers_.SawRate(rate);
  }

  void Calm() {
    world_.Note("calm");
    calm_ = true;
    calm_since_ = scheduler_.now();
    RepairJournal();
    const std::size_t healthy = prng_.Below(seats_.size());
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      Seat& seat = seats_[i];
      seat.cut_for_ever = theme_.cuts_for_ever && i != healthy;
      seat.revival = Pending();
      seat.resumption = Pending();
      if (seat.server && seat.server->stops()) seat.server.reset();
      if (!seat.server) Boot(seat);
      seat.server->DetectRestore();
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
    return world_loop_.CallAfter(Duration::Milliseconds(100) + prng_.UpTo(Duration::Seconds(4)),
                                 [this] {
                                   Strike(Victim());
                                   fault_ = NextFault();
                                 });
  }

  // Every other time somebody who leads, if anybody does.
  Seat& Victim() {
    Seat& any = seats_[prng_.Below(seats_.size())];
    if (prng_.Chance(1, 2)) return any;
    for (Seat& seat : seats_) {
      if (seat.server && seat.server->Leads()) return seat;
    }
    return any;
  }

  void Strike(Seat& seat) {
    if (theme_.vandals && prng_.Chance(1, 4)) return Vandalise();
    if (!seat.server || seat.server->stops() || seat.server->loop().paused()) return;
    if (theme_.restores && prng_.Chance(1, 3)) return SaveOrRestore(seat);
    switch (prng_.Below(16)) {
      case 0:
      case 1: return Crash(seat, Duration::Seconds(20));
      case 2:
      case 3:
      case 4: return Pause(seat);
      case 5: return CutForAWhile(seat);
      case 6: ++world_.counts.clogs; return Clog(seat, 6);
      case 7: return Jump(seat);
      case 8: return ChangeRate(seat);
      case 9:
      case 10: return Vandalise();
      case 11: return DamageJournal();
      case 12:
      case 13: return SaveOrRestore(seat);
      case 14: return Storm();
      default: return Leave(seat);
    }
  }

  void Crash(Seat& seat, Duration longest) {
    ++world_.counts.crashes;
    world_.Note(seat.server->config().process + " crashes");
    seat.server.reset();
    seat.revival = world_loop_.CallAfter(prng_.UpTo(longest), [this, &seat] { Boot(seat); });
  }

  // Everybody restarts within one lease.
  void Storm() {
    if (!prng_.Chance(1, 3)) return;
    ++world_.counts.storms;
    for (Seat& seat : seats_) {
      if (seat.server) Crash(seat, world_.timings.lease);
    }
  }

  void Pause(Seat& seat) {
    const Duration length = prng_.UpTo(Duration::Seconds(prng_.Chance(1, 4) ? 60 : 12));
    world_.Note(
        fmt::format("{} pauses for {}", seat.server->config().process, FormatDuration(length)));
    ++world_.counts.pauses;
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
    ++world_.counts.partitions;
    world_.Note(seat.server->config().process + " is cut off");
    Cut(seat);
    seat.revival = world_loop_.CallAfter(prng_.UpTo(Duration::Seconds(30)), [&seat] {
      if (seat.server) seat.server->store().link() = {};
    });
  }

  // The link goes and comes several times, one way or both.
  void Clog(Seat& seat, int turns) {
    if (!seat.server) return;
    seat.server->store().link() = {};
    if (turns == 0) return;
    if (turns % 2 == 0) Cut(seat);
    const Duration length = prng_.UpTo(Duration::Seconds(turns % 2 == 0 ? 8 : 1));
    seat.revival = world_loop_.CallAfter(length, [this, &seat, turns] { Clog(seat, turns - 1); });
  }

  void Jump(Seat& seat) {
    ++world_.counts.wall_jumps;
    const std::int64_t most = prng_.Chance(1, 2) ? 60 : 315'360'000;
    const auto length = Duration::Seconds(prng_.Between(-most, most));
    world_.Note(
        fmt::format("{}: wall clock {}", seat.server->config().process, FormatDuration(length)));
    seat.server->loop().JumpWall(length);
  }

  void Vandalise() {
    // Who has just come up in a new bucket takes a missing lease at once; deleting it then is no
    // accident that the design answers to (BucketAge::kNew).
    const auto young = [this](const Seat& seat) { return scheduler_.now() < seat.new_until; };
    if (!theme_.vandals || std::ranges::any_of(seats_, young)) return;
    ++world_.counts.vandalisms;
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

  // Touched, or corrupt or gone for some seconds and then put back by hand as it was. Gone only if
  // it was there from the beginning: a first journal is created by whoever finds none, and that
  // creation could land late.
  void DamageJournal() {
    const Object* journal = bucket_.Find(world_.journal_key);
    if (!theme_.journal_vandals || journal == nullptr || damaged_) return;
    ++world_.counts.journal_damages;
    damaged_ = journal->bytes;
    switch (prng_.Below(was_used_ ? 3 : 2)) {
      case 0: world_.Note("the journal is touched"); return RepairJournal();
      case 1:
        world_.Note("the journal is corrupted");
        bucket_.SetByHand(world_.journal_key, "{\"version\":1");
        break;
      default:
        world_.Note("the journal is deleted");
        bucket_.EraseByHand(world_.journal_key);
        break;
    }
    repair_ = world_loop_.CallAfter(prng_.UpTo(Duration::Seconds(6)), [this] { RepairJournal(); });
  }

  void RepairJournal() {
    if (!damaged_) return;
    world_.Note("the journal is put back");
    bucket_.SetByHand(world_.journal_key, *std::exchange(damaged_, std::nullopt));
  }

  void SaveOrRestore(Seat& seat) {
    if (!theme_.restores) return;
    // Best the state of somebody who leads.
    if (!seat.saved || prng_.Chance(1, 3) || (seat.server->Leads() && prng_.Chance(1, 2))) {
      seat.saved = seat.server->Save();
      return;
    }
    ++world_.counts.restores;
    world_.Note(seat.server->config().process + " is restored from a saved state");
    seat.server.reset();
    seat.server = std::make_unique<ElectionServer>(world_, *seat.saved,
                                                   fmt::format("{}#{}", seat.id, ++boots_));
    Settle(seat);
    seat.server->Start();
    // The machine's new generation is noticed at some later moment.
    seat.detection = world_loop_.CallAfter(prng_.UpTo(Duration::Seconds(5)), [&seat] {
      if (seat.server) seat.server->DetectRestore();
    });
  }

  void Leave(Seat& seat) {
    ++world_.counts.stops;
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

  // Once everybody has noticed what happened before the calm: nothing that is still under way from
  // then may unseat the one leader.
  void ExpectToStay() {
    RunWhile([&] { return scheduler_.now() < calm_since_ + (world_.timings.lease * 2); });
    ExpectOneLeader();
    if (checkers_.violation()) return;
    ElectionServer* leader = OnlyActing();
    const std::int64_t term = leader->elector().machine().term();
    const Instant end = scheduler_.now() + (world_.timings.lease * 3);
    RunWhile([&] { return OnlyActing() == leader && scheduler_.now() < end; });
    if (OnlyActing() != leader || leader->elector().machine().term() != term) {
      checkers_.Violated("I05_InCalmThereIsExactlyOneLeader", "lost without a fault");
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
    report_.counts = world_.counts;
    report_.counts.commits = checkers_.commits();
    report_.counts.excuses = checkers_.excuses();
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
  std::vector<ElectionCheckers::Leader> leaders_;
  std::uint64_t boots_ = 0;
  bool was_used_ = false;               // The bucket had a journal from the beginning.
  std::optional<std::string> damaged_;  // What the journal was.
  bool calm_ = false;
  Instant calm_since_;
  bool rates_are_one_ = false;
  Pending repair_;
  Pending fault_;
};

}  // namespace

ElectionReport RunElection(const ElectionOptions& options) { return Election(options).Run(); }

std::string ReplayCommand(const ElectionOptions& options) {
  std::string command = fmt::format("election_sim_main --from {} --seeds 1 --trace", options.seed);
  if (options.plant != Plant::kNone)
    command += fmt::format(" --plant {}", PlantName(options.plant));
  if (!options.blind_to.empty()) command += fmt::format(" --blind-to {}", options.blind_to);
  return command;
}

}  // namespace nstance::sim
