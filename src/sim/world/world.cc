#include "sim/world/world.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "core/object_layout.h"
#include "storage/cluster_keys.h"
#include "storage/object_secret_store.h"

namespace nstance::sim {
namespace {

constexpr Duration kSecond = Duration::Seconds(1);
constexpr std::int64_t kHoldsLookedAt = 5;  // Every so many seconds.

ProviderCapabilities Capabilities(const Setting& setting) {
  return {.kind = config::ProviderKind::kAws,
          .max_create_time = Duration::Seconds(30),
          .consistency_window = setting.consistency_window,
          .push_events = true,
          .leader_network = true,
          .power = true};
}

// As another program leaves it: of a record it notes something that servers do not know.
std::string TouchedByRival(const ObjectKey& key, const Object& object) {
  for (const ShardId& shard : {ShardA(), ShardB()}) {
    const Result<RecordKey> name = ParseInstanceRecordKey(shard, key);
    if (!name.has_value()) continue;
    Result<InstanceRecord> record = DecodeInstanceRecord(object.bytes, *name);
    if (!record.has_value()) continue;
    const bool noted = std::ranges::any_of(
        record->unknown, [](const json::Member& member) { return member.key == "note"; });
    if (!noted) {
      record->unknown.push_back(
          {.key = "note", .key_position = {}, .value = json::Value::String("seen")});
    }
    return EncodeInstanceRecord(*record);
  }
  return object.bytes;
}

// "a1#3" -> "a1".
std::string MachineOf(const std::string& process) { return process.substr(0, process.find('#')); }

// It asks for a VM by an id that another one may have by now, or deletes it.
bool IsOfOneVm(Step step) {
  return step == Step::kH6 || step == Step::kH7 || step == Step::kX3 || step == Step::kX4;
}

}  // namespace

// Lines of the product's own log become lines of the timeline.
class World::Log final : public log::Sink {
 public:
  explicit Log(World& world) : world_(world) {}
  [[nodiscard]] bool Wants(log::Level level) const override {
    return (world_.options_.trace && level >= log::Level::kInfo) || world_.Listens();
  }
  void Write(const log::Record& record) override {
    if (world_.Listens()) {
      for (const auto& checker : world_.checkers_) checker->OnLog(record);
    }
    if (!world_.options_.trace || record.level < log::Level::kInfo) return;
    world_.timeline_.push_back(
        fmt::format("{:>12.3f}  {}",
                    static_cast<double>(world_.scheduler_.now().since_zero().nanoseconds()) / 1e9,
                    log::FormatText(record, world_.wall())));
  }

