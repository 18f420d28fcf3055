#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "server/services/operator_service.h"

namespace nstance {
namespace {

constexpr std::int32_t kDefaultPage = 100;
constexpr std::int32_t kMaxPage = 1'000;

Result<OnDemandRequest> ToOnDemand(const TenantId& tenant,
                                   const api::CreateInstanceRequest& request) {
  if (!request.config) return Fail(InvalidArgument("config: is required"));
  if (request.config->group.empty()) return Fail(InvalidArgument("config.group: is required"));
  ASSIGN_OR_RETURN(GroupKey group, ParseGroupKey(request.config->group));
  RETURN_IF_ERROR(CheckRequestId(request.request_id));
  RETURN_IF_ERROR(CheckVars("config.vars", request.config->vars));
  OnDemandRequest out = {.tenant = tenant,
                         .group = std::move(group),
                         .request_id = request.request_id,
                         .overlay = {.template_name = request.config->template_name,
                                     .instance_type = request.config->instance_type,
                                     .subnet_pool = request.config->subnet_pool,
                                     .vars = request.config->vars}};
  if (!request.instance_id.empty()) {
    ASSIGN_OR_RETURN(out.instance_id, ParseInstanceId(request.instance_id));
  }
  return out;
}

}  // namespace

Result<InstanceId> ParseInstanceId(std::string_view text) {
  if (text.empty()) return Fail(InvalidArgument("instance_id: is required"));
  Result<InstanceId> id = ParsePuidv7(text);
  if (!id.has_value()) return Fail(InvalidArgument("instance_id: " + id.error().message));
  return id;
}

api::Instance OperatorService::Detail(const Instance& instance) const {
  api::Instance out = {.instance_id = instance.id.text(),
                       .tenant = instance.tenant.text(),
                       .group = instance.group.text(),
                       .phase = ApiPhase(instance.phase()),
                       .status = std::string(context_.fleet.StatusWord(instance)),
                       .on_demand = instance.on_demand};
  out.drifted = context_.fleet.Drifted(instance);
  if (instance.health.registered_at) {
    out.health = std::string(fleet::Word(context_.fleet.Health(instance)));
  }
  if (instance.report) {
    out.last_seen = instance.report->at;
    out.agent_version = instance.report->agent_version;
  }
  const InstanceRecord* record = instance.record();
  if (record == nullptr) return out;
  out.provider_instance_id = record->provider_instance_id;
  out.instance_type = record->instance_type;
  out.subnet_id = record->subnet_id;
  out.private_ipv4 = record->private_ipv4;
  out.private_ipv6 = record->private_ipv6;
  out.hostname = record->hostname;
  out.created_at = record->created_at;
  out.registered_at = record->registered_at;
  out.cert_expires_at = record->cert_expires_at;
  out.pool = record->pool;
  if (record->deletion) {
    out.reason = record->deletion->reason;
  } else if (record->drain) {
    out.reason = record->drain->reason;
    out.delete_at = record->drain->delete_at;
  } else if (record->failure) {
    out.reason = record->failure->message;
  }
  if (record->claim) {
    out.claim_request_id = record->claim->request_id;
    out.claimed_at = record->claim->claimed_at;
  }
  return out;
}

void OperatorService::CreateInstance(Call call) {
  calls_.Serve(
      api::kCreateInstance, std::move(call),
      [this](const api::CreateInstanceRequest& request, const RpcCallInfo& info,
             const Reply<api::CreateInstanceResponse>& reply) {
        Result<OnDemandRequest> order = ToOnDemand(info.peer.identity->tenant, request);
        if (!order.has_value()) {
          return reply(Fail(BadInput(context_, "create_instance", std::move(order).error())));
        }
        const GroupsSnapshot& groups = *context_.fleet.groups();
        const TypeArchs::Types types =
            TypesToLearn(groups.config->config, groups.Find(order->tenant, order->group),
                         {.template_name = order->overlay.template_name,
                          .instance_type = order->overlay.instance_type});
        WhenKnown(types, [this, order = std::move(order).value(), reply]() mutable {
          context_.fleet.CreateOnDemand(
              std::move(order), [this, reply](Result<api::CreateInstanceResponse> answer) {
                if (!answer.has_value()) {
                  answer = Fail(Refused(context_, "create_instance", std::move(answer).error()));
                }
                reply(std::move(answer));
              });
        });
      });
}

void OperatorService::DeleteInstance(Call call) {
  calls_.Serve(
      api::kDeleteInstance, std::move(call),
      [this](const api::DeleteInstanceRequest& request, const RpcCallInfo& info,
             const Reply<api::DeleteInstanceResponse>& reply) {
        Result<InstanceId> id = ParseInstanceId(request.instance_id);
        if (!id.has_value()) return reply(Fail(BadInput(context_, "instance_id", id.error())));
        if (request.drain_timeout && *request.drain_timeout < Duration()) {
          return reply(Fail(BadInput(context_, "drain_timeout",
                                     InvalidArgument("drain_timeout: must not be negative"))));
        }
        context_.fleet.Delete({.tenant = info.peer.identity->tenant,
                               .instance_id = std::move(id).value(),
                               .drain = request.drain,
                               .drain_timeout = request.drain_timeout},
                              [reply](Result<std::string> status) {
                                if (!status.has_value()) {
                                  return reply(Fail(std::move(status).error()));
                                }
                                reply(api::DeleteInstanceResponse{.status = *status});
                              });
      });
}

void OperatorService::GetInstanceStatus(Call call) {
  calls_.Serve(
      api::kGetInstanceStatus, std::move(call),
      [this](const api::GetInstanceStatusRequest& request, const RpcCallInfo& info,
             const Reply<api::InstanceStatusResponse>& reply) {
        const Result<InstanceId> id = ParseInstanceId(request.instance_id);
        if (!id.has_value()) return reply(Fail(BadInput(context_, "instance_id", id.error())));
        const Instance* instance = context_.fleet.Find(info.peer.identity->tenant, *id);
        if (instance == nullptr) return reply(Fail(NoSuchInstance()));
        api::Instance detail = Detail(*instance);
        reply(api::InstanceStatusResponse{.instance_id = detail.instance_id,
                                          .tenant = detail.tenant,
                                          .status = detail.status,
                                          .created_at = detail.created_at,
                                          .last_seen = detail.last_seen,
                                          .provider_instance_id = detail.provider_instance_id,
                                          .instance = detail});
      });
}

// Ordered by id; the token is the last id of the page before, so it survives a change of leader.
Result<api::ListInstancesResponse> OperatorService::List(const TenantId& tenant,
                                                         const api::ListInstancesRequest& request) {
  if (request.page_size < 0 || request.page_size > kMaxPage) {
    return Fail(InvalidArgument(fmt::format("page_size: 0 to {}", kMaxPage)));
  }
  const auto page =
      static_cast<std::size_t>(request.page_size == 0 ? kDefaultPage : request.page_size);
  std::optional<InstanceId> after;
  if (!request.page_token.empty()) {
    Result<InstanceId> token = ParsePuidv7(request.page_token);
    if (!token.has_value()) return Fail(InvalidArgument("page_token: is not one of ours"));
    after = std::move(token).value();
  }
  api::ListInstancesResponse out;
  for (const Instance* instance : context_.fleet.OfTenant(tenant)) {
    if (after && instance->id <= *after) continue;
    if (!request.group.empty() && instance->group.text() != request.group) continue;
    const api::InstancePhase phase = ApiPhase(instance->phase());
    const bool wanted = request.phases.empty()
                            ? phase != api::InstancePhase::kGone
                            : std::ranges::find(request.phases, phase) != request.phases.end();
    if (!wanted) continue;
    if (out.instances.size() == page) {
      out.next_page_token = out.instances.back().instance_id;
      break;
    }
    out.instances.push_back(Detail(*instance));
  }
  return out;
}

void OperatorService::ListInstances(Call call) {
  calls_.Serve(api::kListInstances, std::move(call),
               [this](const api::ListInstancesRequest& request, const RpcCallInfo& info,
                      const Reply<api::ListInstancesResponse>& reply) {
                 Result<api::ListInstancesResponse> page =
                     List(info.peer.identity->tenant, request);
                 if (page.has_value()) return reply(std::move(page));
                 reply(Fail(BadInput(context_, "list_instances", std::move(page).error())));
               });
}

void OperatorService::AcknowledgeDrained(Call call) {
  calls_.Serve(api::kAcknowledgeDrained, std::move(call),
               [this](const api::DrainAckRequest& request, const RpcCallInfo& info,
                      const Reply<api::Empty>& reply) {
                 Result<InstanceId> id = ParseInstanceId(request.instance_id);
                 if (!id.has_value())
                   return reply(Fail(BadInput(context_, "instance_id", id.error())));
                 context_.fleet.Acknowledge(
                     {.tenant = info.peer.identity->tenant,
                      .instance_id = std::move(id).value(),
                      .drain_id = request.drain_id},
                     [this, reply](const Status& status) {
                       if (!status.has_value()) {
                         return reply(Fail(Refused(context_, "drain_ack", status.error())));
                       }
                       reply(api::Empty{});
                     });
               });
}

}  // namespace nstance
