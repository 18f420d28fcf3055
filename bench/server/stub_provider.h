// StubProvider: a provider of VMs in memory for benchmarks: constant latency, no faults, everything
// runs at once. It keeps little per VM, since its memory is counted with the server's.
//
// Effects happen with the call and answers come `latency` later on the loop, so a dropped answer
// does not drop its effect. Fault-free by design: what the server does under faults is the business
// of src/sim, which runs on virtual time only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "ports/loop.h"
#include "ports/provider.h"

namespace nstance::bench {

class StubProvider final : public Provider {
 public:
  // Runs for every new VM, with what the agent on it would be given.
  using OnCreate = std::function<void(const ProviderCreate& request)>;

  StubProvider(Loop& loop, Duration latency, OnCreate on_create)
      : loop_(loop), latency_(latency), on_create_(std::move(on_create)) {}

  [[nodiscard]] const ProviderCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] Pending Create(ProviderCall call, ProviderCreate request,
                               Done<ProviderInstance> done) override;
  [[nodiscard]] Pending Delete(ProviderCall call, ProviderTarget target,
                               Done<ProviderDeleted> done) override;
  [[nodiscard]] Pending Get(ProviderCall call, ProviderTarget target,
                            Done<ProviderInstance> done) override;
  [[nodiscard]] Pending List(ProviderCall call, ProviderListRequest request,
                             Done<ProviderPage> done) override;
  [[nodiscard]] Pending Start(ProviderCall call, ProviderTarget target,
                              Done<ProviderPowered> done) override;
  [[nodiscard]] Pending Stop(ProviderCall call, ProviderTarget target,
                             Done<ProviderPowered> done) override;
  [[nodiscard]] Pending InstanceTypeArch(ProviderCall call, std::string instance_type,
                                         Done<std::optional<config::Arch>> done) override;
  [[nodiscard]] Pending SubnetCapacity(ProviderCall call, std::string subnet,
                                       Done<std::optional<std::uint64_t>> done) override;
  [[nodiscard]] Pending AssignLeaderNetwork(ProviderCall call, config::LeaderNetwork network,
                                            Done<void> done) override;
  [[nodiscard]] Pending ReleaseLeaderNetwork(ProviderCall call, config::LeaderNetwork network,
                                             Done<void> done) override;
  [[nodiscard]] Pending Watch(OnChange on_change) override;

 private:
  struct Vm {
    TenantId tenant;
    std::string group;
  };

  [[nodiscard]] static ProviderInstance Shown(const InstanceId& id, const Vm& vm);
  template <class T>
  [[nodiscard]] Pending Answer(Done<T> done, ProviderResult<T> result);

  Loop& loop_;
  Duration latency_;
  OnCreate on_create_;
  ProviderCapabilities capabilities_ = {.kind = config::ProviderKind::kLocal,
                                        .max_create_time = Duration::Seconds(60)};
  std::map<InstanceId, Vm> vms_;
};

}  // namespace nstance::bench
