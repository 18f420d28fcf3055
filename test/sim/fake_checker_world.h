// FakeCheckerWorld: a world in which a test says what happens, and checkers see it.
//
//   FakeCheckerWorld world;
//   world.Add(MakeI16);
//   world.Write("a1#1", record);
//   EXPECT_EQ(world.violations, Nothing());
//
// Objects and VMs are whatever the test last said; bucket and cloud are real ones besides, for
// counts and for VMs put there by hand.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/object_layout.h"
#include "sim/world/checker.h"

namespace nstance::sim {

using Violations = std::vector<std::string>;

inline InstanceId IdOf(int number) {
  UuidBytes uuid{};
  uuid[0] = 1;
  uuid[6] = 0x70;
  uuid[8] = 0x80;
  uuid[14] = static_cast<std::uint8_t>(number / 256);
  uuid[15] = static_cast<std::uint8_t>(number % 256);
  return {"wrk", uuid};
}

class FakeCheckerWorld final : public CheckerWorld {
 public:
  using Factory = std::unique_ptr<Checker> (*)(CheckerWorld&);

  FakeCheckerWorld() {
    real_cloud.set_observer([this](const SimVmChange& change) { Vm(change); });
  }

  void Add(Factory make) { checkers.push_back(make(*this)); }
  void Pass(Duration length) {
    scheduler.RunFor(length);
    Each([](Checker& checker) { checker.EverySecond(); });
  }
  template <class Tell>
  void Each(Tell tell) {
    for (const auto& checker : checkers) tell(*checker);
  }

  // --- The store ---

  void Put(const std::string& process, const std::string& key, std::string bytes,
           SimMethod method = SimMethod::kPut) {
    const auto before = objects.find(key);
    std::unique_ptr<Object> old = before == objects.end() ? nullptr : std::move(before->second);
    auto& now = objects[key];
    now = std::make_unique<Object>(Object{.bytes = std::move(bytes), .version = {}});
    Tell({.at = scheduler.now(),
          .process = process,
          .method = method,
          .key = ObjectKey::Parse(key).value(),
          .before = old.get(),
          .after = now.get()});
  }
  void Erase(const std::string& process, const std::string& key) {
    const std::unique_ptr<Object> old = std::move(objects[key]);
    objects.erase(key);
    Tell({.at = scheduler.now(),
          .process = process,
          .method = SimMethod::kDelete,
          .key = ObjectKey::Parse(key).value(),
          .before = old.get()});
  }
  void Tell(const SimChange& change) {
    truth_now.OnChange(change);
    Each([&](Checker& checker) { checker.OnChange(change); });
  }

  [[nodiscard]] static std::string KeyOf(const InstanceRecord& record,
                                         const ShardId& shard = ShardA()) {
    return InstanceRecordKey(shard, {.tenant = record.tenant, .instance_id = record.instance_id})
        .text();
  }
  void Write(const std::string& process, const InstanceRecord& record,
             const ShardId& shard = ShardA()) {
    Put(process, KeyOf(record, shard), EncodeInstanceRecord(record));
  }
  // The shard's journal, as the next write of its holder has it. Fields may be set before.
  void Commit(const std::string& process, std::vector<Intent> intents) {
    ++journal.seq;
    journal.holder = process;
    journal.write_id = fmt::format("write-{}", journal.seq);
    for (Intent& intent : intents) {
      if (intent.id.empty()) {
        intent.id = fmt::format("{}-{}-{}", journal.epoch, journal.seq, ++intents_made);
      }
      if (intent.epoch == 0) intent.epoch = journal.epoch;
    }
    journal.intents = std::move(intents);
    PutJournal(process);
  }
  void PutJournal(const std::string& process) {
    Put(process, "journal/" + journal.shard.text() + ".json", EncodeJournal(journal));
  }

  // --- The cloud ---

  void Vm(const SimVmChange& change) {
    Each([&](Checker& checker) { checker.OnVm(change); });
  }
  // A VM of an instance, as a server's request makes it.
  [[nodiscard]] SimVm VmOf(const InstanceRecord& record, std::string provider_id) const {
    SimVm vm;
    vm.provider_id = provider_id;
    vm.process = "a1#1";
    vm.created = now();
    vm.shown = {.instance_id = record.instance_id,
                .shown_id = record.instance_id.text(),
                .provider_instance_id = std::move(provider_id),
                .status = ProviderStatus::kPending,
                .managed = true,
                .cluster_id = SimCluster().text(),
                .shard = ShardA().text(),
                .tenant = record.tenant.text(),
                .group = record.group.text()};
    return vm;
  }
  void Created(const SimVm& vm, std::int64_t epoch = 1) {
    Vm({.at = now(),
        .process = "a1#1",
        .epoch = epoch,
        .method = SimProviderMethod::kCreate,
        .vm = &vm,
        .after = ProviderStatus::kPending});
  }
  void Deleted(const SimVm& vm, std::int64_t epoch = 1) {
    Vm({.at = now(),
        .process = "a1#1",
        .epoch = epoch,
        .method = SimProviderMethod::kDelete,
        .vm = &vm,
        .before = ProviderStatus::kRunning,
        .after = ProviderStatus::kDeleting});
  }

