#include "bench/server/stub_provider.h"

#include "bench/server/bench_config.h"

namespace nstance::bench {
namespace {

ProviderError NotOffered() {
  return {.error = {.code = Code::kUnimplemented, .message = "not offered"},
          .reason = ProviderReason::kInvalid};
}

}  // namespace

template <class T>
Pending StubProvider::Answer(Done<T> done, ProviderResult<T> result) {
  return loop_.CallAfter(latency_, [done = std::move(done), result = std::move(result)]() mutable {
    done(std::move(result));
  });
}

ProviderInstance StubProvider::Shown(const InstanceId& id, const Vm& vm) {
  return {.instance_id = id,
          .shown_id = id.text(),
          .provider_instance_id = "vm-" + id.text(),
          .status = ProviderStatus::kRunning,
          .private_ipv4 = "127.0.0.1",
          .managed = true,
          .cluster_id = kBenchCluster,
          .shard = kBenchShard,
          .tenant = vm.tenant.text(),
          .group = vm.group};
}

Pending StubProvider::Create(ProviderCall /*call*/, ProviderCreate request,
                             Done<ProviderInstance> done) {
  const auto [at, fresh] =
      vms_.try_emplace(request.instance_id, Vm{.tenant = request.tenant, .group = request.group});
  if (fresh) on_create_(request);
  return Answer<ProviderInstance>(std::move(done), Shown(at->first, at->second));
}

Pending StubProvider::Delete(ProviderCall /*call*/, ProviderTarget target,
                             Done<ProviderDeleted> done) {
  const bool gone = vms_.erase(target.instance_id) == 0;
  return Answer<ProviderDeleted>(std::move(done),
                                 gone ? ProviderDeleted::kAlreadyGone : ProviderDeleted::kDone);
}

Pending StubProvider::Get(ProviderCall /*call*/, ProviderTarget target,
                          Done<ProviderInstance> done) {
  const auto at = vms_.find(target.instance_id);
  if (at != vms_.end()) {
    return Answer<ProviderInstance>(std::move(done), Shown(at->first, at->second));
  }
  return Answer<ProviderInstance>(
      std::move(done),
      std::unexpected(ProviderError{.error = {.code = Code::kNotFound, .message = "no such VM"}}));
}

// Pages go on after the id that the page before ended with.
Pending StubProvider::List(ProviderCall /*call*/, ProviderListRequest request,
                           Done<ProviderPage> done) {
  ProviderPage page;
  auto at = vms_.begin();
  if (const auto last = ParsePuidv7(request.page_token)) at = vms_.upper_bound(*last);
  for (; at != vms_.end() && page.instances.size() < request.page_size; ++at) {
    page.instances.push_back(Shown(at->first, at->second));
  }
  if (at != vms_.end()) page.next_page_token = page.instances.back().shown_id;
  return Answer<ProviderPage>(std::move(done), std::move(page));
}

Pending StubProvider::Start(ProviderCall /*call*/, ProviderTarget /*target*/,
                            Done<ProviderPowered> done) {
  return Answer<ProviderPowered>(std::move(done), std::unexpected(NotOffered()));
}

Pending StubProvider::Stop(ProviderCall /*call*/, ProviderTarget /*target*/,
                           Done<ProviderPowered> done) {
  return Answer<ProviderPowered>(std::move(done), std::unexpected(NotOffered()));
}

Pending StubProvider::InstanceTypeArch(ProviderCall /*call*/, std::string /*instance_type*/,
                                       Done<std::optional<config::Arch>> done) {
  return Answer<std::optional<config::Arch>>(std::move(done), std::nullopt);
}

Pending StubProvider::SubnetCapacity(ProviderCall /*call*/, std::string /*subnet*/,
                                     Done<std::optional<std::uint64_t>> done) {
  return Answer<std::optional<std::uint64_t>>(std::move(done), std::nullopt);
}

Pending StubProvider::AssignLeaderNetwork(ProviderCall /*call*/, config::LeaderNetwork /*network*/,
                                          Done<void> done) {
  return Answer<void>(std::move(done), std::unexpected(NotOffered()));
}

Pending StubProvider::ReleaseLeaderNetwork(ProviderCall /*call*/, config::LeaderNetwork /*network*/,
                                           Done<void> done) {
  return Answer<void>(std::move(done), std::unexpected(NotOffered()));
}

Pending StubProvider::Watch(OnChange /*on_change*/) { return {}; }

}  // namespace nstance::bench
