// ObservedProvider: a provider that counts what is asked of another one.
//
//   provider_requests_total{op,code}     create, delete, get, list, start, stop, type_arch,
//   provider_request_seconds{op,code}    subnet_capacity, assign_leader_network,
//                                        release_leader_network; OK, NOT_FOUND, UNAVAILABLE, ...
//
// A call whose answer nobody waits for any more is not counted.
#pragma once

#include <string_view>

#include "base/metrics.h"
#include "ports/loop.h"
#include "ports/provider.h"

namespace nstance {

class ObservedProvider final : public Provider {
 public:
  // All outlive it.
  ObservedProvider(Loop& loop, Provider& provider, metrics::Registry& metrics);

  // The page has its families, also before the first call.
  static void Declare(metrics::Snapshot& page);

  [[nodiscard]] const ProviderCapabilities& capabilities() const override {
    return provider_.capabilities();
  }
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
  template <class T>
  [[nodiscard]] Done<T> Observe(std::string_view op, Done<T> done);
  void Count(std::string_view op, const ProviderError* error, Instant begun);

  Loop& loop_;
  Provider& provider_;
  metrics::Registry& metrics_;
};

}  // namespace nstance