  // --- CheckerWorld ---

  [[nodiscard]] Instant now() const override { return scheduler.now(); }
  [[nodiscard]] Timestamp wall() const override {
    return WorldStart() + scheduler.now().since_zero();
  }
  [[nodiscard]] const Setting& setting() const override { return settings; }
  [[nodiscard]] const Truth& truth() const override { return truth_now; }
  [[nodiscard]] const SimBucket& bucket() const override { return real_bucket; }
  [[nodiscard]] const SimCloud& cloud() const override { return real_cloud; }
  [[nodiscard]] bool calm() const override { return calm_from.has_value(); }
  [[nodiscard]] Instant calm_since() const override { return calm_from.value(); }
  [[nodiscard]] std::vector<ServerStanding> Servers() const override { return servers; }
  [[nodiscard]] std::map<std::pair<TenantId, GroupKey>, int> DesiredSizes(
      const ShardId& shard) const override {
    return shard == ShardA() ? desired : decltype(desired)();
  }
  [[nodiscard]] bool AgentUnharmed(const InstanceId& id) const override {
    return unharmed.contains(id);
  }
  [[nodiscard]] bool AgentServing(const InstanceId& id) const override {
    return serving.contains(id);
  }
  [[nodiscard]] bool AgentServed(const InstanceId& id) const override {
    return served.contains(id);
  }
  [[nodiscard]] std::vector<AgentStanding> AgentStandings() const override { return agents; }
  [[nodiscard]] std::optional<std::vector<std::string>> KeysOnDisk(
      const InstanceId& id) const override {
    const auto at = keys_on_disk.find(id);
    return at == keys_on_disk.end() ? std::nullopt : std::optional(at->second);
  }
  [[nodiscard]] std::optional<std::vector<std::string>> SerialsBeside(
      const InstanceId& /*id*/, const std::string& public_key_pem) const override {
    const auto at = serials_beside.find(public_key_pem);
    return at == serials_beside.end() ? std::nullopt : std::optional(at->second);
  }
  [[nodiscard]] bool AgentCloned(const InstanceId& id) const override {
    return cloned.contains(id);
  }
  [[nodiscard]] Instant SoundSince(const std::string& process) const override {
    const auto at = sound_since.find(process);
    return at == sound_since.end() ? Instant::Never() : at->second;
  }
  [[nodiscard]] Instant ProviderSoundSince(const std::string& process) const override {
    const auto at = provider_sound_since.find(process);
    return at == provider_sound_since.end() ? Instant::Never() : at->second;
  }
  [[nodiscard]] const SimCacheDisk* CacheOf(const std::string& process) const override {
    const auto at = caches.find(process);
    return at == caches.end() ? nullptr : &at->second;
  }
  [[nodiscard]] Instant RatesTrueSince() const override { return rates_true_since; }
  [[nodiscard]] Instant WallsTrueSince() const override { return walls_true_since; }
  [[nodiscard]] bool InCore(const ShardId& shard) const override { return !lost.contains(shard); }
  [[nodiscard]] bool Healed() const override { return lost.empty(); }
  void Violated(std::string_view invariant, std::string what) override {
    violations.push_back(fmt::format("{}: {}", invariant, what));
  }
  void Note(std::string_view /*who*/, std::string /*what*/) override {}

  SimScheduler scheduler{1};
  SimBucket real_bucket{scheduler, {}};
  SimCloud real_cloud{scheduler, {}};
  Setting settings;
  Truth truth_now;
  std::map<std::string, std::unique_ptr<Object>> objects;
  Journal journal = {.cluster = SimCluster(),
                     .shard = ShardA(),
                     .epoch = 1,
                     .write_id = {},
                     .holder = {},
                     .updated_at = {},
                     .intents = {}};
  int intents_made = 0;
  std::vector<ServerStanding> servers;
  std::map<std::pair<TenantId, GroupKey>, int> desired;
  std::optional<Instant> calm_from;
  std::set<InstanceId> unharmed;
  std::set<InstanceId> serving;
  std::set<InstanceId> served;
  std::vector<AgentStanding> agents;
  std::map<InstanceId, std::vector<std::string>> keys_on_disk;
  std::map<std::string, std::vector<std::string>> serials_beside;  // By public key.
  std::set<InstanceId> cloned;
  std::map<std::string, Instant> sound_since;
  std::map<std::string, Instant> provider_sound_since;
  std::map<std::string, SimCacheDisk> caches;
  Instant rates_true_since;
  Instant walls_true_since;
  std::set<ShardId> lost;
  Violations violations;
  std::vector<std::unique_ptr<Checker>> checkers;
};

}  // namespace nstance::sim
