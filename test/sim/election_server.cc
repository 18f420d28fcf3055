#include "test/sim/election_server.h"

#include <utility>

#include <fmt/format.h>

namespace nstance::sim {
namespace {

template <std::size_t kSize>
void Add(std::array<std::uint64_t, kSize>& sum, const std::array<std::uint64_t, kSize>& more) {
  for (std::size_t i = 0; i < kSize; ++i) sum.at(i) += more.at(i);
}

constexpr Duration kSendTimeout = Duration::Seconds(2);
constexpr std::size_t kMostOpen = 3;

const InstanceId& SomeInstance() {
  static const InstanceId kId = ParsePuidv7("knc06bgm7733st2576nx5jht4ecjw").value();
  return kId;
}
const TenantId& SomeTenant() {
  static const TenantId kTenant = TenantId::Parse("prod").value();
  return kTenant;
}
const GroupKey& SomeGroup() {
  static const GroupKey kGroup = GroupKey::Parse("workers").value();
  return kGroup;
}

}  // namespace

ElectionCounts& ElectionCounts::operator+=(const ElectionCounts& other) {
  acquisitions += other.acquisitions;
  take_overs += other.take_overs;
  commits += other.commits;
  effects += other.effects;
  refused_effects += other.refused_effects;
  hanging_take_overs += other.hanging_take_overs;
  refused_journals += other.refused_journals;
  excuses += other.excuses;
  crashes += other.crashes;
  storms += other.storms;
  pauses += other.pauses;
  partitions += other.partitions;
  clogs += other.clogs;
  wall_jumps += other.wall_jumps;
  rate_changes += other.rate_changes;
  vandalisms += other.vandalisms;
  journal_damages += other.journal_damages;
  restores += other.restores;
  stops += other.stops;
  Add(lease_losses, other.lease_losses);
  Add(journal_losses, other.journal_losses);
  Add(alarms, other.alarms);
  return *this;
}

void ElectionWorld::Note(const std::string& text) const {
  if (trace == nullptr) return;
  trace->push_back(fmt::format("{:>12} {}", FormatDuration(scheduler.now().since_zero()), text));
}

ElectionServer::ElectionServer(ElectionWorld& world, Config config)
    : world_(world),
      config_(std::move(config)),
      loop_(world.scheduler, config_.wall_start),
      wall_loop_(world.plant == Plant::kWallClock ? std::make_unique<WallClockLoop>(loop_)
                                                  : nullptr),
      random_(config_.random_seed),
      store_(world.bucket, loop_,
             {.process = config_.process, .deadline = world.timings.store_timeout}),
      watched_(store_, world.checkers, [this] { return MayWrite(); }),
      planted_(watched_, loop_,
               {.plant = world.plant,
                .journal_key = world.journal_key,
                .identity = world.identity,
                .may_write = [this] { return MayWrite(); }}),
      prng_(config_.random_seed),
      elector_(ElectorDeps(), world.lease_key, NewLeaseMachine(), ElectorOwner()),
      self_(std::make_shared<ElectionServer*>(this)) {}

ElectionServer::ElectionServer(ElectionWorld& world, const Memory& memory, std::string process)
    : world_(world),
      config_(memory.config),
      loop_(world.scheduler, config_.wall_start),
      wall_loop_(world.plant == Plant::kWallClock ? std::make_unique<WallClockLoop>(loop_)
                                                  : nullptr),
      random_(world.scheduler.prng().Next()),
      store_(world.bucket, loop_, {.process = process, .deadline = world.timings.store_timeout}),
      watched_(store_, world.checkers, [this] { return MayWrite(); }),
      planted_(watched_, loop_,
               {.plant = world.plant,
                .journal_key = world.journal_key,
                .identity = world.identity,
                .may_write = [this] { return MayWrite(); }}),
      prng_(world.scheduler.prng().Next()),
      elector_(ElectorDeps(), world.lease_key, memory.lease, ElectorOwner()),
      self_(std::make_shared<ElectionServer*>(this)) {
  world.checkers.Restored(config_.process, process);
  config_.process = std::move(process);
  unaware_ = true;
  watched_.set_doubts(memory.doubts);
  loop_.SetClock(memory.clock);
  if (memory.journal) MakeWriter(*memory.journal);
}

ElectionServer::~ElectionServer() {
  *self_ = nullptr;
  world_.checkers.Detected(config_.process);
}

bool ElectionServer::MayWrite() const {
  return elector_.machine().MayStart(ClockNow(), world_.timings.store_timeout);
}

void ElectionServer::DetectRestore() {
  if (!unaware_) return;
  unaware_ = false;
  world_.checkers.Detected(config_.process);
  config_.boot_id = config_.process;
  elector_.Look();
}

LeaseMachine ElectionServer::NewLeaseMachine() const {
  return LeaseMachine({.leader_id = config_.id,
                       .leader_addr = config_.process,
                       .timings = world_.timings,
                       .bucket = config_.bucket});
}

Elector::Deps ElectionServer::ElectorDeps() {
  return {.loop = clock(), .store = planted_, .random = random_, .boot_id = [this] {
            return config_.boot_id;
          }};
}

Elector::Owner ElectionServer::ElectorOwner() {
  return {
      .acquired = [this](std::int64_t term) { Acquired(term); },
      .lost = [this](LeaseLoss loss) { Lost(loss); },
      .alarm =
          [this](LeaseAlarm alarm) { ++world_.counts.alarms.at(static_cast<std::size_t>(alarm)); }};
}

void ElectionServer::Start() {
  elector_.Start();
  if (!writer_) return;
  writer_->Start();
  if (writer_->machine().open()) Work();
}

ElectionServer::Memory ElectionServer::Save() const {
  return {.lease = elector_.machine(),
          .journal = writer_ ? std::optional(writer_->machine()) : std::nullopt,
          .clock = loop_.Now(),
          .doubts = watched_.doubts(),
          .config = config_};
}

void ElectionServer::Stop() {
  stops_ = true;
  DropWriter();
  elector_.Stop(clock().Now() + Duration::Seconds(5), [] {});
}

void ElectionServer::MakeWriter(JournalMachine machine) {
  writer_ = std::make_unique<JournalWriter>(
      JournalWriter::Deps{.loop = loop_, .store = planted_, .random = random_},
      JournalWriter::Options{.key = world_.journal_key,
                             .store_timeout = world_.timings.store_timeout},
      std::move(machine),
      JournalWriter::Owner{
          .took_over = [this](std::int64_t epoch) { TookOver(epoch); },
          .refused = [this](const Error& why) { JournalRefused(why); },
          .lost = [this](JournalLoss loss) { JournalLost(loss); },
          .may_start = [this](Duration bound) { return elector_.MayStart(bound); }});
}

void ElectionServer::DropWriter() {
  writer_.reset();
  planted_.NextTerm();
  ++generation_;
  open_ = 0;
  work_ = Pending();
  retries_.clear();
}

void ElectionServer::Acquired(std::int64_t term) {
  ++world_.counts.acquisitions;
  world_.Note(fmt::format("{} acquired, term {}", config_.process, term));
  DropWriter();
  MakeWriter(
      JournalMachine({.identity = world_.identity,
                      .holder = config_.id + "/" + elector_.machine().incarnation(),
                      .evidence = world_.was_led ? EpochEvidence::kSome : EpochEvidence::kNone}));
  // Now and then the rest of a take-over hangs, and the lease has to be given back.
  if (config_.works && prng_.Chance(1, 20)) {
    ++world_.counts.hanging_take_overs;
    world_.Note(config_.process + " hangs in its take-over");
  } else {
    writer_->Start();
  }
}

void ElectionServer::Lost(LeaseLoss loss) {
  ++world_.counts.lease_losses.at(static_cast<std::size_t>(loss));
  world_.Note(fmt::format("{} lost the lease: {}", config_.process, LeaseLossName(loss)));
  DropWriter();
}

void ElectionServer::JournalLost(JournalLoss loss) {
  ++world_.counts.journal_losses.at(static_cast<std::size_t>(loss));
  world_.Note(fmt::format("{} lost the journal: {}", config_.process, JournalLossName(loss)));
  LeaveJournal();
}

void ElectionServer::JournalRefused(const Error& why) {
  ++world_.counts.refused_journals;
  world_.Note(fmt::format("{} refuses to lead: {}", config_.process, why.message));
  LeaveJournal();
}

void ElectionServer::LeaveJournal() {
  DropWriter();
  elector_.StepDown();
}

void ElectionServer::TookOver(std::int64_t epoch) {
  ++world_.counts.take_overs;
  world_.Note(fmt::format("{} took over, epoch {}", config_.process, epoch));
  world_.checkers.TookOver(epoch, writer_->journal().holder);
  elector_.TakenOver();
  for (const Intent& intent : writer_->journal().intents) {
    ++open_;
    Begin(intent.id);
  }
  Work();
}

void ElectionServer::Work() {
  work_ = loop_.CallAfter(Duration::Milliseconds(100) + prng_.UpTo(Duration::Seconds(3)), [this] {
    for (std::uint64_t i = 0, n = 1 + prng_.Below(3); i < n; ++i) OpenOne();
    Work();
  });
}

Intent ElectionServer::NewIntent() {
  return {.id = {},
          .kind = IntentKind::kCreate,
          .instance_id = SomeInstance(),
          .tenant = SomeTenant(),
          .group = SomeGroup(),
          .opened_at = loop_.WallNow(),
          .epoch = 0,
          .reason = "scale-up"};
}

void ElectionServer::OpenOne() {
  if (!config_.works || open_ >= kMostOpen) return;
  ++open_;
  writer_->Open(NewIntent(), [this](const Result<std::string>& id) { Durable(id); });
}

void ElectionServer::Durable(const Result<std::string>& id) {
  if (!id) return;
  world_.was_led = true;
  world_.checkers.ToldDurable(*id);
  if (watched_.journal_in_doubt()) {
    world_.checkers.Violated("I09_NothingIsSaidInDoubt", "intent " + *id);
  }
  Begin(*id);
}

void ElectionServer::TryAgain(const std::string& intent_id) {
  ++world_.counts.refused_effects;
  retries_.push_back(
      loop_.CallAfter(Duration::Milliseconds(500), [this, intent_id] { Begin(intent_id); }));
}

// The provider hears of it at some later moment, whatever has become of us.
void ElectionServer::Begin(const std::string& intent_id) {
  if (!writer_) return;
  if (!elector_.MayStart(kSendTimeout)) return TryAgain(intent_id);
  ++world_.counts.effects;
  const std::int64_t epoch = writer_->journal().epoch;
  const auto arrives = [&world = world_, self = self_, epoch, intent_id, generation = generation_] {
    world.checkers.ProviderRequest(epoch, intent_id);
    if (*self == nullptr) return;
    (*self)->loop_.Post([self, intent_id, generation] {
      if (*self != nullptr && (*self)->generation_ == generation) (*self)->Finish(intent_id);
    });
  };
  world_.later.push_back(world_.loop.CallAfter(prng_.UpTo(Duration::Seconds(3)), arrives));
}

void ElectionServer::Finish(const std::string& intent_id) {
  if (!writer_) return;
  world_.checkers.AsksToClose(config_.process, intent_id);
  if (config_.works && prng_.Chance(1, 4)) {
    writer_->Submit({.id = intent_id, .intent = NewIntent()}, JournalMachine::Urgency::kNow,
                    [this](const Result<std::string>& id) { Durable(id); });
    return;
  }
  if (open_ > 0) --open_;
  writer_->Close(intent_id);
}

}  // namespace nstance::sim
