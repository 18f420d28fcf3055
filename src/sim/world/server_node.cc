#include "sim/world/server_node.h"

#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace nstance::sim {
namespace {

class WorldKey final : public KeySource {
 public:
  explicit WorldKey(Loop& loop) : loop_(loop) {}
  [[nodiscard]] Pending Load(Done done) override {
    return loop_.CallAfter({}, [done = std::move(done)]() mutable { done(WorldEncryptionKey()); });
  }
  [[nodiscard]] std::string Description() const override { return "the world's key"; }

 private:
  Loop& loop_;
};

config::Address At(const std::string& host, std::uint16_t port) {
  return {.host = host, .port = port};
}

// The product's parts that the simulated machine stands for.
ServerFactories Factories(const WorldParts& parts, ServerNode& node, SimProvider*& provider,
                          ServerNode::Asked& asked) {
  const std::string process = node.standing().name;
  return {
      .provider = [parts, &node, &provider, process, ask = asked.of_provider](
                      const config::Config&) -> Result<std::unique_ptr<Provider>> {
        auto made = std::make_unique<SimProvider>(
            parts.cloud, node.loop(),
            SimProvider::Options{.process = process,
                                 .cluster = SimCluster(),
                                 .shard = node.machine().shard,
                                 .decide = [&node, ask](SimProviderMethod method, SimFate drawn) {
                                   return ask(node, method, drawn);
                                 }});
        made->link() = node.machine().provider_cut;
        provider = made.get();
        return made;
      },
      .key_source = [&node](const config::EncryptionKey&) -> Result<std::unique_ptr<KeySource>> {
        return std::make_unique<WorldKey>(node.loop());
      }};
}

// What the process finds on the disk of a machine that was switched off, restored, or grew old.
void Restart(ServerMachine& machine, Prng& prng) {
  const DatabaseFaults& faults = *machine.database;
  SimFiles& files = machine.rows.database;
  if (prng.Chance(faults.power_loss, 10'000)) files.LosePower(prng);
  if (prng.Chance(faults.old_copy, 10'000)) files = machine.old_database;
  if (prng.Chance(faults.damage, 10'000)) files.Damage(prng);
  if (prng.Chance(1, 2)) machine.old_database = files;
}

}  // namespace

DatabaseFaults DrawDatabaseFaults(Prng& prng) {
  const auto rate = [&prng](std::uint64_t most) {
    return prng.Chance(1, 2) ? static_cast<std::uint32_t>(prng.Below(most)) : 0;
  };
  return {.calls = {.read_error = rate(30),
                    .write_error = rate(60),
                    .full = rate(60),
                    .rot = rate(20),
                    .death = rate(5)},
          .power_loss = rate(10'000),
          .old_copy = rate(5'000),
          .damage = rate(3'000)};
}

crypto::EncryptionKey WorldEncryptionKey() {
  return crypto::EncryptionKey::Parse(AsBytes(std::string(32, 'k'))).value();
}

ServerNode::ServerNode(const WorldParts& parts, ServerMachine& machine, Asked asked)
    : scheduler_(parts.scheduler),
      machine_(machine),
      standing_{.name = fmt::format("{}#{}", machine.name, machine.runs + 1),
                .shard = machine.shard,
                .run = machine.runs + 1},
      loop_(parts.scheduler, WorldStart() + machine.wall_skew),
      store_(parts.bucket, loop_,
             {.process = standing_.name,
              .deadline = parts.setting.store_timeout,
              .decide = [this, ask = asked.of_store](
                            SimMethod method, const std::string& key,
                            SimFate drawn) { return ask(*this, method, key, drawn); }}),
      folder_(loop_, machine.files, parts.prng.Next()),
      rows_(OpenRows(parts)),
      random_(parts.prng.Next()),
      http_(loop_),
      rpc_(parts.network, loop_, {.process = machine.name}),
      sound_since_(parts.scheduler.now()),
      provider_sound_since_(parts.scheduler.now()) {
  ++machine.runs;
  host_.boot_id = machine.boot_id;
  store_.link() = machine.store_cut;
  machine.rows_lost = machine.rows.broken;
  parts.network.Unsilence(machine.name);
  if (machine.rate != SimLoop::kTrueRate) loop_.SetRate(machine.rate);
  process_ = std::make_unique<ServerProcess>(
      ServerProcess::Deps{.loop = loop_,
                          .store = store_,
                          .http = http_,
                          .cache = folder_,
                          .random = random_,
                          .metrics = metrics_,
                          .probe = probe_,
                          .log = log::Logger(parts.log, standing_.name),
                          .rpc = rpc_,
                          .factories = Factories(parts, *this, provider_, asked),
                          .rows = rows_.get(),
                          .host = &host_},
      ServerSettings{.id = machine.name,
                     .shard = machine.shard,
                     .bind = {.health_addr = At(machine.name, 8990),
                              .election_addr = At(machine.name, 8991),
                              .registration_addr = At(machine.name, kRegistrationPort),
                              .operator_addr = At(machine.name, kOperatorPort),
                              .agent_addr = At(machine.name, kAgentPort)},
                     .times = parts.setting.times,
                     .steps_per_turn = parts.setting.steps_per_turn},
      ServerProcess::Owner{.ended = [this](int code) { exit_code_ = code; },
                           .acting = [](std::int64_t, const std::map<RpcPort, RpcAddress>&) {}});
  process_->Start();
}

std::unique_ptr<Cache> ServerNode::OpenRows(const WorldParts& parts) {
  if (!machine_.database) return std::make_unique<SimCache>(loop_, machine_.rows);
  // Of its own: the same run with and without the real code differs in the rows alone.
  std::uint64_t seed = parts.setting.database_seed + machine_.runs;
  for (const char letter : machine_.name) seed = (seed * 31) + static_cast<unsigned char>(letter);
  Prng prng(seed);
  Restart(machine_, prng);
  auto cache = std::make_unique<SimSqliteCache>(
      SimSqliteCache::Deps{.loop = loop_,
                           .disk = machine_.rows,
                           .faults = machine_.database->calls,
                           .log = log::Logger(parts.log, standing_.name),
                           .seed = prng.Next()});
  database_ = cache.get();
  return cache;
}

const ServerStanding& ServerNode::standing() {
  if (process_ == nullptr) return standing_;
  const ShardLeader* leader = process_->leader();
  const Elector* elector = process_->elector();
  standing_.paused = loop_.paused();
  // As Elector::MayStart judges it, which is asked before every effect.
  standing_.leads = elector != nullptr && elector->machine().Leads(loop_.Now()) &&
                    !elector->machine().IsOtherBoot(machine_.boot_id);
  standing_.acting = leader != nullptr && leader->acting();
  standing_.epoch = leader == nullptr ? 0 : leader->epoch();
  const Fleet* fleet = leader == nullptr ? nullptr : leader->fleet();
  standing_.planned = fleet == nullptr ? PlannerWork() : fleet->planned();
  if (elector != nullptr && standing_.term != elector->machine().term()) {
    standing_.term = elector->machine().term();
    standing_.incarnation = elector->machine().incarnation();
  }
  return standing_;
}

void ServerNode::SetBoot(std::string boot_id) {
  host_.boot_id = boot_id;
  machine_.boot_id = std::move(boot_id);
}

void ServerNode::Stop() {
  if (told_to_stop_) told_to_stop_->again = true;
  // One that ends by an error already has its own code for that.
  if (!told_to_stop_ && !process_->ending()) {
    told_to_stop_ = {.at = scheduler_.now(),
                     .own_at = loop_.Now(),
                     .led = standing().leads,
                     .pauses = loop_.pauses()};
  }
  process_->Stop();
}

ServerExit ServerNode::End() {
  ServerExit exit = {.code = exit_code_.value_or(-1)};
  if (told_to_stop_) {
    exit.stopped = true;
    exit.led = told_to_stop_->led;
    exit.told_again = told_to_stop_->again;
    exit.took = loop_.Now() - told_to_stop_->own_at;
    exit.undisturbed =
        IsSound() && sound_since_ <= told_to_stop_->at && loop_.pauses() == told_to_stop_->pauses;
  }
  process_.reset();
  exit.left_in_loop = loop_.waiting();
  return exit;
}

bool ServerNode::IsSound() const {
  const SimLink& link = store_.link();
  return !loop_.paused() && loop_.rate() == SimLoop::kTrueRate && !link.requests_lost &&
         !link.answers_lost && store_.faults() == SimStoreFaults() && !machine_.leases_lost;
}

bool ServerNode::IsProviderSound() const {
  if (provider_ == nullptr) return false;
  const SimLink& link = provider_->link();
  return !link.requests_lost && !link.answers_lost && provider_->faults() == SimProviderFaults();
}

void ServerNode::LookWhetherSound() {
  const bool paused = std::exchange(pauses_seen_, loop_.pauses()) != loop_.pauses();
  if (!IsSound()) {
    sound_since_ = Instant::Never();
  } else if (paused || sound_since_ == Instant::Never()) {
    sound_since_ = scheduler_.now();
  }
  if (!IsProviderSound()) {
    provider_sound_since_ = Instant::Never();
  } else if (provider_sound_since_ == Instant::Never()) {
    provider_sound_since_ = scheduler_.now();
  }
}

SimLink* ServerNode::LinkOf(Way way) {
  if (muted()) return nullptr;
  if (way == Way::kStore) return &store_.link();
  return provider_ == nullptr ? nullptr : &provider_->link();
}

void ServerNode::CutWay(Way way, SimLink part) {
  SimLink* link = LinkOf(way);
  if (link == nullptr) return;
  if (part.requests_lost) link->requests_lost = true;
  if (part.answers_lost) link->answers_lost = true;
}

void ServerNode::HealWay(Way way, SimLink part) {
  SimLink* link = LinkOf(way);
  if (link == nullptr) return;
  const SimLink& lasts = way == Way::kStore ? machine_.store_cut : machine_.provider_cut;
  if (part.requests_lost) link->requests_lost = lasts.requests_lost;
  if (part.answers_lost) link->answers_lost = lasts.answers_lost;
}

void ServerNode::Mute(SimNetwork& network) {
  muted_ = true;
  network.Silence(machine_.name);
  store_.link().requests_lost = true;
  folder_.Die();
  if (provider_ != nullptr) provider_->link().requests_lost = true;
}

}  // namespace nstance::sim