 private:
  World& world_;
};

World::World(WorldOptions options)
    : options_(std::move(options)),
      log_(std::make_unique<Log>(*this)),
      scheduler_(options_.seed),
      prng_(scheduler_.prng().Fork()),
      loop_(scheduler_, WorldStart()),
      bucket_(scheduler_, {.wall_start = WorldStart()}),
      cloud_(scheduler_, {.capabilities = Capabilities(options_.setting),
                          .lives = {.boot_max = Duration::Seconds(10)},
                          .wall_start = WorldStart()}),
      network_(scheduler_, {.route =
                                [this](const std::string& host) {
                                  const std::string holder = cloud_.LeaderHolder(host);
                                  return holder.empty() ? host : MachineOf(holder);
                                }}),
      parts_{.scheduler = scheduler_,
             .bucket = bucket_,
             .network = network_,
             .cloud = cloud_,
             .setting = options_.setting,
             .log = *log_,
             .prng = prng_},
      step_faults_(options_.at_steps,
                   options_.setting.consistency_window > Duration() ? StepFaults::Looks::kLag
                                                                    : StepFaults::Looks::kDoNot,
                   ActsAtSteps()),
      edits_a_(FirstEdits(options_.setting, ShardA())),
      edits_b_(FirstEdits(options_.setting, ShardB())),
      next_second_(Instant() + kSecond) {
#ifdef NSTANCE_SIM
  SetFaultPoints(this);
#endif
  for (std::unique_ptr<Checker>& checker : MakeCheckers(*this)) {
    if (!options_.blind_to.contains(checker->invariant())) checkers_.push_back(std::move(checker));
  }
  if (options_.another_checker) checkers_.push_back(options_.another_checker(*this));
  bucket_.set_observer([this](const SimChange& change) { OnChange(change); });
  bucket_.set_call_observer([this](const SimCall& call) {
    for (const auto& checker : checkers_) checker->OnCall(call);
  });
  network_.set_on_refused([this](const SimNetwork::Presented& presented, const Error& why) {
    if (presented.chain.empty()) return;
    for (const auto& checker : checkers_) checker->OnRefusedPeer(presented.chain.front(), why);
  });
  cloud_.set_observer([this](const SimVmChange& change) { OnVm(change); });
  cloud_.set_call_observer([this](const SimProviderCall& call) {
    for (const auto& checker : checkers_) checker->OnProviderCall(call);
  });
  cloud_.set_on_started([this](const SimVm& vm) { OnStarted(vm); });
  cloud_.set_on_gone([this](const SimVm& vm) { OnGone(vm); });
  WriteConfig(ShardA());
  WriteConfig(ShardB());
  MakeIdentity();
  for (int i = 1; i <= options_.setting.servers_a; ++i) AddMachine(fmt::format("a{}", i), ShardA());
  for (int i = 1; i <= options_.setting.servers_b; ++i) AddMachine(fmt::format("b{}", i), ShardB());
  for (const TenantId& tenant : {DefaultTenant(), Prod()}) {
    operators_.push_back(std::make_unique<OperatorNode>(
        parts_, tenant, identity_,
        OperatorNode::Told{
            .answered =
                [this](const OperatorAnswer& answer) {
                  for (const auto& checker : checkers_) checker->OnAnswer(answer);
                },
            .event =
                [this](const TenantId& of, const ShardId& shard, const api::InstanceEvent& event) {
                  for (const auto& checker : checkers_) checker->OnInstanceEvent(of, shard, event);
                },
            .certificate = [this](const std::string& process,
                                  std::string_view pem) { OnCertificate(process, pem); }}));
  }
}

World::~World() {
  // Whoever is destroyed tells others over the network, on loops that are still there.
  cloud_.set_on_gone({});
  network_.set_on_refused({});
  operators_.clear();
  clones_.clear();
  agents_.clear();
  nodes_.clear();
#ifdef NSTANCE_SIM
  SetFaultPoints(nullptr);
#endif
}

// As `cluster init` leaves a bucket: keys and certificate, made by the code that servers use.
void World::MakeIdentity() {
  SeededRandom random(prng_.Next());
  Prng jitter(prng_.Next());
  metrics::Registry metrics;
  SimObjectStore store(bucket_, loop_, {.process = "genesis"});
  ObjectSecretStore secrets(
      {.loop = loop_, .store = store, .random = random, .jitter = jitter, .metrics = metrics},
      {.cluster = SimCluster(), .keys = {.current = WorldEncryptionKey(), .old = {}}});
  ClusterKeys keys({.loop = loop_,
                    .store = store,
                    .secrets = secrets,
                    .random = random,
                    .jitter = jitter,
                    .log = log::Logger(*log_, "genesis")},
                   {.machine = {.subject = {.common_name = "c1", .organization = {}}}},
                   {.ready = [this](ClusterIdentityRef made) { identity_ = std::move(made); },
                    .failed = [](const Error& why) { CHECK(false, "{}", why.ToString()); },
                    .may_create = [] { return true; }});
  keys.Start();
  CHECK(scheduler_.RunUntilTrue([this] { return identity_ != nullptr; }, Duration::Minutes(1)));
}

// --- Time ----------------------------------------------------------------------------------------

void World::RunFor(Duration length) {
  const Instant end = scheduler_.now() + length;
  bool over = false;
  const Pending timer = loop_.CallAt(end, [&over] { over = true; });
  while (!over && !violation_) {
    scheduler_.Step();
    AfterTask();
  }
}

void World::AfterTask() {
  step_faults_.EndOfTask();
  LookForRest();
  Reap();
  buried_.clear();
  for (const auto& [name, node] : nodes_) {
    if (!node->loop().ran_last()) continue;
    const ServerStanding& standing = node->standing();
    for (const auto& checker : checkers_) checker->AfterTask(standing);
  }
  if (scheduler_.now() < next_second_) return;
  next_second_ = scheduler_.now() + kSecond;
  EverySecond();
}

// Whoever does the same thing over and over lets no time pass.
void World::LookForRest() {
  constexpr std::uint64_t kMost = 100'000;  // Tasks at one moment; thousands are a busy one.
  if (scheduler_.now() != last_moment_) {
    last_moment_ = scheduler_.now();
    steps_before_moment_ = scheduler_.steps();
  } else if (scheduler_.steps() - steps_before_moment_ > kMost) {
    Violated("I-44", "time stands still: the same is done over and over");
  }
}

void World::EverySecond() {
  for (const auto& [name, node] : nodes_) node->LookWhetherSound();
  for (const auto& checker : checkers_) checker->EverySecond();
  if (scheduler_.now().since_zero().seconds() % kHoldsLookedAt == 0) CollectHolds();
}

void World::Reap() {
  std::vector<std::string> dead;
  for (const auto& [name, node] : nodes_) {
    if (node->muted() || node->exit_code().has_value()) dead.push_back(name);
  }
  for (const std::string& name : dead) {
    Note(name, "process ends");
    ServerNode& node = *nodes_.at(name);
    if (!node.muted()) {
      const ServerExit exit = node.End();
      for (const auto& checker : checkers_) checker->OnServerExit(node.standing(), exit);
    }
    KillServer(name);
    // As a supervisor does.
    Later(Duration::Seconds(2), [this, name] { StartServer(name); });
  }
}

void World::BeginCalm() { calm_since_ = scheduler_.now(); }

void World::Quiet() {
  for (const auto& checker : checkers_) {
    if (!violation_) checker->AtQuiet();
  }
  for (const auto& checker : checkers_) {
    if (!violation_) checker->AtEnd();
  }
  for (const auto& [name, node] : nodes_) CollectMetrics(*node);
}

void World::Later(Duration after, Task task) {
  const std::uint64_t number = next_later_++;
  later_[number] = loop_.CallAfter(after, [this, number, task = std::move(task)]() mutable {
    const auto self = later_.extract(number);
    task();
  });
}

void World::LaterOnAgent(const std::string& name, Duration after, void (AgentMachine::*act)()) {
  Later(after, [this, name, act] {
    for (AgentMachine* agent : Agents()) {
      if (agent->name() == name) (agent->*act)();
    }
  });
}

// --- Servers -------------------------------------------------------------------------------------

void World::AddMachine(const std::string& name, const ShardId& shard) {
  auto machine = std::make_unique<ServerMachine>(ServerMachine{.name = name, .shard = shard});
  if (options_.setting.database_seed > 0) {
    Prng disk(options_.setting.database_seed + machines_.size());
    machine->database = DrawDatabaseFaults(disk);
  }
  machines_.emplace(name, std::move(machine));
  StartServer(name);
}

std::vector<std::string> World::MachineNames() const {
  std::vector<std::string> names;
  names.reserve(machines_.size());
  for (const auto& [name, machine] : machines_) names.push_back(name);
  return names;
}

ServerNode* World::Server(const std::string& name) {
  const auto at = nodes_.find(name);
  return at == nodes_.end() ? nullptr : at->second.get();
}

void World::StartServer(const std::string& name) {
  if (nodes_.contains(name) || Machine(name).loss == Loss::kDead) return;
  nodes_.emplace(
      name, std::make_unique<ServerNode>(
                parts_, *machines_.at(name),
                ServerNode::Asked{
                    .of_store =
                        [this](ServerNode& node, SimMethod method, const std::string& key,
                               SimFate drawn) {
                          SimVerdict verdict = step_faults_.OfStore(node, method, key, drawn);
                          const bool lost = node.machine().leases_lost &&
                                            method == SimMethod::kPut && key.starts_with("leader/");
                          if (lost) verdict.fate = SimFate::kRequestLost;
                          if (verdict.fate != SimFate::kNormal) node.Troubled();
                          return verdict;
                        },
                    .of_provider =
                        [this](ServerNode& node, SimProviderMethod method, SimFate drawn) {
                          SimVerdict verdict = step_faults_.OfProvider(node, method, drawn);
                          if (verdict.fate != SimFate::kNormal) node.TroubledAtProvider();
                          return verdict;
                        }}));
  ServerNode& node = *nodes_.at(name);
  if (node.machine().loss == Loss::kFrozen) node.loop().Pause();
  Note(node.standing().name, "process starts");
}

void World::KillServer(const std::string& name) {
  const auto at = nodes_.find(name);
  if (at == nodes_.end()) return;
  CollectMetrics(*at->second);
  const ServerStanding standing = at->second->standing();
  network_.Unsilence(name);  // Its kernel closes the connections.
  nodes_.erase(at);
  for (const auto& checker : checkers_) checker->OnServerEnd(standing);
}

void World::JumpWall(const std::string& name, Duration length) {
  ServerMachine& machine = Machine(name);
  machine.wall_skew = machine.wall_skew + length;
  if (ServerNode* node = Server(name)) node->loop().JumpWall(length);
  JudgeClocks();
}

void World::SetRate(const std::string& name, std::int64_t thousandths) {
  ServerMachine& machine = Machine(name);
  machine.rate = thousandths;
  if (ServerNode* node = Server(name)) {
    node->loop().SetRate(thousandths);
    // What the wall clock has gained or lost meanwhile is set right with it.
    if (thousandths == SimLoop::kTrueRate) {
      node->loop().JumpWall(wall() + machine.wall_skew - node->loop().WallNow());
    }
  }
  JudgeClocks();
}

void World::Restore(const std::string& name, const Restored& restored) {
  ServerNode* node = Server(name);
  if (node == nullptr) return;
  ServerMachine& machine = Machine(name);
  SimLoop& loop = node->loop();
  if (restored.other_boot) node->SetBoot(fmt::format("boot-{}", ++boots_));
  // Two saved states of one machine may be restored one after the other: it does not go forward.
  loop.SetClock(std::min(restored.clock, loop.Now()));
  const Duration wrong = loop.WallNow() - (wall() + machine.wall_skew);
  if (restored.wall_is_set) {
    loop.JumpWall(Duration() - wrong);
  } else {
    machine.wall_skew = machine.wall_skew + wrong;
  }
  node->Resume();
  JudgeClocks();
}

void World::CorrectWall(const std::string& name) {
  JumpWall(name, Duration() - Machine(name).wall_skew);
}

void World::JudgeClocks() {
  const auto since = [this](Instant before, bool all_true) {
    if (!all_true) return Instant::Never();
    return before == Instant::Never() ? scheduler_.now() : before;
  };
  std::int64_t slowest = SimLoop::kTrueRate;
  std::int64_t fastest = SimLoop::kTrueRate;
  for (const auto& [name, machine] : machines_) {
    slowest = std::min(slowest, machine->rate);
    fastest = std::max(fastest, machine->rate);
  }
  // faults.md 4.7 F11: up to lease / (lease - margin), of which the margin is a quarter.
  const bool borne = fastest * 3 <= slowest * 4;
  const bool rates = slowest == fastest;
  const bool walls = std::ranges::all_of(
      machines_, [](const auto& entry) { return entry.second->wall_skew == Duration(); });
  rates_true_since_ = since(rates_true_since_, borne);
  walls_true_since_ = since(walls_true_since_, rates && walls);
}

bool World::InCore(const ShardId& shard) const {
  return std::ranges::any_of(machines_, [&](const auto& entry) {
    return entry.second->shard == shard && entry.second->loss == Loss::kNone;
  });
}

bool World::Healed() const {
  return std::ranges::all_of(machines_,
                             [](const auto& entry) { return entry.second->loss == Loss::kNone; });
}

std::vector<ServerStanding> World::Servers() const {
  std::vector<ServerStanding> standings;
  standings.reserve(nodes_.size());
  for (const auto& [name, node] : nodes_) standings.push_back(node->standing());
  return standings;
}

bool World::Holds(std::string_view reason) const {
  return std::ranges::any_of(nodes_, [&](const auto& entry) {
    const ShardLeader* leader = entry.second->process().leader();
    if (leader == nullptr || entry.second->loop().paused()) return false;
    metrics::Registry gauges;
    leader->Measure(gauges);
    const metrics::Snapshot figures = gauges.Take();
    const auto holds = figures.find("holds");
    return holds != figures.end() &&
           std::ranges::any_of(holds->second.series, [&](const metrics::Series& series) {
             return series.value > 0 && std::ranges::count(series.labels, reason) > 0;
           });
  });
}

// Holds come and go: whoever is asked at the end has none.
void World::CollectHolds() {
  for (const auto& [name, node] : nodes_) {
    const ShardLeader* leader = node->process().leader();
    if (leader == nullptr || !leader->acting()) continue;
    metrics::Registry gauges;
    leader->Measure(gauges);
    const metrics::Snapshot figures = gauges.Take();
    const auto holds = figures.find("holds");
    if (holds == figures.end()) continue;
    for (const metrics::Series& series : holds->second.series) {
      if (series.value > 0) reached_.insert(fmt::format("holds{{{}}}", series.labels.back()));
    }
  }
}

void World::CollectMetrics(ServerNode& node) {
  for (const auto& [name, family] : node.metrics().Take()) {
    if (family.kind != metrics::Kind::kCounter) continue;
    for (const metrics::Series& series : family.series) {
      if (series.value == 0) continue;
      const auto [mark, first] =
          reached_.insert(fmt::format("{}{{{}}}", name, fmt::join(series.labels, ",")));
      if (!first) continue;
      for (const auto& checker : checkers_) checker->OnMetric(*mark);
    }
  }
}

// --- Machines and agents -------------------------------------------------------------------------

void World::OnStarted(const SimVm& vm) {
  if (!vm.request) return;
  auto& machine = agents_[vm.provider_id];
  if (machine == nullptr) {
    machine = std::make_unique<AgentMachine>(
        parts_, vm, [this](const AgentMachine& agent, std::string_view pem) {
          OnCertificate(agent.name(), pem);
        });
  }
  // Of two machines with one token one cannot register.
  for (AgentMachine* other : Agents()) {
    if (other == machine.get() || other->id() != machine->id()) continue;
    machine->harmed = other->harmed = true;
  }
  // What runs first on a machine does not run in the turn of whoever asked for it.
  Later(Duration::Milliseconds(1), [this, id = vm.provider_id] {
    if (AgentMachine* started = AgentOn(id)) started->Start();
  });
}

void World::OnGone(const SimVm& vm) {
  for (auto* machines : {&agents_, &clones_}) {
    const auto at = machines->find(vm.provider_id);
    if (at == machines->end()) continue;
    buried_.push_back(std::move(at->second));
    machines->erase(at);
  }
}

void World::CloneAgent(AgentMachine& agent, CloneAt at) {
  const auto number = cloned_.size();
  std::string key = fmt::format("elsewhere-{}", number);
  agent.harmed = true;
  cloned_.insert(agent.id());
  if (at == CloneAt::kCloud) {
    const SimVm* vm = cloud_.Find(agent.provider_id());
    if (vm == nullptr) return;
    ProviderInstance copy = vm->shown;
    copy.launched_at = wall();
    copy.status = ProviderStatus::kRunning;
    key = cloud_.AddByHand(std::move(copy));
  }
  clones_[key] = std::make_unique<AgentMachine>(agent, fmt::format("clone-{}", key));
  Later(Duration::Milliseconds(1), [this, key] {
    const auto clone = clones_.find(key);
    if (clone != clones_.end()) clone->second->Start();
  });
}

std::vector<AgentMachine*> World::Agents() {
  std::vector<AgentMachine*> all;
  all.reserve(agents_.size());
  for (const auto& [id, machine] : agents_) all.push_back(machine.get());
  return all;
}

AgentMachine* World::AgentOn(const std::string& provider_id) {
  const auto at = agents_.find(provider_id);
  return at == agents_.end() ? nullptr : at->second.get();
}

const AgentMachine* World::AgentOf(const InstanceId& id) const {
  for (const auto& [provider_id, machine] : agents_) {
    if (machine->id() == id) return machine.get();
  }
  return nullptr;
}

std::vector<AgentStanding> World::AgentStandings() const {
  std::vector<AgentStanding> all;
  all.reserve(agents_.size());
  for (const auto& [provider_id, machine] : agents_) {
    all.push_back({.id = machine->id(),
                   .shard = machine->shard(),
                   .vm = cloud_.Find(provider_id),
                   .up = machine->up(),
                   .serving = machine->serving(),
                   .harmed = machine->harmed,
                   .has_joined = machine->has_joined()});
  }
  return all;
}

std::optional<std::vector<std::string>> World::KeysOnDisk(const InstanceId& id) const {
  std::optional<std::vector<std::string>> keys;
  for (const auto* machines : {&agents_, &clones_}) {
    for (const auto& [provider_id, machine] : *machines) {
      if (machine->id() != id) continue;
      if (!keys) keys.emplace();
      std::ranges::move(machine->KeysOnDisk(), std::back_inserter(*keys));
      std::ranges::copy(machine->keys_before_reset(), std::back_inserter(*keys));
    }
  }
  return keys;
}

std::optional<std::vector<std::string>> World::SerialsBeside(
    const InstanceId& id, const std::string& public_key_pem) const {
  std::optional<std::vector<std::string>> serials;
  for (const auto* machines : {&agents_, &clones_}) {
    for (const auto& [provider_id, machine] : *machines) {
      if (machine->id() != id) continue;
      const std::vector<std::string> keys = machine->KeysOnDisk();
      if (std::ranges::find(keys, public_key_pem) == keys.end()) continue;
      if (!serials) serials.emplace();
      if (auto serial = machine->SerialOnDisk()) serials->push_back(*std::move(serial));
    }
  }
  return serials;
}

Instant World::SoundSince(const std::string& process) const {
  const auto at = nodes_.find(MachineOf(process));
  return at == nodes_.end() ? Instant::Never() : at->second->sound_since();
}

Instant World::ProviderSoundSince(const std::string& process) const {
  const auto at = nodes_.find(MachineOf(process));
  return at == nodes_.end() ? Instant::Never() : at->second->provider_sound_since();
}

const SimCacheDisk* World::CacheOf(const std::string& process) const {
  const auto at = machines_.find(MachineOf(process));
  if (at == machines_.end() || at->second->rows_lost || at->second->database) return nullptr;
  return &at->second->rows;
}

bool World::AgentUnharmed(const InstanceId& id) const {
  const AgentMachine* agent = AgentOf(id);
  return agent != nullptr && agent->up() && !agent->harmed;
}

bool World::AgentServing(const InstanceId& id) const {
  const AgentMachine* agent = AgentOf(id);
  return agent != nullptr && agent->serving();
}

bool World::AgentServed(const InstanceId& id) const {
  return std::ranges::any_of(nodes_, [&](const auto& entry) {
    const ServerStanding& standing = entry.second->standing();
    return standing.acting && !standing.paused &&
           entry.second->rpc().HasStreamOf({.role = crypto::Role::kAgent, .id = id.text()});
  });
}

OperatorNode& World::Operator(const TenantId& tenant) {
  const auto at =
      std::ranges::find_if(operators_, [&](const auto& one) { return one->tenant() == tenant; });
  CHECK(at != operators_.end());
  return **at;
}

void World::OnCertificate(const std::string& process, std::string_view pem) {
  Result<crypto::Certificate> certificate = crypto::Certificate::FromPem(pem);
  if (!certificate.has_value()) return Violated("I-31", process + " was given no certificate");
  const IssuedCertificate issued{.process = process, .certificate = *std::move(certificate)};
  for (const auto& checker : checkers_) checker->OnCertificate(issued);
}

// --- The store and the cloud ---------------------------------------------------------------------

void World::WriteConfig(const ShardId& shard) {
  bucket_.SetByHand(ObjectKey::Parse("config/" + shard.text() + ".jsonc").value(),
                    ConfigText(options_.setting, shard, Edits(shard)));
}

std::map<std::pair<TenantId, GroupKey>, int> World::DesiredSizes(const ShardId& shard) const {
  std::map<std::pair<TenantId, GroupKey>, int> sizes;
  const ConfigEdits& edits = shard == ShardA() ? edits_a_ : edits_b_;
  for (const auto& [name, size] : edits.sizes) {
    sizes[{TenantId::Parse(name.first).value(), GroupKey::Parse(name.second).value()}] = size;
  }
  for (const auto& [tenant, groups] : truth_.Of(shard).dynamic) {
    for (const auto& [key, group] : groups) {
      if (group.layer.size) sizes[{tenant, key}] = static_cast<int>(*group.layer.size);
    }
  }
  return sizes;
}

void World::MixEffect(std::string_view what) {
  effects_hash_ = (effects_hash_ + std::hash<std::string_view>()(what)) * 0x9E3779B97F4A7C15U;
}

void World::OnChange(const SimChange& change) {
  MixEffect(change.key.text());
  if (change.after != nullptr) {
    MixEffect(change.after->version.text);
    MixEffect(change.after->bytes);
  }
  truth_.OnChange(change);
  if (options_.trace) NoteChange(change);
  for (const auto& checker : checkers_) checker->OnChange(change);
}

void World::OnVm(const SimVmChange& change) {
  MixEffect(change.vm->provider_id);
  if (change.after) MixEffect(ProviderStatusName(*change.after));
  if (options_.trace) {
    Note(change.process.empty() ? "cloud" : change.process,
         fmt::format("VM {} ({}) {} -> {}", change.vm->provider_id, change.vm->shown.shown_id,
                     change.before ? ProviderStatusName(*change.before) : "none",
                     change.after ? ProviderStatusName(*change.after) : "forgotten"));
  }
  for (const auto& checker : checkers_) checker->OnVm(change);
}

// --- Reports -------------------------------------------------------------------------------------

void World::Violated(std::string_view invariant, std::string what) {
  if (violation_) return;
  violation_ = Violation{.invariant = std::string(invariant),
                         .what = std::move(what),
                         .at = scheduler_.now().since_zero()};
  Note("checker", fmt::format("{} is violated: {}", invariant, violation_->what));
}

void World::Note(std::string_view who, std::string what) {
  if (!options_.trace) return;
  timeline_.push_back(fmt::format(
      "{:>12.3f}  {:<14} {}",
      static_cast<double>(scheduler_.now().since_zero().nanoseconds()) / 1e9, who, what));
}

void World::NoteChange(const SimChange& change) {
  const std::string& key = change.key.text();
  if (key.starts_with("probe/")) return;
  std::string what = change.after == nullptr ? "deleted" : "written";
  for (const ShardId& shard : {ShardA(), ShardB()}) {
    const ShardTruth& truth = truth_.Of(shard);
    if (key == "journal/" + shard.text() + ".json" && truth.journal) {
      what = fmt::format("epoch {} seq {}, {} intents", truth.journal->epoch, truth.journal->seq,
                         truth.journal->intents.size());
    } else if (key == "leader/" + shard.text() + ".json" && truth.lease) {
      what = fmt::format("term {} of {}{}", truth.lease->term, truth.lease->leader_id,
                         truth.lease->released ? ", released" : "");
    }
  }
  if (key.starts_with("leader/") && change.before != nullptr && change.after != nullptr) {
    const DecodedLease before = DecodeLease(change.before->bytes);
    const DecodedLease after = DecodeLease(change.after->bytes);
    if (before.record.term == after.record.term && !after.record.released) return;
  }
  if (key.starts_with("instance/") && change.after != nullptr) {
    const InstanceRecord* record = nullptr;
    for (const ShardId& shard : {ShardA(), ShardB()}) {
      for (const auto& [id, found] : truth_.Of(shard).records) {
        if (key.contains(id.text())) record = &found;
      }
    }
    if (record != nullptr) {
      what = fmt::format("{}{}{}", PhaseName(record->phase),
                         record->drain ? " drain " + record->drain->reason : "",
                         record->deletion ? " deletion " + record->deletion->reason : "");
    }
  }
  Note(change.process.empty() ? "by hand" : change.process, fmt::format("{}: {}", key, what));
}

// What lasts for a while meets every step that is passed meanwhile.
void World::CountConditions(ServerNode& node, Step step) {
  const SimLink& store = node.store().link();
  const bool cut_off = store.requests_lost || store.answers_lost ||
                       (node.provider() != nullptr && (node.provider()->link().requests_lost ||
                                                       node.provider()->link().answers_lost));
  if (cut_off) step_faults_.Hit(step, Fault::kF13);
  if (node.machine().wall_skew != Duration()) step_faults_.Hit(step, Fault::kF11);
  // Of what the cloud does, where it is dangerous.
  const SimCloudLies& lies = cloud_.lies();
  const bool twins = (step == Step::kC4 && (lies.forgets_token > 0 || lies.makes_two > 0)) ||
                     (step == Step::kL5 && lies.listed_twice > 0) ||
                     (IsOfOneVm(step) && lies.reuses_ids);
  if (twins) step_faults_.Hit(step, Fault::kF10);
}

#ifdef NSTANCE_SIM
void World::OnStep(Step step) {
  for (const auto& [name, node] : nodes_) {
    if (!node->loop().running()) continue;
    if (node->muted()) return;
    const ServerStanding& standing = node->standing();
    for (const auto& checker : checkers_) checker->OnStep(standing, step);
    step_faults_.OnStep(*node, step);
    const bool logs = step == Step::kR7 || step == Step::kW4;
    if (logs && pause_at_log_ && !calm()) PauseAtStep(*node, *std::exchange(pause_at_log_, {}));
    CountConditions(*node, step);
    return;
  }
  // W8 is passed by the server too, and counted there.
  if (step != Step::kW7) return;
  for (AgentMachine* agent : Agents()) {
    if (agent->running()) return step_faults_.OnAgentStep(*agent, step);
  }
}
#endif

// --- What happens at a step ----------------------------------------------------------------------

StepFaults::Acts World::ActsAtSteps() {
  return {.die_now = [this](ServerNode& node) { node.Mute(network_); },
          .die_after_task = [this](ServerNode& node) { node.Mute(network_); },
          .jump_wall = [this](ServerNode& node,
                              Duration length) { JumpWall(node.machine().name, length); },
          .pause = [this](ServerNode& node, Duration length) { PauseAtStep(node, length); },
          .cut = [this](ServerNode& node, const Event& event) { CutAtStep(node, event); },
          .lag = [this](ServerNode& node, Duration length) { LagAtStep(node, length); },
          .list_twice =
              [this](Duration length) {
                cloud_.lies().listed_twice = 5'000;
                Later(length, [this] { cloud_.lies().listed_twice = 0; });
              },
          .reuse_ids =
              [this](Duration length) {
                cloud_.lies().reuses_ids = true;
                Later(length, [this] { cloud_.lies().reuses_ids = false; });
              },
          .rival_touches =
              [this](const std::string& key) {
                const ObjectKey name = ObjectKey::Parse(key).value();
                const Object* object = bucket_.Find(name);
                if (object != nullptr) bucket_.SetByHand(name, TouchedByRival(name, *object));
              },
          .strike_agent = [this](AgentMachine& agent,
                                 const Event& event) { StrikeAgent(agent, event); },
          .note = [this](std::string_view who, std::string what) { Note(who, std::move(what)); }};
}

void World::PauseAtStep(ServerNode& node, Duration length) {
  node.loop().Pause();
  const std::string name = node.standing().name;
  Later(length, [this, name] {
    ServerNode* paused = Server(MachineOf(name));
    if (paused != nullptr && paused->standing().name == name) paused->Resume();
  });
}

// Both ways, or only what the server says is lost.
bool World::CutClients(const std::string& server, const Event& event) {
  const Step step = event.step;
  const bool of_agents =
      (step >= Step::kR1 && step <= Step::kH7) || (step >= Step::kW1 && step <= Step::kW8);
  const bool of_operators =
      (step >= Step::kG1 && step <= Step::kG8) || step == Step::kD4 || step == Step::kD6;
  std::vector<std::string> clients;
  for (AgentMachine* agent : Agents()) {
    if (!of_agents) break;
    agent->harmed = true;
    clients.push_back(agent->name());
  }
  for (const auto& one : operators_) {
    if (of_operators) clients.push_back(one->name());
  }
  const bool one_way = Prng(event.draw).Chance(1, 2);
  for (const std::string& client : clients) {
    network_.Cut(server, client);
    if (!one_way) network_.Cut(client, server);
    Later(event.length, [this, server, client] {
      network_.Heal(server, client);
      network_.Heal(client, server);
    });
  }
  return !clients.empty();
}

void World::CutAtStep(ServerNode& node, const Event& event) {
  Prng prng(Prng(event.draw).Next());
  if (event.insists && prng.Chance(1, 2) && CutClients(node.machine().name, event)) return;
  const bool requests = !prng.Chance(1, 3);
  const SimLink part = {.requests_lost = requests, .answers_lost = !requests || !prng.Chance(1, 3)};
  const auto way = prng.Chance(1, 2) ? ServerNode::Way::kStore : ServerNode::Way::kProvider;
  node.CutWay(way, part);
  Later(event.length, [this, name = node.standing().name, way, part] {
    ServerNode* at = Server(MachineOf(name));
    if (at != nullptr && at->standing().name == name) at->HealWay(way, part);
  });
}

// What it has just asked for is not shown to it for a while.
void World::LagAtStep(ServerNode& node, Duration length) {
  constexpr std::uint32_t kAlways = 10'000;
  node.provider()->faults().stale_look = kAlways;
  Later(length, [this, name = node.standing().name] {
    ServerNode* at = Server(MachineOf(name));
    if (at == nullptr || at->standing().name != name || at->provider() == nullptr) return;
    at->provider()->faults().stale_look = 0;
  });
}

void World::StrikeAgent(AgentMachine& agent, const Event& event) {
  Prng prng(event.draw);
  const std::string& name = agent.name();
  agent.harmed = true;
  switch (event.fault) {
    case Fault::kF1:
      // The step is about its disk.
      return agent.DieAtChange(AgentMachine::Disk::kIdentity,
                               {.told = [this, name, length = event.length] {
                                 LaterOnAgent(name, Duration(), &AgentMachine::Kill);
                                 LaterOnAgent(name, length, &AgentMachine::Start);
                               }});
    case Fault::kF11: return agent.JumpWall(DrawJumpAtStep(prng));
    case Fault::kF12: agent.Pause(); return LaterOnAgent(name, event.length, &AgentMachine::Resume);
    default:
      for (const std::string& server : MachineNames()) {
        network_.Cut(name, server);
        network_.Cut(server, name);
        Later(event.length, [this, name, server] {
          network_.Heal(name, server);
          network_.Heal(server, name);
        });
      }
  }
}

}  // namespace nstance::sim
