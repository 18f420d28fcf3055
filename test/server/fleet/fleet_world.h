// A world for fleets: a bucket, a cloud whose machines run agents, and leaders that come and go.
//
// The fleet is the real one, on the simulated loop, store and provider; the agents are as simple as
// can be: a machine that starts registers after a while by writing its record through the fleet
// (what the registration service does), keeps a health stream open and reports. The cloud and the
// bucket are the truth that tests look at.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/log.h"
#include "core/instance_config/template_check.h"
#include "server/fleet/fleet.h"
#include "sim/seeded_random.h"
#include "sim/sim_cache.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "sim/sim_provider.h"
#include "storage/journal_writer.h"
#include "test/support/scripted_http.h"

namespace nstance::test {

inline const ClusterId kCluster = *ClusterId::Parse("c1");
inline const ShardId kShard = *ShardId::Parse("a");
inline const GroupKey kWorkers = *GroupKey::Parse("workers");

class SilentSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level) const override { return false; }
  void Write(const log::Record&) override {}
};

struct WorldSettings {
  std::uint64_t seed = 1;
  int size = 3;
  std::string drain_timeout = "10s";
  std::string brake = R"({"unordered": {"window": "0s"}, "ordered": {"window": "0s"}})";
  std::string interval = "10s";
  std::string userdata = "start {{ .Instance.ID }} {{ .Nonce }}";
  Duration consistency_window = {};
  std::function<Instant()> stopwatch = {};  // FleetDeps::stopwatch.
};

