// CheckersTest: what tests of checkers have in common. Everything is about group default/workers of
// shard a.
#pragma once

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "core/journal.h"
#include "core/lease.h"
#include "sim/checkers/checkers.h"
#include "test/sim/fake_checker_world.h"

namespace nstance::sim {

inline const GroupKey& Workers() {
  static const GroupKey kGroup = GroupKey::Parse("workers").value();
  return kGroup;
}

class CheckersTest : public testing::Test {
 public:
  // Of group default/workers, shard a.
  [[nodiscard]] InstanceRecord Record(int number, InstancePhase phase) const {
    using enum InstancePhase;
    InstanceRecord record = {
        .instance_id = IdOf(number), .tenant = DefaultTenant(), .group = Workers()};
    record.created_at = world.wall();
    record.last_updated = world.wall();
    record.phase = phase;
    record.phase_at = world.wall();
    record.epoch = world.journal.epoch;
    record.seq = world.journal.seq;
    record.write_id = "w";
    if (phase != kCreating && phase != kFailed) {
      record.provider_instance_id = fmt::format("sim-{:06}", number);
    }
    if (phase == kRegistered || phase == kDraining || phase == kDeleting) {
      record.registered_at = world.wall();
      record.public_key_pem = fmt::format("key {}", number);
      record.cert_serial = fmt::format("{}", 1'000 + number);
      record.cert_issued_at = world.wall();
      record.cert_expires_at = world.wall() + Duration::Minutes(20);
      record.generation = 1;
    }
    return record;
  }
  [[nodiscard]] static Intent IntentFor(const InstanceRecord& record, IntentKind kind,
                                        std::string reason = "scale-up") {
    return {.id = {},
            .kind = kind,
            .instance_id = record.instance_id,
            .tenant = record.tenant,
            .group = record.group,
            .opened_at = record.created_at,
            .reason = std::move(reason)};
  }
  // A VM put there by hand, so that the cloud knows it; returns its provider id.
  std::string PutVm(const InstanceRecord& record) {
    ProviderInstance vm = world.VmOf(record, "").shown;
    vm.status = ProviderStatus::kRunning;
    return world.real_cloud.AddByHand(std::move(vm));
  }
  void AtQuiet() {
    world.Each([](Checker& checker) { checker.AtQuiet(); });
  }
  // The file's size of default/workers.
  void Configure(int size) {
    world.Put("", "config/a.jsonc",
              fmt::format(R"({{"groups": {{"default": {{"workers": {{"size": {}}}}}}}}})", size));
  }

  void WriteLease(const std::string& process, const std::string& incarnation, std::int64_t term) {
    world.Put(process, "leader/a.json",
              EncodeLease({.leader_id = process,
                           .leader_addr = "x",
                           .last_updated = world.wall(),
                           .incarnation = incarnation,
                           .term = term,
                           .lease = Duration::Seconds(8),
                           .write_id = "w",
                           .unknown = {}}));
  }

  FakeCheckerWorld world;
};

}  // namespace nstance::sim
