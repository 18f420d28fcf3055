#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "base/text.h"
#include "server/services/group_status.h"
#include "server/services/operator_service.h"

namespace nstance {
namespace {

constexpr std::size_t kMaxEntries = 128;
constexpr std::size_t kMaxEntryName = 128;
constexpr std::size_t kMaxEntryValue = std::size_t{4} * 1024;
// What ends a line of user data, of an env file or of a C program's string.
constexpr std::string_view kLineEnds("\r\n\0", 3);
constexpr std::size_t kMaxRemoved = 256;
constexpr std::size_t kMaxRequestId = 64;

}  // namespace

Result<GroupUpsert> ToUpsert(const TenantId& tenant, const api::UpsertGroupRequest& request) {
  ASSIGN_OR_RETURN(GroupKey key, ParseGroupKey(request.key));
  RETURN_IF_ERROR(CheckRequestId(request.request_id));
  if (!request.config) return Fail(InvalidArgument("config: is required"));
  const api::GroupConfig& config = *request.config;
  RETURN_IF_ERROR(CheckVars("config.vars", config.vars));
  RETURN_IF_ERROR(CheckStringMap("config.args", config.args));
  if (request.remove_instance_ids.size() > kMaxRemoved) {
    return Fail(InvalidArgument("remove_instance_ids: at most 256 ids"));
  }
  GroupUpsert upsert = {.tenant = tenant,
                        .key = std::move(key),
                        .request = {.template_name = config.template_name,
                                    .instance_type = config.instance_type,
                                    .subnet_pool = config.subnet_pool,
                                    .vars = config.vars,
                                    .args = config.args,
                                    .draw_from = config.draw_from,
                                    .replace = request.replace,
                                    .remove_instance_ids = request.remove_instance_ids},
                        .request_id = request.request_id};
  if (!request.size_unset) upsert.request.size = config.size;
  if (request.fence) {
    upsert.request.fence = config::Fence{.lease_uid = request.fence->lease_uid,
                                         .transitions = request.fence->transitions};
  }
  return upsert;
}

Status CheckRequestId(std::string_view request_id) {
  if (request_id.empty()) return {};
  const bool plain = std::ranges::all_of(request_id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  });
  if (request_id.size() > kMaxRequestId || !plain || request_id.starts_with("draw:")) {
    return Fail(InvalidArgument(
        "request_id: 1 to 64 of the characters A-Z a-z 0-9 . _ : - and not starting with draw:"));
  }
  return {};
}

Status CheckStringMap(std::string_view field, const std::map<std::string, std::string>& map) {
  if (map.size() > kMaxEntries) {
    return Fail(InvalidArgument(fmt::format("{}: at most {} entries", field, kMaxEntries)));
  }
  for (const auto& [name, value] : map) {
    if (name.empty() || name.size() > kMaxEntryName) {
      return Fail(InvalidArgument(fmt::format("{}: names of 1 to {} bytes", field, kMaxEntryName)));
    }
    if (value.size() > kMaxEntryValue) {
      return Fail(InvalidArgument(
          fmt::format("{}.{}: at most {} bytes", field, Quote(name), kMaxEntryValue)));
    }
  }
  return {};
}

Status CheckVars(std::string_view field, const std::map<std::string, std::string>& vars) {
  RETURN_IF_ERROR(CheckStringMap(field, vars));
  for (const auto& [name, value] : vars) {
    if (value.find_first_of(kLineEnds) == std::string::npos) continue;
    return Fail(
        InvalidArgument(fmt::format("{}.{}: one line; no CR, LF or NUL", field, Quote(name))));
  }
  return {};
}

Result<GroupKey> ParseGroupKey(std::string_view text) {
  Result<GroupKey> key = GroupKey::Parse(text);
  if (!key.has_value()) return Fail(InvalidArgument("key: " + key.error().message));
  return key;
}

TypeArchs::Types TypesToLearn(const config::Config& config, const MergedGroup* group,
                              const NamedType& named) {
  config::GroupLayer layer = group == nullptr ? config::GroupLayer{} : group->group.layer;
  if (!named.template_name.empty()) layer.template_name = std::string(named.template_name);
  const config::Template* of = FindTemplate(config, layer);
  if (of == nullptr) return {};
  TypeArchs::Types types = {std::string(named.instance_type)};
  if (named.instance_type.empty()) types = {layer.instance_type, of->instance_type};
  std::erase_if(types, [of](const std::string& type) { return !CheckInstanceType(*of, type); });
  return types;
}

