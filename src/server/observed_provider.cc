#include "server/observed_provider.h"

#include <array>
#include <utility>

#include "base/metric_families.h"

namespace nstance {
namespace {

const metrics::Family& Requests() {
  static const metrics::Family kFamily = {.name = "provider_requests_total",
                                          .help = "Requests to the provider.",
                                          .labels = {"op", "code"},
                                          .buckets = {}};
  return kFamily;
}

const metrics::Family& Seconds() {
  static const metrics::Family kFamily = {
      .name = "provider_request_seconds",
      .help = "Time until the provider answered.",
      .labels = {"op", "code"},
      .buckets = {0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300}};
  return kFamily;
}

}  // namespace

ObservedProvider::ObservedProvider(Loop& loop, Provider& provider, metrics::Registry& metrics)
    : loop_(loop), provider_(provider), metrics_(metrics) {}

void ObservedProvider::Declare(metrics::Snapshot& page) {
  nstance::Declare(page, Requests(), metrics::Kind::kCounter);
  nstance::Declare(page, Seconds(), metrics::Kind::kHistogram);
}

void ObservedProvider::Count(std::string_view op, const ProviderError* error, Instant begun) {
  const std::array labels = {op, error == nullptr ? "OK" : CodeName(error->error.code)};
  metrics_.Counter(Requests(), labels).Add();
  metrics_.Histogram(Seconds(), labels).Observe(InSeconds(loop_.Now() - begun));
}

template <class T>
Provider::Done<T> ObservedProvider::Observe(std::string_view op, Done<T> done) {
  return [this, op, begun = loop_.Now(), done = std::move(done)](ProviderResult<T> answer) mutable {
    Count(op, answer.has_value() ? nullptr : &answer.error(), begun);
    done(std::move(answer));
  };
}

Pending ObservedProvider::Create(ProviderCall call, ProviderCreate request,
                                 Done<ProviderInstance> done) {
  return provider_.Create(std::move(call), std::move(request),
                          Observe<ProviderInstance>("create", std::move(done)));
}

Pending ObservedProvider::Delete(ProviderCall call, ProviderTarget target,
                                 Done<ProviderDeleted> done) {
  return provider_.Delete(std::move(call), std::move(target),
                          Observe<ProviderDeleted>("delete", std::move(done)));
}

Pending ObservedProvider::Get(ProviderCall call, ProviderTarget target,
                              Done<ProviderInstance> done) {
  return provider_.Get(std::move(call), std::move(target),
                       Observe<ProviderInstance>("get", std::move(done)));
}

Pending ObservedProvider::List(ProviderCall call, ProviderListRequest request,
                               Done<ProviderPage> done) {
  return provider_.List(std::move(call), std::move(request),
                        Observe<ProviderPage>("list", std::move(done)));
}

Pending ObservedProvider::Start(ProviderCall call, ProviderTarget target,
                                Done<ProviderPowered> done) {
  return provider_.Start(std::move(call), std::move(target),
                         Observe<ProviderPowered>("start", std::move(done)));
}

Pending ObservedProvider::Stop(ProviderCall call, ProviderTarget target,
                               Done<ProviderPowered> done) {
  return provider_.Stop(std::move(call), std::move(target),
                        Observe<ProviderPowered>("stop", std::move(done)));
}

Pending ObservedProvider::InstanceTypeArch(ProviderCall call, std::string instance_type,
                                           Done<std::optional<config::Arch>> done) {
  return provider_.InstanceTypeArch(
      std::move(call), std::move(instance_type),
      Observe<std::optional<config::Arch>>("type_arch", std::move(done)));
}

Pending ObservedProvider::SubnetCapacity(ProviderCall call, std::string subnet,
                                         Done<std::optional<std::uint64_t>> done) {
  return provider_.SubnetCapacity(
      std::move(call), std::move(subnet),
      Observe<std::optional<std::uint64_t>>("subnet_capacity", std::move(done)));
}

Pending ObservedProvider::AssignLeaderNetwork(ProviderCall call, config::LeaderNetwork network,
                                              Done<void> done) {
  return provider_.AssignLeaderNetwork(std::move(call), std::move(network),
                                       Observe<void>("assign_leader_network", std::move(done)));
}

Pending ObservedProvider::ReleaseLeaderNetwork(ProviderCall call, config::LeaderNetwork network,
                                               Done<void> done) {
  return provider_.ReleaseLeaderNetwork(std::move(call), std::move(network),
                                        Observe<void>("release_leader_network", std::move(done)));
}

Pending ObservedProvider::Watch(OnChange on_change) {
  return provider_.Watch(std::move(on_change));
}

}  // namespace nstance
