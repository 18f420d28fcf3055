#include "sim/world/director.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "core/cluster_keys_machine.h"
#include "core/deny_list.h"
#include "crypto/certificate_authority.h"
#include "sim/seeded_random.h"

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

std::string Director::LeaderOf(const ShardId& shard) const {
  for (const ServerStanding& server : world_.Servers()) {
    if (server.leads && server.shard == shard) return server.name.substr(0, server.name.find('#'));
  }
  return {};
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
  if (event.kind == EventKind::kWornLease) return WornLease(event, prng);
  if (event.kind == EventKind::kPauseAtLog) return world_.PauseAtLog(event.length);
  if (event.kind == EventKind::kUnlistedHeir) return UnlistedHeir(event, prng);
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
    case EventKind::kRestoreServer: return RestoreServer(name, event.length, prng);
    default: return LoseCache(world_.Machine(name), prng);
  }
}

// As far as the lease bears, answers come late and then not at all: nobody else may lead before the
// holder has given up. Beyond that (faults.md 4.7 F11) two may; only leases are lost then, so that
// what the older one does arrives, and there is work for it.
void Director::WornLease(const Event& event, Prng& prng) {
  constexpr std::int64_t kBorne = 760;
  constexpr std::int64_t kBeyond = 500;
  constexpr std::int64_t kOthersBeyond = 2'000;
  const std::string name = LeaderOf(ShardA());
  if (name.empty() || world_.Machine(name).loss != Loss::kNone) return;
  world_.Note("event", "... " + name);
  const bool borne = prng.Chance(1, 2);
  const Duration end = event.length + Duration::Seconds(20);
  const auto set_rates = [this, name](std::int64_t its, std::int64_t others) {
    for (const std::string& each : world_.MachineNames()) {
      if (world_.Machine(each).shard == ShardA()) world_.SetRate(each, each == name ? its : others);
    }
  };
  set_rates(borne ? kBorne : kBeyond, borne ? SimLoop::kTrueRate : kOthersBeyond);
  if (borne) {
    OnServer(name, [](ServerNode& node) {
      node.store().faults() = {.latency_min = Duration::Milliseconds(2'000),
                               .latency_max = Duration::Milliseconds(2'900)};
    });
  }
  // An answer that is on its way still arrives.
  const SimLink part = {.requests_lost = true};
  world_.Later(event.length, [this, name, borne, part] {
    if (over_) return;
    world_.Machine(name).leases_lost = !borne;
    if (borne)
      OnServer(name, [&](ServerNode& node) { node.CutWay(ServerNode::Way::kStore, part); });
  });
  // Each a group of its own: of two changes of one group that share a commit only the last is seen.
  for (Duration at = Duration::Seconds(1); !borne && at < Duration::Seconds(9);
       at = at + Duration::Milliseconds(250)) {
    world_.Later(event.length + at, [this, prod = prng.Chance(1, 2)] {
      if (over_) return;
      world_.Operator(prod ? Prod() : DefaultTenant())
          .Ask(ShardA(), api::UpsertGroupRequest{
                             .key = fmt::format("worn{}", requests_++),
                             .config = api::GroupConfig{.template_name = "t", .size = 0}});
    });
  }
  world_.Later(end, [this, name, borne, part, set_rates] {
    world_.Machine(name).leases_lost = false;
    set_rates(SimLoop::kTrueRate, SimLoop::kTrueRate);
    OnServer(name, [&](ServerNode& node) {
      if (borne) node.store().faults() = {};
      if (borne) node.HealWay(ServerNode::Way::kStore, part);
    });
  });
}

void Director::UnlistedHeir(const Event& event, Prng& prng) {
  constexpr int kLooks = 2'000;
  const std::string name = LeaderOf(ShardA());
  if (name.empty() || world_.Machine(name).loss != Loss::kNone) return;
  const auto middle = static_cast<Middle>(prng.Below(3));
  world_.Note("event", fmt::format("... {}, case {}", name, static_cast<int>(middle)));
  Begin(middle, name, prng);
  EndInThe(middle, name, event.length, kLooks);
}

void Director::Begin(Middle middle, const std::string& leader, Prng& prng) {
  OperatorNode& by = world_.Operator(DefaultTenant());
  if (middle == Middle::kCreation) {
    OnServer(leader, [](ServerNode& node) {
      if (node.provider() != nullptr) node.provider()->faults() = {.answer_lost = 10'000};
    });
    return by.Ask(ShardA(), api::UpsertGroupRequest{
                                .key = fmt::format("heir{}", requests_++),
                                .config = api::GroupConfig{.template_name = "t", .size = 2}});
  }
  std::vector<std::string> ids;
  for (const auto& [id, record] : world_.truth().Of(ShardA()).records) {
    const bool fits =
        record.tenant == DefaultTenant() && record.phase == InstancePhase::kRegistered;
    if (fits) ids.push_back(id.text());
  }
  if (ids.empty()) return;
  const bool drain = middle == Middle::kDrain;
  if (drain) {
    OnServer(leader, [](ServerNode& node) {
      node.store().faults() = {.latency_min = Duration::Milliseconds(300),
                               .latency_max = Duration::Milliseconds(900)};
    });
  }
  // More than once: an order may meet the one before it.
  const std::string& id = Pick(ids, prng);
  for (int i = 0; i < 5; ++i) {
    world_.Later(Duration::Milliseconds(50) * i, [this, id, drain] {
      if (over_) return;
      world_.Operator(DefaultTenant())
          .Ask(ShardA(), api::DeleteInstanceRequest{.instance_id = id, .drain = drain});
    });
  }
}

bool Director::IsInThe(Middle middle) const {
  const ShardTruth& truth = world_.truth().Of(ShardA());
  if (middle == Middle::kCreation) {
    return std::ranges::any_of(truth.records, [](const auto& at) {
      return at.second.phase == InstancePhase::kRegistered &&
             at.second.provider_instance_id.empty();
    });
  }
  if (!truth.journal) return false;
  return std::ranges::any_of(truth.journal->intents, [&](const Intent& intent) {
    if (middle == Middle::kDrain) return intent.kind == IntentKind::kDrain;
    const auto at = truth.records.find(intent.instance_id);
    return intent.kind == IntentKind::kDelete && at != truth.records.end() &&
           at->second.phase == InstancePhase::kGone;
  });
}

void Director::EndInThe(Middle middle, const std::string& leader, Duration unlisted, int looks) {
  if (over_) return;
  if (looks > 0 && !IsInThe(middle)) {
    return world_.Later(Duration::Milliseconds(20), [this, middle, leader, unlisted, looks] {
      EndInThe(middle, leader, unlisted, looks - 1);
    });
  }
  OnServer(leader, [](ServerNode& node) {
    node.store().faults() = {};
    if (node.provider() != nullptr) node.provider()->faults() = {};
  });
  if (looks == 0) return;
  world_.Note("event", "... " + leader + " ends");
  world_.KillServer(leader);
  world_.Later(Duration::Seconds(1), [this, leader] { world_.StartServer(leader); });
  SimCloudLies& lies = world_.mutable_cloud().lies();
  lies.lists_nothing = true;
  world_.Later(unlisted, [&lies] { lies.lists_nothing = false; });
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

// RU9 knows a restored state by its boot id or by its clock; one that shows neither is a pause.
void Director::RestoreServer(const std::string& name, Duration after, Prng& prng) {
  ServerNode* node = world_.Server(name);
  if (node == nullptr) return;
  const bool other_boot = prng.Chance(1, 2);
  // Who stands still has seen its clock long ago, and could not tell that it went back.
  if (!other_boot && node->loop().paused()) return;
  const bool back = !other_boot || prng.Chance(1, 2);
  // Before what the process has last seen of it: a clock that goes on from later than that shows
  // nothing.
  const Duration least = Duration::Seconds(20);
  const Duration by =
      back ? least + prng.UpTo(prng.Chance(1, 2) ? Duration::Seconds(10) : Duration::Minutes(5))
           : Duration();
  const Instant saved = node->loop().Now();
  const World::Restored restored = {.clock = saved - std::min(by, saved.since_zero()),
                                    .other_boot = other_boot,
                                    .wall_is_set = prng.Chance(1, 2)};
  node->loop().Pause();
  world_.Later(after, [this, name, restored, process = node->standing().name] {
    ServerNode* same = world_.Server(name);
    if (over_ || same == nullptr || same->standing().name != process) return;
    world_.Note("event", "... " + process + " is restored");
    world_.Restore(name, restored);
  });
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
    case EventKind::kTwoVms: return TwoVms(event);
    case EventKind::kReuseIds: return ReuseIds(event, prng);
    case EventKind::kShortage: return Shortage(event, prng);
    case EventKind::kTouchLease: return TouchLease(prng);
    case EventKind::kBlink: return Blink(prng);
    case EventKind::kNoCapacity: return NoCapacity(event, prng);
    case EventKind::kLateCreation: return LateCreation(event, prng);
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

// Longer than a creation is tried (T_intent), so that it finds a tombstone.
void Director::LateCreation(const Event& event, Prng& prng) {
  const std::string name = LeaderOf(ShardA());
  if (name.empty()) return;
  constexpr std::uint32_t kAlways = 10'000;
  const Duration least = world_.setting().times.t_intent + Duration::Minutes(1);
  const SimProviderFaults faults = {
      .applied_late = kAlways, .late_min = least, .late_max = least + Duration::Minutes(1)};
  late_ = std::max(late_, faults.late_max);
  OnServer(name, [&](ServerNode& node) {
    if (node.provider() != nullptr) node.provider()->faults() = faults;
  });
  world_.Operator(prng.Chance(1, 2) ? DefaultTenant() : Prod())
      .Ask(ShardA(),
           api::UpsertGroupRequest{.key = "late",
                                   .config = api::GroupConfig{.template_name = "t", .size = 2}});
  // What was sent is late; nothing more arrives until it has been given up.
  const SimLink part = {.requests_lost = true};
  world_.Later(Duration::Seconds(10), [this, name, part] {
    OnServer(name, [&](ServerNode& node) {
      if (node.provider() != nullptr) node.provider()->faults() = {};
      if (!over_) node.CutWay(ServerNode::Way::kProvider, part);
    });
  });
  world_.Later(event.length + least - Duration::Seconds(60), [this, name, part] {
    OnServer(name, [&](ServerNode& node) { node.HealWay(ServerNode::Way::kProvider, part); });
  });
}

void Director::NoCapacity(const Event& event, Prng& prng) {
  const ShardId& shard = prng.Chance(2, 3) ? ShardA() : ShardB();
  const std::string name = LeaderOf(shard);
  if (name.empty()) return;
  const auto set = [this, name](std::uint32_t refused) {
    OnServer(name, [&](ServerNode& node) {
      if (node.provider() != nullptr) node.provider()->faults() = {.refused_capacity = refused};
    });
  };
  set(static_cast<std::uint32_t>(prng.Between(5'000, 10'000)));
  world_.Later(event.length, [set] { set(0); });
  world_.Operator(prng.Chance(1, 2) ? DefaultTenant() : Prod())
      .Ask(shard,
           api::UpsertGroupRequest{.key = fmt::format("short{}", requests_++),
                                   .config = api::GroupConfig{.template_name = "t", .size = 3}});
}

// Shorter than what has to be believed (RU7), by whatever clock.
void Director::Blink(Prng& prng) {
  const Setting& setting = world_.setting();
  const Duration t_vis = fleet::ForProvider(setting.times, setting.consistency_window).t_vis;
  SimCloudLies& lies = world_.mutable_cloud().lies();
  if (lies.finds_nothing) return;
  lies.finds_nothing = true;
  world_.Later(t_vis / 3, [&lies] { lies.finds_nothing = false; });
  for (int i = 0; i < 3; ++i) {
    AgentMachine* agent = PickAgent(prng);
    if (agent == nullptr) return;
    agent->harmed = true;
    world_.LaterOnAgent(agent->name(), Duration::Milliseconds(100), &AgentMachine::Kill);
    world_.LaterOnAgent(agent->name(), Duration::Milliseconds(600), &AgentMachine::Start);
  }
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

void Director::TwoVms(const Event& event) {
  SimCloudLies& lies = world_.mutable_cloud().lies();
  lies.makes_two = 5'000;
  world_.Later(event.length, [&lies] { lies.makes_two = 0; });
}

// Records still name the machines that vanish when others get their ids.
void Director::ReuseIds(const Event& event, Prng& prng) {
  SimCloudLies& lies = world_.mutable_cloud().lies();
  lies.reuses_ids = true;
  world_.Later(event.length, [&lies] { lies.reuses_ids = false; });
  for (std::int64_t count = prng.Between(1, 3); count > 0; --count) {
    const std::vector<AgentMachine*> agents = world_.Agents();
    if (agents.empty()) return;
    AgentMachine& agent = *Pick(agents, prng);
    agent.harmed = true;
    world_.Note("event", "... " + agent.id().text());
    (void)world_.mutable_cloud().VanishByHand(std::string(agent.provider_id()));
  }
}

void Director::Shortage(const Event& event, Prng& prng) {
  world_.mutable_cloud().limits().vms = 0;
  world_.Later(event.length, [this] { world_.mutable_cloud().limits().vms.reset(); });
  AgentMachine* agent = PickAgent(prng);
  if (agent == nullptr) return;
  agent->harmed = true;
  agent->Pause();
  world_.LaterOnAgent(agent->name(), event.length, &AgentMachine::Resume);
}

void Director::TouchLease(Prng& prng) {
  const ShardId& shard = prng.Chance(2, 3) ? ShardA() : ShardB();
  const ObjectKey key = ObjectKey::Parse("leader/" + shard.text() + ".json").value();
  constexpr std::array<std::string_view, 3> kSpoilt = {"", "no JSON", R"({"holder": "me"})"};
  const auto how = static_cast<std::size_t>(prng.Below(kSpoilt.size() + 1));
  if (how == kSpoilt.size()) return world_.mutable_bucket().EraseByHand(key);
  world_.mutable_bucket().SetByHand(key, std::string(kSpoilt.at(how)));
}

// --- Machines and agents -------------------------------------------------------------------------

void Director::HappenToMachines(const Event& event, Prng& prng) {
  if (event.kind == EventKind::kKillVm) return KillVm(prng);
  if (event.kind == EventKind::kRogueVm) return RogueVm(prng);
  if (event.kind == EventKind::kAgentStorm) return AgentStorm(prng);
  if (event.kind == EventKind::kCloneVm) return CloneVm(prng);
  if (event.kind == EventKind::kSpotNotice) return SpotNotice(event, prng);
  if (event.kind == EventKind::kTwoHang) return TwoHang(event);
  AgentMachine* agent = PickAgent(prng);
  if (agent == nullptr) return;
  agent->harmed = true;
  world_.Note("event", "... " + agent->id().text());
  switch (event.kind) {
    case EventKind::kKillAgent: return KillAgent(*agent, event.length, prng);
    case EventKind::kResetDisk:
      agent->Kill();
      agent->ResetDisk();
      return world_.LaterOnAgent(agent->name(), event.length, &AgentMachine::Start);
    case EventKind::kHangAgent:
      agent->Pause();
      return world_.LaterOnAgent(agent->name(), event.length, &AgentMachine::Resume);
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

// Too few for mass silence, and one more than may be replaced at once.
void Director::TwoHang(const Event& event) {
  int left = 2;
  for (AgentMachine* agent : world_.Agents()) {
    const InstanceRecord* record = world_.truth().Find(agent->id());
    const bool fits = record != nullptr && record->phase == InstancePhase::kRegistered &&
                      !record->on_demand && record->tenant == DefaultTenant() &&
                      record->group.text() == "workers";
    if (!fits) continue;
    agent->harmed = true;
    agent->Pause();
    world_.LaterOnAgent(agent->name(), event.length, &AgentMachine::Resume);
    if (--left == 0) return;
  }
}

// The machine goes when its time has come, or it was a false alarm. A notice may no longer be
// repeated long before that.
void Director::SpotNotice(const Event& event, Prng& prng) {
  AgentMachine* agent = PickAgent(prng);
  if (agent == nullptr) return;
  const Duration left = Duration::Seconds(prng.Between(30, 120));
  world_.Note("event", "... " + agent->id().text());
  agent->Announce(world_.wall() + left);
  const std::string id = agent->name().substr(std::string_view("agent-").size());
  world_.Later(event.length, [this, id] {
    if (AgentMachine* found = world_.AgentOn(id)) found->Announce(std::nullopt);
  });
  if (prng.Chance(1, 2)) return;
  world_.Later(left, [this, id] {
    AgentMachine* found = world_.AgentOn(id);
    if (found == nullptr || over_) return;
    found->harmed = true;
    (void)world_.mutable_cloud().SetStatusByHand(id, ProviderStatus::kStopped);
  });
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

void Director::CloneVm(Prng& prng) {
  std::vector<AgentMachine*> agents = world_.Agents();
  std::erase_if(agents, [](const AgentMachine* agent) { return !agent->has_joined(); });
  if (agents.empty()) return;
  AgentMachine& agent = *Pick(agents, prng);
  world_.Note("event", "... " + agent.id().text());
  world_.CloneAgent(agent, prng.Chance(1, 2) ? World::CloneAt::kElsewhere : World::CloneAt::kCloud);
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
    case EventKind::kRenameTemplate: return RenameTemplate(event, prng);
    case EventKind::kSameRequest: return SameRequest(prng);
    case EventKind::kBrokenConfig: return BreakConfig(event, prng);
    case EventKind::kGreatShrink: return GreatShrink(event);
    case EventKind::kChangeBundle: return ChangeBundle(prng);
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

// More than the brake lets go at once, under a leader that does not live to see the rest go.
void Director::GreatShrink(const Event& event) {
  constexpr std::int32_t kMany = 18;
  constexpr Duration kMade = Duration::Minutes(2);
  const auto scale = [this](std::int32_t size) {
    world_.Operator(DefaultTenant())
        .Ask(ShardA(),
             api::UpsertGroupRequest{.key = "workers", .config = api::GroupConfig{.size = size}});
  };
  scale(kMany);
  world_.Later(kMade, [this, scale] {
    if (!over_) scale(0);
  });
  world_.Later(kMade + event.length, [this] {
    const std::string name = LeaderOf(ShardA());
    if (over_ || name.empty()) return;
    world_.KillServer(name);
    world_.Later(Duration::Seconds(1), [this, name] { world_.StartServer(name); });
  });
}

// Request ids are a tenant's own: others may have the same, for a group of the same name.
void Director::SameRequest(Prng& prng) {
  const ShardId& shard = prng.Chance(1, 2) ? ShardA() : ShardB();
  const std::string id = fmt::format("request-of-many-{}", requests_++);
  for (const TenantId& tenant : {DefaultTenant(), Prod()}) {
    const auto size = static_cast<std::int32_t>(prng.Below(3));
    world_.Later(prng.UpTo(Duration::Seconds(20)), [this, tenant, shard, id, size] {
      if (over_) return;
      world_.Operator(tenant).Ask(
          shard,
          api::UpsertGroupRequest{.key = "same",
                                  .config = api::GroupConfig{.template_name = "t", .size = size},
                                  .request_id = id});
    });
  }
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

void Director::RenameTemplate(const Event& event, Prng& prng) {
  const ShardId& shard = prng.Chance(2, 3) ? ShardA() : ShardB();
  // So that there is a group which names it.
  world_.Operator(Prod()).Ask(
      shard, api::UpsertGroupRequest{.key = "dyn0",
                                     .config = api::GroupConfig{.template_name = "t", .size = 2}});
  world_.Later(Duration::Seconds(30), [this, shard] {
    if (over_) return;
    constexpr std::string_view kOld = R"("t")";
    std::string text = ConfigText(world_.setting(), shard, world_.Edits(shard));
    for (std::size_t at = text.find(kOld); at != std::string::npos; at = text.find(kOld, at)) {
      text.replace(at, kOld.size(), R"("t2")");
    }
    world_.mutable_bucket().SetByHand(ObjectKey::Parse("config/" + shard.text() + ".jsonc").value(),
                                      std::move(text));
    world_.Operator(Prod()).RefreshConfig(shard);
  });
  world_.Later(event.length, [this, shard] {
    if (over_) return;
    world_.WriteConfig(shard);
    world_.Operator(Prod()).RefreshConfig(shard);
  });
}

// Other sizes, under a name that nobody knows or in the file of the other shard: nothing of it may
// come to be. It is mended later.
void Director::BreakConfig(const Event& event, Prng& prng) {
  const ShardId& shard = prng.Chance(1, 2) ? ShardA() : ShardB();
  const ShardId& other = shard == ShardA() ? ShardB() : ShardA();
  const ShardId& of = prng.Chance(1, 2) ? shard : other;
  ConfigEdits broken = world_.Edits(of);
  broken.broken = of == shard;
  for (auto& [name, size] : broken.sizes) size += 5;
  world_.mutable_bucket().SetByHand(ObjectKey::Parse("config/" + shard.text() + ".jsonc").value(),
                                    ConfigText(world_.setting(), of, broken));
  world_.Operator(Prod()).RefreshConfig(shard);
  world_.Later(event.length, [this, shard] { world_.WriteConfig(shard); });
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

// As operations.md allows it: none to three roots behind the one that signs, in the store, and on
// the machines that somebody has brought them to.
void Director::ChangeBundle(Prng& prng) {
  const Object* object = world_.bucket().Find(CaCertificateKey());
  if (object == nullptr) return;
  const auto roots = crypto::TrustBundleFromPem(object->bytes);
  CHECK(roots.has_value(), "{}", roots.error().message);
  std::string bundle = roots->front().ToPem();
  SeededRandom random(prng.Next());
  const std::int64_t more = prng.Between(0, crypto::kMaxTrustBundleRoots - 1);
  for (std::int64_t i = 0; i < more; ++i) {
    const auto root =
        crypto::IssueCa({.common_name = fmt::format("root {}", i), .organization = {}},
                        crypto::PrivateKey::FromSeed(random.Array<crypto::PrivateKey::kSeedSize>()),
                        {.issued_at = WorldStart(), .life = Duration::Days(365)});
    CHECK(root.has_value(), "{}", root.error().message);
    bundle += root->ToPem();
  }
  world_.Note("event", fmt::format("... {} more roots", more));
  world_.mutable_bucket().SetByHand(CaCertificateKey(), bundle);
  for (AgentMachine* agent : world_.Agents()) {
    if (prng.Chance(1, 2)) agent->SetRoots(bundle);
  }
}

// --- The end -------------------------------------------------------------------------------------

// But for what it has lost for good.
void Director::Heal(ServerMachine& machine) {
  machine.rows.broken = false;
  machine.files.broken = false;
  machine.leases_lost = false;
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
  world_.mutable_cloud().limits() = {};
  for (const std::string& name : world_.MachineNames()) Heal(world_.Machine(name));
  world_.EndClones();
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