// The configuration of the world, for a size.
inline ConfigRef MakeConfig(const WorldSettings& settings) {
  const std::string text =
      R"({"server": {"cluster_id": "c1", "shard": "a", "provider": {"kind": "local"},
        "subnet_pools": {"p": ["s1", "s2"]}, "secrets": {"provider": "memory"},
        "health_check_interval": ")" +
      settings.interval + R"(", "default_drain_timeout": ")" + settings.drain_timeout +
      R"(", "deletion_brake": )" + settings.brake + R"(},
        "templates": {"t": {"kind": "wrk", "arch": "amd64", "instance_type": "small",
          "subnet_pool": "p", "userdata": {"content": ")" +
      settings.userdata + R"("}}},
        "groups": {"default": {"workers": {"template": "t", "size": )" +
      std::to_string(settings.size) + "}}}}";
  const config::LoadResult loaded = LoadChecked(text);
  for (const config::Problem& problem : loaded.errors) {
    ADD_FAILURE() << config::Format(problem, "config");
  }
  auto snapshot = std::make_shared<ConfigSnapshot>(ConfigSnapshot{.config = *loaded.config});
  snapshot->etag = text;
  return snapshot;
}

class World;

// One process that leads from its making to its end.
class Leader {
 public:
  Leader(World& world, std::string name);
  ~Leader() = default;
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  void SetSize(int size);
  void Publish(config::DynamicGroups dynamic = {});
  [[nodiscard]] Fleet& fleet() { return *fleet_; }
  [[nodiscard]] JournalWriter& journal() { return *journal_; }
  [[nodiscard]] sim::SimLoop& loop() { return loop_; }
  [[nodiscard]] sim::SimObjectStore& store() { return store_; }
  [[nodiscard]] sim::SimProvider& provider() { return provider_; }
  [[nodiscard]] metrics::Registry& metrics() { return metrics_; }
  [[nodiscard]] bool ready() const { return ready_; }
  [[nodiscard]] bool lost() const { return lost_; }

  std::vector<api::InstanceEvent> events;
  std::vector<std::string> errors;
  std::vector<std::string> alarms;
  std::optional<Timestamp> store_now = std::nullopt;  // LeaderScope::store_now, at zero.
  bool may_start = true;
  bool may_revoke = true;

 private:
  void TookOver(std::int64_t epoch);

  World& world_;
  std::string name_;
  sim::SimLoop loop_;
  sim::SeededRandom random_;
  Prng jitter_;
  metrics::Registry metrics_;
  sim::SimCache rows_;
  sim::SimObjectStore store_;
  sim::SimProvider provider_;
  ScriptedHttp http_;
  LeaderScope scope_;
  std::unique_ptr<JournalWriter> journal_;
  std::unique_ptr<Fleet> fleet_;
  WorldSettings settings_;
  GroupsRef groups_;
  bool ready_ = false;
  bool lost_ = false;
};

// The agent on one machine.
struct WorldAgent {
  InstanceId id;
  bool frozen = false;  // Neither reports nor notices anything.
  bool cut = false;     // The stream has ended; the machine runs.
  Pending timer = {};
};

class World {
 public:
  explicit World(WorldSettings settings)
      : settings_(std::move(settings)),
        scheduler_(settings_.seed),
        bucket_(scheduler_, {}),
        loop_(scheduler_, Timestamp::FromUnix(1'700'000'000)),
        cloud_(scheduler_, {.capabilities = {.kind = config::ProviderKind::kLocal,
                                             .max_create_time = Duration::Seconds(5),
                                             .consistency_window = settings_.consistency_window,
                                             .push_events = true}}) {
    cloud_.set_on_started([this](const sim::SimVm& vm) { Started(vm); });
    cloud_.set_on_gone([this](const sim::SimVm& vm) { Gone(vm); });
  }

  Leader& Lead(const std::string& name) {
    leader_.reset();
    leader_ = std::make_unique<Leader>(*this, name);
    return *leader_;
  }
  void KillLeader() { leader_.reset(); }

  [[nodiscard]] Leader& leader() { return *leader_; }
  [[nodiscard]] Leader* leader_or_null() { return leader_.get(); }
  [[nodiscard]] sim::SimScheduler& scheduler() { return scheduler_; }
  [[nodiscard]] sim::SimBucket& bucket() { return bucket_; }
  [[nodiscard]] sim::SimCloud& cloud() { return cloud_; }
  // The cache's disk, on which all leaders follow each other.
  [[nodiscard]] sim::SimCacheDisk& rows() { return rows_; }
  [[nodiscard]] WorldSettings& settings() { return settings_; }
  [[nodiscard]] log::Sink& sink() { return sink_; }
  [[nodiscard]] std::map<InstanceId, WorldAgent>& agents() { return agents_; }

  bool Until(const std::function<bool()>& done, Duration limit = Duration::Minutes(10)) {
    return scheduler_.RunUntilTrue(done, limit);
  }
  void For(Duration length) { scheduler_.RunFor(length); }

  [[nodiscard]] int Ready() {
    if (leader_ == nullptr || !leader_->ready()) return -1;
    return leader_->fleet().Figures(DefaultTenant(), kWorkers).ready;
  }
  bool UntilReady(int size, Duration limit = Duration::Minutes(10)) {
    return Until(
        [this, size] { return Ready() == size && static_cast<int>(cloud_.Vms().size()) == size; },
        limit);
  }

  // The agent stops reporting; the machine runs on, its connection stays.
  void Freeze(const InstanceId& id) { agents_.at(id).frozen = true; }

  // Agents find the new leader by themselves.
  void Reconnect() {
    for (auto& [id, agent] : agents_) {
      agent.timer = loop_.CallAfter(Duration::Milliseconds(200), [this, id] { Connect(id); });
    }
  }

 private:
  void Started(const sim::SimVm& vm) {
    if (!vm.shown.instance_id) return;
    const InstanceId id = *vm.shown.instance_id;
    agents_.insert_or_assign(id, WorldAgent{.id = id});
    agents_.at(id).timer = loop_.CallAfter(Duration::Seconds(1), [this, id] { Register(id); });
  }

  void Gone(const sim::SimVm& vm) {
    if (!vm.shown.instance_id) return;
    const InstanceId id = *vm.shown.instance_id;
    const auto at = agents_.find(id);
    if (at == agents_.end()) return;
    const bool cut = at->second.cut;
    agents_.erase(at);
    if (leader_ != nullptr && leader_->ready() && !cut) leader_->fleet().StreamEnded(id);
  }

  // As the registration service does it: by the record.
  void Register(const InstanceId& id) {
    if (leader_ == nullptr || !leader_->ready()) {
      agents_.at(id).timer = loop_.CallAfter(Duration::Seconds(1), [this, id] { Register(id); });
      return;
    }
    leader_->fleet().EditRecord(
        id,
        [now = loop_.WallNow()](InstanceRecord& record) -> Status {
          if (record.phase != InstancePhase::kCreating &&
              record.phase != InstancePhase::kProvisioned &&
              record.phase != InstancePhase::kRegistered) {
            return Fail(Unauthenticated("registration refused"));
          }
          record.phase = InstancePhase::kRegistered;
          record.phase_at = now;
          if (!record.registered_at) record.registered_at = now;
          record.generation = 1;
          return {};
        },
        [this, id](const Result<StoredRecord>& stored) {
          const auto at = agents_.find(id);
          if (at == agents_.end()) return;
          if (!stored.has_value() && stored.error().code == Code::kUnauthenticated) return;
          at->second.timer = loop_.CallAfter(
              stored.has_value() ? Duration::Milliseconds(100) : Duration::Seconds(1),
              [this, id, good = stored.has_value()] { good ? Connect(id) : Register(id); });
        });
  }

  void Connect(const InstanceId& id) {
    if (leader_ == nullptr || !leader_->ready()) {
      agents_.at(id).timer = loop_.CallAfter(Duration::Seconds(1), [this, id] { Connect(id); });
      return;
    }
    const Instance* instance = leader_->fleet().Find(id);
    if (instance == nullptr || !instance->health.registered_at) return Register(id);
    leader_->fleet().StreamOpened(id);
    Report(id);
  }

  void Report(const InstanceId& id) {
    WorldAgent& agent = agents_.at(id);
    agent.timer = loop_.CallAfter(Duration::Seconds(5), [this, id] { Report(id); });
    if (agent.frozen || agent.cut || leader_ == nullptr || !leader_->ready()) return;
    leader_->fleet().Report(id, {.instance_id = id.text(), .count = 1});
  }

  WorldSettings settings_;
  SilentSink sink_;
  sim::SimScheduler scheduler_;
  sim::SimBucket bucket_;
  sim::SimLoop loop_;
  sim::SimCloud cloud_;
  sim::SimCacheDisk rows_;
  std::map<InstanceId, WorldAgent> agents_;
  std::unique_ptr<Leader> leader_;
};

inline Leader::Leader(World& world, std::string name)
    : world_(world),
      name_(std::move(name)),
      loop_(world.scheduler(), Timestamp::FromUnix(1'700'000'000)),
      random_(world.scheduler().prng().Next()),
      jitter_(world.scheduler().prng().Next()),
      rows_(loop_, world.rows()),
      store_(world.bucket(), loop_, {.process = name_}),
      provider_(world.cloud(), loop_, {.process = name_, .cluster = kCluster, .shard = kShard}),
      http_(loop_),
      settings_(world.settings()) {
  journal_ = std::make_unique<JournalWriter>(
      JournalWriter::Deps{.loop = loop_, .store = store_, .random = random_},
      JournalWriter::Options{.key = *ObjectKey::Parse("journal/a.json")},
      JournalMachine({.identity = {.cluster = kCluster, .shard = kShard},
                      .holder = name_ + "/1",
                      .evidence = EpochEvidence::kNone}),
      JournalWriter::Owner{.took_over = [this](std::int64_t epoch) { TookOver(epoch); },
                           .refused = [](const Error& why) { ADD_FAILURE() << why.message; },
                           .lost = [this](JournalLoss) { lost_ = true; },
                           .may_start = [this](Duration) { return may_start && !lost_; }});
  journal_->Start();
}

inline void Leader::TookOver(std::int64_t epoch) {
  scope_ = {.epoch = epoch,
            .may_start = [this](Duration) { return may_start && !lost_; },
            .seq = [this] { return journal_->journal().seq; },
            .store_now = [this]() -> std::optional<Timestamp> {
              if (!store_now) return std::nullopt;
              return *store_now + loop_.Now().since_zero();
            },
            .step_down = [this](const Error&) { lost_ = true; }};
  FleetOptions options = {.cluster = kCluster, .shard = kShard};
  options.token_key = std::make_shared<const crypto::PrivateKey>(
      crypto::PrivateKey::FromSeed(std::array<std::uint8_t, crypto::PrivateKey::kSeedSize>{}));
  fleet_ = std::make_unique<Fleet>(
      FleetDeps{.loop = loop_,
                .store = store_,
                .provider = provider_,
                .http = http_,
                .journal = *journal_,
                .random = random_,
                .jitter = jitter_,
                .metrics = metrics_,
                .log = log::Logger(world_.sink(), "fleet"),
                .leader = scope_,
                .rows = &rows_,
                .stopwatch = settings_.stopwatch},
      std::move(options),
      FleetOwner{.instance_event = [this](const api::InstanceEvent& e) { events.push_back(e); },
                 .group_changed = [](const TenantId&, const GroupKey&) {},
                 .error_event = [this](const TenantId&,
                                       const api::ErrorEvent& e) { errors.push_back(e.error); },
                 .alarm = [this](std::string_view alarm,
                                 const std::string&) { alarms.emplace_back(alarm); },
                 .identity_ended = [](const InstanceId&, const Error&) {},
                 .may_revoke_drains = [this](const TenantId&) { return may_revoke; }});
  fleet_->Load([this](const Status& loaded) {
    if (!loaded.has_value()) {
      lost_ = true;  // It would release the lease, and another one would try.
      return;
    }
    ready_ = true;
    Publish();
  });
}

inline void Leader::Publish(config::DynamicGroups dynamic) {
  groups_ = BuildGroups({.config = MakeConfig(settings_), .dynamic = std::move(dynamic)}, groups_);
  fleet_->SetGroups(groups_);
}

inline void Leader::SetSize(int size) {
  settings_.size = size;
  world_.settings().size = size;
  Publish();
}

}  // namespace nstance::test
