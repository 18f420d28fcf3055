#include "sim/world/director.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/deny_list.h"

namespace nstance::sim {
namespace {

// Two of them are at the edge of what the lease bears.
constexpr std::array<std::int64_t, 7> kRates = {700, 760, 900, 1'100, 1'300, 1'400, 2'000};
constexpr std::array<std::int64_t, 6> kJumps = {2, 45, 90, 3'600, 86'400, 315'360'000};

template <class T>
const T& Pick(const std::vector<T>& from, Prng& prng) {
  return from.at(prng.Below(from.size()));
}

Duration DrawJump(Prng& prng) {
  const Duration length = Duration::Seconds(kJumps.at(prng.Below(kJumps.size())));
  return prng.Chance(1, 2) ? length : Duration() - length;
}

// In ten thousand; off in half of the cases.
std::uint32_t Rate(Prng& prng, std::uint64_t most) {
  return prng.Chance(1, 2) ? static_cast<std::uint32_t>(prng.Below(most)) : 0;
}

Duration DrawLate(Prng& prng) {
  constexpr std::array kLate = {Duration::Seconds(10), Duration::Seconds(60),
                                Duration::Minutes(10)};
  return kLate.at(prng.Below(kLate.size()));
}

}  // namespace

void Director::Start() {
  for (const Event& event : events_) {
    if (event.kind == EventKind::kAtStep) continue;
    world_.Later(event.at, [this, &event] {
      if (!over_) Happen(event);
    });
  }
}

void Director::Happen(const Event& event) {
  Prng prng(event.draw);
  world_.Note("event", Describe(event));
  if (event.kind <= EventKind::kLoseCache) return HappenToServer(event, prng);
  if (event.kind <= EventKind::kCloudLies) return HappenToWays(event, prng);
  if (event.kind < kFirstWork) return HappenToMachines(event, prng);
  Work(event, prng);
}

std::string Director::PickMachine(const Event& event, Prng& prng) const {
  const std::vector<std::string> names = world_.MachineNames();
  return event.machine ? names.at(*event.machine % names.size()) : Pick(names, prng);
}

AgentMachine* Director::PickAgent(Prng& prng) {
  const std::vector<AgentMachine*> agents = world_.Agents();
  return agents.empty() ? nullptr : Pick(agents, prng);
}

void Director::OnServer(const std::string& name, const std::function<void(ServerNode&)>& act) {
  if (ServerNode* node = world_.Server(name)) act(*node);
}

// --- Servers -------------------------------------------------------------------------------------

void Director::HappenToServer(const Event& event, Prng& prng) {
  const std::string name = PickMachine(event, prng);
  world_.Note("event", "... " + name);
  switch (event.kind) {
    case EventKind::kKillServer:
      world_.KillServer(name);
      return world_.Later(event.length, [this, name] { world_.StartServer(name); });
    case EventKind::kStopServer: return OnServer(name, [](ServerNode& node) { node.Stop(); });
    case EventKind::kRestartStorm:
      for (const std::string& each : world_.MachineNames()) {
        world_.Later(prng.UpTo(world_.setting().lease), [this, each] {
          world_.KillServer(each);
          world_.Later(Duration::Milliseconds(500), [this, each] { world_.StartServer(each); });
        });
      }
      return;
    case EventKind::kPauseServer:
      OnServer(name, [](ServerNode& node) { node.loop().Pause(); });
      return world_.Later(
          event.length, [this, name] { OnServer(name, [](ServerNode& node) { node.Resume(); }); });
    case EventKind::kJumpWall: return world_.JumpWall(name, DrawJump(prng));
    case EventKind::kClockRate:
      world_.SetRate(name, kRates.at(prng.Below(kRates.size())));
      return world_.Later(event.length, [this, name] { world_.SetRate(name, SimLoop::kTrueRate); });
    case EventKind::kLoseServer: return LoseServer(world_.Machine(name), prng);
    default: return LoseCache(world_.Machine(name), prng);
  }
}

void Director::LoseCache(ServerMachine& machine, Prng& prng) {
  machine.rows_lost = true;
  switch (prng.Below(4)) {
    case 0:
      machine.rows = {};
      machine.files = {};
      return;
    case 1: machine.rows.broken = true; return;
    case 2: machine.files.broken = true; return;
    default:
      // A disk of which parts were lost.
      machine.rows.instances.clear();
      machine.rows.database.Damage(prng);
      return;
  }
}

// None of them keeps another server from leading.
void Director::LoseServer(ServerMachine& machine, Prng& prng) {
  constexpr std::array kCuts = {SimLink{.requests_lost = true}, SimLink{.answers_lost = true},
                                SimLink{.requests_lost = true, .answers_lost = true}};
  switch (prng.Below(3)) {
    case 0: machine.loss = Loss::kDead; return world_.KillServer(machine.name);
    case 1:
      machine.loss = Loss::kFrozen;
      return OnServer(machine.name, [](ServerNode& node) { node.loop().Pause(); });
    default:
      machine.loss = Loss::kCut;
      machine.store_cut = kCuts.at(prng.Below(kCuts.size()));
      return OnServer(machine.name, [&](ServerNode& node) {
        node.CutWay(ServerNode::Way::kStore, machine.store_cut);
      });
  }
}

// --- Ways ----------------------------------------------------------------------------------------

void Director::HappenToWays(const Event& event, Prng& prng) {
  switch (event.kind) {
    case EventKind::kStoreFaults: return StoreFaults(event, prng);
    case EventKind::kProviderFaults: return ProviderFaults(event, prng);
    case EventKind::kCutStore:
    case EventKind::kCutProvider: return CutLink(event, prng);
    case EventKind::kCutAgents: return CutAgents(event, prng);
    case EventKind::kCutOperator: return CutOperator(event, prng);
    case EventKind::kEmptyWorld: return EmptyWorld(event, prng);
    default: return CloudLies(event, prng);
  }
}

void Director::StoreFaults(const Event& event, Prng& prng) {
  const std::string name = PickMachine(event, prng);
  const SimStoreFaults faults = {.latency_max = Duration::Milliseconds(prng.Between(20, 400)),
                                 .error_not_done = Rate(prng, 1'500),
                                 .error_maybe_done = Rate(prng, 1'500),
                                 .request_lost = Rate(prng, 1'000),
                                 .answer_lost = Rate(prng, 2'000),
                                 .applied_late = Rate(prng, 1'000),
                                 .late_max = DrawLate(prng),
                                 .delivered_twice = Rate(prng, 1'000),
                                 .stale_read = Rate(prng, 1'000),
                                 .stale_listing = Rate(prng, 2'000),
                                 .short_page = Rate(prng, 3'000)};
  if (faults.applied_late > 0) late_ = std::max(late_, faults.late_max);
  OnServer(name, [&](ServerNode& node) { node.store().faults() = faults; });
  world_.Later(event.length, [this, name] {
    OnServer(name, [](ServerNode& node) { node.store().faults() = {}; });
  });
}

void Director::ProviderFaults(const Event& event, Prng& prng) {
  const std::string name = PickMachine(event, prng);
  const SimProviderFaults faults = {.latency_max = Duration::Milliseconds(prng.Between(100, 3'000)),
                                    .error_not_done = Rate(prng, 2'000),
                                    .error_maybe_done = Rate(prng, 2'000),
                                    .request_lost = Rate(prng, 1'000),
                                    .answer_lost = Rate(prng, 2'000),
                                    .applied_late = Rate(prng, 1'500),
                                    .late_max = DrawLate(prng),
                                    .delivered_twice = Rate(prng, 1'500),
                                    .refused_capacity = Rate(prng, 2'000),
                                    .refused_quota = Rate(prng, 1'000),
                                    .refused_auth = Rate(prng, 500),
                                    .refused_invalid = Rate(prng, 500),
                                    .stale_look = Rate(prng, 3'000),
                                    .page_failed = Rate(prng, 2'000),
                                    .short_page = Rate(prng, 3'000),
                                    .event_lost = Rate(prng, 5'000),
                                    .event_twice = Rate(prng, 3'000)};
  if (faults.applied_late > 0) late_ = std::max(late_, faults.late_max);
  const auto set = [this, name](const SimProviderFaults& to) {
    OnServer(name, [&to](ServerNode& node) {
      if (node.provider() != nullptr) node.provider()->faults() = to;
    });
  };
  set(faults);
  world_.Later(event.length, [set] { set({}); });
}

void Director::CutLink(const Event& event, Prng& prng) {
  const std::string name = PickMachine(event, prng);
  const auto way =
      event.kind == EventKind::kCutStore ? ServerNode::Way::kStore : ServerNode::Way::kProvider;
  const bool requests = !prng.Chance(1, 3);
  const SimLink part = {.requests_lost = requests, .answers_lost = !requests || !prng.Chance(1, 3)};
  // A machine that was named has a bad cable; else it is a bad hour of the process.
  ServerMachine& machine = world_.Machine(name);
  SimLink* const cable =
      way == ServerNode::Way::kStore ? &machine.store_cut : &machine.provider_cut;
  const bool named = event.machine.has_value() && machine.loss != Loss::kCut;
  if (named) *cable = part;
  OnServer(name, [&](ServerNode& node) { node.CutWay(way, part); });
  world_.Later(event.length, [this, name, way, part, named, cable, &machine] {
    if (named && machine.loss != Loss::kCut) *cable = {};
    OnServer(name, [&](ServerNode& node) { node.HealWay(way, part); });
  });
}

void Director::CutAgents(const Event& event, Prng& prng) {
  const std::string name = PickMachine(event, prng);
  const std::uint64_t share = prng.Between(1, 4);
  const bool one_way = prng.Chance(1, 3);
  for (AgentMachine* agent : world_.Agents()) {
    if (!prng.Chance(share, 4)) continue;
    agent->harmed = true;
    world_.network().Cut(agent->name(), name);
    if (!one_way) world_.network().Cut(name, agent->name());
    world_.Later(event.length, [this, name, from = agent->name()] {
      world_.network().Heal(from, name);
      world_.network().Heal(name, from);
    });
  }
}

void Director::CutOperator(const Event& event, Prng& prng) {
  const std::string name = PickMachine(event, prng);
  const std::string from = world_.Operator(prng.Chance(1, 2) ? DefaultTenant() : Prod()).name();
  const bool one_way = prng.Chance(1, 3);
  world_.network().Cut(name, from);
  if (!one_way) world_.network().Cut(from, name);
  world_.Later(event.length, [this, name, from] {
    world_.network().Heal(from, name);
    world_.network().Heal(name, from);
  });
}

void Director::EmptyWorld(const Event& event, Prng& prng) {
  SimCloudLies& lies = world_.mutable_cloud().lies();
  lies.lists_nothing = true;
  lies.finds_nothing = prng.Chance(1, 4);
  world_.Later(event.length, [&lies] { lies.lists_nothing = lies.finds_nothing = false; });
}

void Director::CloudLies(const Event& event, Prng& prng) {
  SimCloudLies& lies = world_.mutable_cloud().lies();
  switch (prng.Below(5)) {
    case 0: lies.forgets_token = 5'000; break;
    case 1: lies.listed_twice = 3'000; break;
    case 2: lies.lists_nothing = true; break;
    case 3: lies.finds_nothing = true; break;
    default: lies.unmarked_for = prng.UpTo(world_.setting().consistency_window); break;
  }
  world_.Later(event.length, [this] { world_.mutable_cloud().lies() = {}; });
}

// --- Machines and agents -------------------------------------------------------------------------

void Director::HappenToMachines(const Event& event, Prng& prng) {
  if (event.kind == EventKind::kKillVm) return KillVm(prng);
  if (event.kind == EventKind::kRogueVm) return RogueVm(prng);
  if (event.kind == EventKind::kAgentStorm) return AgentStorm(prng);
  AgentMachine* agent = PickAgent(prng);
  if (agent == nullptr) return;
  agent->harmed = true;
  world_.Note("event", "... " + agent->id().text());
  const std::string provider_id = agent->name().substr(std::string_view("agent-").size());
  const auto later = [this, provider_id](Duration after, void (AgentMachine::*act)()) {
    world_.Later(after, [this, provider_id, act] {
      if (AgentMachine* found = world_.AgentOn(provider_id)) (found->*act)();
    });
  };
  switch (event.kind) {
    case EventKind::kKillAgent: return KillAgent(*agent, event.length, prng);
    case EventKind::kHangAgent: agent->Pause(); return later(event.length, &AgentMachine::Resume);
    default: return agent->JumpWall(DrawJump(prng));
  }
}

// At once, or in the middle of one of the next changes of its disk.
void Director::KillAgent(AgentMachine& agent, Duration length, Prng& prng) {
  if (prng.Chance(1, 2)) {
    agent.Kill();
    return world_.LaterOnAgent(agent.name(), length, &AgentMachine::Start);
  }
  agent.DieAtChange(
      prng.Chance(3, 4) ? AgentMachine::Disk::kIdentity : AgentMachine::Disk::kReceived,
      {.change = prng.Between(1, 5),
       .when = prng.Chance(1, 2) ? SimAgentDisk::Death::kBefore : SimAgentDisk::Death::kAfter,
       .told = [this, length, name = agent.name()] {
         world_.Note(name, "dies while it changes its disk");
         world_.LaterOnAgent(name, Duration(), &AgentMachine::Kill);
         world_.LaterOnAgent(name, length, &AgentMachine::Start);
       }});
}

void Director::AgentStorm(Prng& prng) {
  for (AgentMachine* agent : world_.Agents()) {
    agent->harmed = true;
    const Duration after = prng.UpTo(world_.setting().lease);
    world_.LaterOnAgent(agent->name(), after, &AgentMachine::Kill);
    world_.LaterOnAgent(agent->name(), after + Duration::Milliseconds(500), &AgentMachine::Start);
  }
}

void Director::KillVm(Prng& prng) {
  const std::vector<const SimVm*> vms = world_.cloud().Vms();
  if (vms.empty()) return;
  const SimVm& vm = *Pick(vms, prng);
  if (AgentMachine* agent = world_.AgentOn(vm.provider_id)) agent->harmed = true;
  const std::string id = vm.provider_id;
  world_.Note("event", "... " + vm.shown.shown_id);
  switch (prng.Below(3)) {
    case 0: (void)world_.mutable_cloud().SetStatusByHand(id, ProviderStatus::kStopped); return;
    case 1: (void)world_.mutable_cloud().SetStatusByHand(id, ProviderStatus::kFailed); return;
    default: (void)world_.mutable_cloud().VanishByHand(id); return;
  }
}

// What a half-finished tool, or a person, leaves behind.
void Director::RogueVm(Prng& prng) {
  const bool parses = prng.Chance(1, 2);
  Puidv7Generator::Entropy noise{};
  for (std::uint8_t& byte : noise) byte = static_cast<std::uint8_t>(prng.Next());
  const InstanceId id = Puidv7Generator().Next("wrk", world_.wall(), noise);
  world_.mutable_cloud().AddByHand({.instance_id = parses ? std::optional(id) : std::nullopt,
                                    .shown_id = parses ? id.text() : "dangling",
                                    .status = ProviderStatus::kRunning,
                                    .launched_at = world_.wall(),
                                    .managed = true,
                                    .cluster_id = SimCluster().text(),
                                    .shard = ShardA().text(),
                                    .tenant = "default",
                                    .group = "workers"});
}

// --- Work ----------------------------------------------------------------------------------------

void Director::Work(const Event& event, Prng& prng) {
  switch (event.kind) {
    case EventKind::kUpsertGroup:
    case EventKind::kScaleGroup:
    case EventKind::kDeleteGroup: return ChangeGroup(event.kind, prng);
    case EventKind::kCreateInstance:
    case EventKind::kDeleteInstance: return ChangeInstance(event.kind, prng);
    case EventKind::kEditConfig: return EditConfig(prng);
    case EventKind::kRefreshConfig:
      return world_.Operator(Prod()).RefreshConfig(prng.Chance(1, 2) ? ShardA() : ShardB());
    case EventKind::kMoodOfOperator:
      return world_.Operator(prng.Chance(1, 2) ? DefaultTenant() : Prod())
          .set_mood(static_cast<OperatorNode::Mood>(prng.Below(5)));
    default: return DenyIdentity(prng);
  }
}

std::vector<std::string> Director::GroupsOf(const TenantId& tenant, const ShardId& shard) const {
  std::vector<std::string> keys;
  for (const auto& [name, size] : world_.DesiredSizes(shard)) {
    if (name.first == tenant) keys.push_back(name.second.text());
  }
  return keys;
}

void Director::ChangeGroup(EventKind kind, Prng& prng) {
  OperatorNode& by = world_.Operator(prng.Chance(1, 2) ? DefaultTenant() : Prod());
  const ShardId& shard = prng.Chance(2, 3) ? ShardA() : ShardB();
  if (kind == EventKind::kUpsertGroup) {
    api::UpsertGroupRequest request{
        .key = fmt::format("dyn{}", made_groups_++ % 4),
        .config = api::GroupConfig{.template_name = "t",
                                   .size = static_cast<std::int32_t>(prng.Below(6))}};
    if (prng.Chance(1, 2)) request.request_id = fmt::format("request-{}", requests_++);
    return by.Ask(shard, std::move(request));
  }
  const std::vector<std::string> keys = GroupsOf(by.tenant(), shard);
  if (keys.empty()) return;
  const std::string& key = Pick(keys, prng);
  if (kind == EventKind::kDeleteGroup) return by.Ask(shard, api::DeleteGroupRequest{.key = key});
  by.Ask(shard, api::UpsertGroupRequest{
                    .key = key,
                    .config = api::GroupConfig{.size = static_cast<std::int32_t>(prng.Below(10))}});
}

void Director::ChangeInstance(EventKind kind, Prng& prng) {
  OperatorNode& by = world_.Operator(prng.Chance(1, 2) ? DefaultTenant() : Prod());
  const ShardId& shard = prng.Chance(2, 3) ? ShardA() : ShardB();
  if (kind == EventKind::kCreateInstance) {
    const std::vector<std::string> keys = GroupsOf(by.tenant(), shard);
    if (keys.empty()) return;
    return by.Ask(
        shard, api::CreateInstanceRequest{.config = api::InstanceConfig{.group = Pick(keys, prng)},
                                          .request_id = fmt::format("request-{}", requests_++)});
  }
  std::vector<std::string> ids;
  for (const auto& [id, record] : world_.truth().Of(shard).records) {
    if (record.tenant == by.tenant() && record.phase != InstancePhase::kGone) {
      ids.push_back(id.text());
    }
  }
  if (ids.empty()) return;
  by.Ask(shard,
         api::DeleteInstanceRequest{.instance_id = Pick(ids, prng), .drain = prng.Chance(1, 2)});
}

void Director::EditConfig(Prng& prng) {
  const ShardId& shard = prng.Chance(2, 3) ? ShardA() : ShardB();
  ConfigEdits& edits = world_.Edits(shard);
  switch (prng.Below(3)) {
    case 0: ++edits.generation; break;
    case 1: {
      ConfigEdits broken = edits;
      broken.broken = true;
      world_.mutable_bucket().SetByHand(
          ObjectKey::Parse("config/" + shard.text() + ".jsonc").value(),
          ConfigText(world_.setting(), shard, broken));
      // Mended a while later, as people do.
      world_.Later(Duration::Seconds(40), [this, shard] { world_.WriteConfig(shard); });
      return;
    }
    default:
      for (auto& [name, size] : edits.sizes) size = static_cast<int>(prng.Below(12));
      break;
  }
  world_.WriteConfig(shard);
}

void Director::DenyIdentity(Prng& prng) {
  AgentMachine* agent = PickAgent(prng);
  if (agent == nullptr) return;
  const InstanceRecord* record = world_.truth().Find(agent->id());
  if (record == nullptr || record->cert_serial.empty()) return;
  agent->harmed = true;
  const ObjectKey key = ObjectKey::Parse("deny/cluster.json").value();
  DenyList list;
  if (const Object* object = world_.bucket().Find(key)) {
    if (Result<DenyList> stored = DecodeDenyList(object->bytes); stored.has_value()) {
      list = *std::move(stored);
    }
  }
  list.entries.push_back({.serial = record->cert_serial,
                          .reason = "stolen",
                          .denied_at = world_.wall(),
                          .expires_at = world_.wall() + Duration::Days(1)});
  world_.mutable_bucket().SetByHand(key, EncodeDenyList(list));
}

// --- The end -------------------------------------------------------------------------------------

// But for what it has lost for good.
void Director::Heal(ServerMachine& machine) {
  machine.rows.broken = false;
  machine.files.broken = false;
  if (machine.loss != Loss::kCut) machine.store_cut = {};
  machine.provider_cut = {};
  if (machine.database) machine.database = DatabaseFaults();
  world_.SetRate(machine.name, SimLoop::kTrueRate);
  world_.CorrectWall(machine.name);
  OnServer(machine.name, [&](ServerNode& node) {
    if (node.muted()) return;
    node.Resume();
    node.store().faults() = {};
    node.store().link() = machine.store_cut;
    if (node.provider() == nullptr) return;
    node.provider()->faults() = {};
    node.provider()->link() = {};
  });
  world_.StartServer(machine.name);
}

Duration Director::EndFaults() {
  over_ = true;
  for (const Event& event : events_) {
    if (event.kind == EventKind::kAtStep && event.insists) late_ = std::max(late_, event.length);
  }
  world_.Note("event", "calm: no more faults, no more work");
  world_.step_faults().Stop();
  world_.network().HealAll();
  world_.mutable_cloud().lies() = {};
  for (const std::string& name : world_.MachineNames()) Heal(world_.Machine(name));
  for (AgentMachine* agent : world_.Agents()) {
    agent->Spare();
    agent->Resume();
    agent->Start();
  }
  world_.WriteConfig(ShardA());
  world_.WriteConfig(ShardB());
  for (const TenantId& tenant : {DefaultTenant(), Prod()}) {
    world_.Operator(tenant).Rest();
    world_.Operator(tenant).JoinAgainIfRefused();
    world_.Operator(tenant).set_mood(OperatorNode::Mood::kPrompt);
  }
  world_.Operator(Prod()).RefreshConfig(ShardA());
  world_.Operator(Prod()).RefreshConfig(ShardB());
  world_.BeginCalm();
  return late_;
}

}  // namespace nstance::sim