TypeArchs::Types TypesOf(const GroupsSnapshot& groups, const GroupUpsert& upsert) {
  const UpsertRequest& request = upsert.request;
  const bool replaced =
      std::ranges::find(request.replace, "instance_type") != request.replace.end();
  if (request.template_name.empty() && request.instance_type.empty() && !replaced) return {};
  return TypesToLearn(
      groups.config->config, groups.Find(upsert.tenant, upsert.key),
      {.template_name = request.template_name, .instance_type = request.instance_type});
}

void OperatorService::WhenKnown(const TypeArchs::Types& types, Task then) {
  if (context_.types.Settled(types)) return then();
  const std::uint64_t number = next_learning_++;
  learning_[number] = context_.types.Learn(types, [this, number, then = std::move(then)]() mutable {
    learning_.erase(number);
    then();
  });
}

void OperatorService::ListGroups(Call call) {
  calls_.Serve(api::kListGroups, std::move(call),
               [this](const api::Empty&, const RpcCallInfo& info,
                      const Reply<api::ListGroupsResponse>& reply) {
                 const TenantId& tenant = info.peer.identity->tenant;
                 api::ListGroupsResponse answer;
                 const GroupsRef groups = context_.groups.groups();
                 if (const auto at = groups->groups.find(tenant); at != groups->groups.end()) {
                   for (const auto& [key, group] : at->second) {
                     answer.groups.push_back(GroupStatusOf(context_.fleet, tenant, key, *group));
                   }
                 }
                 reply(std::move(answer));
               });
}

void OperatorService::UpsertGroup(Call call) {
  calls_.Serve(
      api::kUpsertGroup, std::move(call),
      [this](const api::UpsertGroupRequest& request, const RpcCallInfo& info,
             const Reply<api::GroupStatus>& reply) {
        AtStep(Step::kG1);
        Result<GroupUpsert> upsert = ToUpsert(info.peer.identity->tenant, request);
        if (!upsert.has_value()) {
          return reply(Fail(BadInput(context_, "upsert_group", std::move(upsert).error())));
        }
        const TypeArchs::Types types = TypesOf(*context_.groups.groups(), *upsert);
        WhenKnown(types, [this, upsert = std::move(upsert).value(), reply]() mutable {
          Submit(std::move(upsert), reply);
        });
      });
}

void OperatorService::Submit(GroupUpsert upsert, const Reply<api::GroupStatus>& reply) {
  const TenantId tenant = upsert.tenant;
  const GroupKey key = upsert.key;
  context_.groups.Upsert(std::move(upsert), [this, tenant, key, reply](Result<GroupAnswer> answer) {
    AtStep(Step::kG8);
    if (!answer.has_value()) {
      return reply(Fail(Refused(context_, "upsert_group", std::move(answer).error())));
    }
    const MergedGroup* group = answer->groups->Find(tenant, key);
    if (group == nullptr) return reply(Fail(Aborted("the group was deleted meanwhile")));
    reply(GroupStatusOf(context_.fleet, tenant, key, *group));
  });
}

void OperatorService::DeleteGroup(Call call) {
  calls_.Serve(api::kDeleteGroup, std::move(call),
               [this](const api::DeleteGroupRequest& request, const RpcCallInfo& info,
                      const Reply<api::Empty>& reply) {
                 AtStep(Step::kG1);
                 Result<GroupKey> key = ParseGroupKey(request.key);
                 if (!key.has_value()) {
                   return reply(Fail(BadInput(context_, "group_key", std::move(key).error())));
                 }
                 context_.groups.Delete(
                     {.tenant = info.peer.identity->tenant, .key = std::move(key).value()},
                     [reply](const Result<GroupAnswer>& answer) {
                       AtStep(Step::kG8);
                       if (!answer.has_value()) return reply(Fail(answer.error()));
                       reply(api::Empty{});
                     });
               });
}

}  // namespace nstance
