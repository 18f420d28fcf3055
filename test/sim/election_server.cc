#include "test/sim/election_server.h"

#include <utility>

#include <fmt/format.h>

namespace nstance::sim {
namespace {

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
      watched_(store_, world.checkers, config_.process),
      planted_(
          watched_, loop_,
          {.plant = world.plant, .journal_key = world.journal_key, .identity = world.identity}),
      prng_(config_.random_seed),
      elector_({.loop = clock(), .store = planted_, .random = random_}, world.lease_key,
               NewLeaseMachine(), ElectorOwner()),
      self_(std::make_shared<ElectionServer*>(this)) {}

ElectionServer::ElectionServer(ElectionWorld& world, const Memory& memory, std::string process)
    : world_(world),
      config_(memory.config),
      loop_(world.scheduler, config_.wall_start),
      wall_loop_(world.plant == Plant::kWallClock ? std::make_unique<WallClockLoop>(loop_)
                                                  : nullptr),
      random_(world.scheduler.prng().Next()),
      store_(world.bucket, loop_, {.process = process, .deadline = world.timings.store_timeout}),
      watched_(store_, world.checkers, process),
      planted_(
          watched_, loop_,
          {.plant = world.plant, .journal_key = world.journal_key, .identity = world.identity}),
      prng_(world.scheduler.prng().Next()),
      elector_({.loop = clock(), .store = planted_, .random = random_}, world.lease_key,
               memory.lease, ElectorOwner()),
      self_(std::make_shared<ElectionServer*>(this)) {
  config_.process = std::move(process);
  loop_.SetClock(memory.clock);
  if (memory.journal) MakeWriter(*memory.journal);
}

ElectionServer::~ElectionServer() {
  *self_ = nullptr;
  world_.checkers.Died(config_.process);
}

LeaseMachine ElectionServer::NewLeaseMachine() const {
  return LeaseMachine({.leader_id = config_.id,
                       .leader_addr = config_.process,
                       .timings = world_.timings,
                       .bucket = config_.bucket});
}

Elector::Owner ElectionServer::ElectorOwner() {
  return {.acquired = [this](std::int64_t term) { Acquired(term); },
          .lost = [this](LeaseLoss loss) { Lost(loss); }};
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
          .refused = [this](const Error& why) { JournalEnded(why.message); },
          .lost = [this](JournalLoss loss) { JournalEnded(JournalLossName(loss)); },
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
  MakeWriter(JournalMachine({.identity = world_.identity,
                             .holder = config_.id + "/" + elector_.machine().incarnation(),
                             .evidence = EpochEvidence::kNone}));
  // Now and then the rest of a take-over hangs, and the lease has to be given back.
  if (config_.works && prng_.Chance(1, 30)) {
    world_.Note(config_.process + " hangs in its take-over");
  } else {
    writer_->Start();
  }
}

void ElectionServer::Lost(LeaseLoss loss) {
  ++world_.counts.losses;
  world_.Note(fmt::format("{} lost the lease: {}", config_.process, LeaseLossName(loss)));
  DropWriter();
}

void ElectionServer::JournalEnded(std::string_view why) {
  world_.Note(fmt::format("{} lost the journal: {}", config_.process, why));
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
  work_ = loop_.CallAfter(Duration::Milliseconds(100) + prng_.UpTo(Duration::Seconds(4)), [this] {
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
  world_.checkers.ToldDurable(config_.process, *id);
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
  world_.checkers.AsksToClose(intent_id);
  if (config_.works && prng_.Chance(1, 4)) {
    writer_->Submit({.id = intent_id, .intent = NewIntent()}, JournalMachine::Urgency::kNow,
                    [this](const Result<std::string>& id) { Durable(id); });
    return;
  }
  if (open_ > 0) --open_;
  writer_->Close(intent_id);
}

}  // namespace nstance::sim
