// OperatorService: what operators and nstance-admin ask of a shard (wire.md 5), but for watches and
// renewal. The tenant of every call is the one of its certificate; what belongs to another tenant
// is answered exactly like what does not exist.
//
//   operator_config.cc      GetConfigStatus, RefreshConfig
//   operator_groups.cc      ListGroups, UpsertGroup, DeleteGroup
//   operator_instances.cc   CreateInstance, DeleteInstance, GetInstanceStatus, ListInstances,
//                           AcknowledgeDrained
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "server/services/service_context.h"
#include "server/services/unary_calls.h"

namespace nstance {

class OperatorService final {
 public:
  explicit OperatorService(ServiceContext& context) : context_(context) {}
  OperatorService(const OperatorService&) = delete;
  OperatorService& operator=(const OperatorService&) = delete;

  using Call = std::unique_ptr<RpcServerCall>;
  void GetConfigStatus(Call call);
  void RefreshConfig(Call call);
  void ListGroups(Call call);
  void UpsertGroup(Call call);
  void DeleteGroup(Call call);
  void CreateInstance(Call call);
  void DeleteInstance(Call call);
  void GetInstanceStatus(Call call);
  void ListInstances(Call call);
  void AcknowledgeDrained(Call call);

 private:
  [[nodiscard]] api::Instance Detail(const Instance& instance) const;
  [[nodiscard]] Result<api::ListInstancesResponse> List(const TenantId& tenant,
                                                        const api::ListInstancesRequest& request);

  void OnReload(const Result<ConfigSource::Reload>& reload,
                const Reply<api::RefreshConfigResponse>& reply);

  ServiceContext& context_;
  UnaryCalls calls_;
  std::deque<Pending> refreshes_;
};

// --- Rules for what callers send (wire.md 1.1), each kInvalidArgument with the field and the rule.

// What the fleet or the groups have answered; counted as BadInput() where the request is to blame.
[[nodiscard]] Error Refused(const ServiceContext& context, std::string_view reason, Error error);

[[nodiscard]] Status CheckRequestId(std::string_view request_id);
// `vars` or `args`: 128 entries, names of 128 bytes, values of 4 KiB.
[[nodiscard]] Status CheckStringMap(std::string_view field,
                                    const std::map<std::string, std::string>& map);
[[nodiscard]] Result<GroupKey> ParseGroupKey(std::string_view text);

}  // namespace nstance
