// See convert.h. Fields in the order of their numbers.
#include <utility>

#include "adapters/rpc_codec/convert.h"
#include "adapters/rpc_codec/convert_parts.h"
#include "base/overloaded.h"
#include "nstance/v1/operator.pb.h"

namespace nstance::rpc_codec {
void Read(const v1::ConfigStatusResponse& in, api::ConfigStatusResponse& out,
          ReadContext& /*context*/) {
  out.etag = in.etag();
  if (in.has_last_modified()) out.last_modified = ReadTime(in.last_modified());
  out.size = in.size();
}

void Write(const api::ConfigStatusResponse& in, v1::ConfigStatusResponse& out,
           WriteContext& context) {
  out.set_etag(context.Clean(in.etag));
  if (in.last_modified) WriteTime(*in.last_modified, *out.mutable_last_modified());
  out.set_size(in.size);
}

void Read(const v1::RefreshConfigResponse& in, api::RefreshConfigResponse& out,
          ReadContext& /*context*/) {
  out.updated = in.updated();
  out.prev_etag = in.prev_etag();
  out.etag = in.etag();
}

void Write(const api::RefreshConfigResponse& in, v1::RefreshConfigResponse& out,
           WriteContext& context) {
  out.set_updated(in.updated);
  out.set_prev_etag(context.Clean(in.prev_etag));
  out.set_etag(context.Clean(in.etag));
}

void Read(const v1::OperatorFence& in, api::OperatorFence& out, ReadContext& /*context*/) {
  out.lease_uid = in.lease_uid();
  out.transitions = in.transitions();
}

void Write(const api::OperatorFence& in, v1::OperatorFence& out, WriteContext& context) {
  out.set_lease_uid(context.Clean(in.lease_uid));
  out.set_transitions(in.transitions);
}

void Read(const v1::GroupConfig& in, api::GroupConfig& out, ReadContext& /*context*/) {
  out.template_name = in.template_();
  out.size = in.size();
  out.instance_type = in.instance_type();
  out.subnet_pool = in.subnet_pool();
  for (const auto& [name, value] : in.vars()) out.vars.emplace(name, value);
  for (const auto& [name, value] : in.args()) out.args.emplace(name, value);
  out.draw_from = in.draw_from();
}

void Write(const api::GroupConfig& in, v1::GroupConfig& out, WriteContext& context) {
  out.set_template_(context.Clean(in.template_name));
  out.set_size(in.size);
  out.set_instance_type(context.Clean(in.instance_type));
  out.set_subnet_pool(context.Clean(in.subnet_pool));
  WriteTexts(in.vars, *out.mutable_vars(), context);
  WriteTexts(in.args, *out.mutable_args(), context);
  out.set_draw_from(context.Clean(in.draw_from));
}

void Read(const v1::UpsertGroupRequest& in, api::UpsertGroupRequest& out, ReadContext& context) {
  out.key = in.key();
  if (in.has_config()) Read(in.config(), out.config.emplace(), context);
  out.request_id = in.request_id();
  out.size_unset = in.size_unset();
  out.replace.assign(in.replace().begin(), in.replace().end());
  out.remove_instance_ids.assign(in.remove_instance_ids().begin(), in.remove_instance_ids().end());
  if (in.has_fence()) Read(in.fence(), out.fence.emplace(), context);
}

void Write(const api::UpsertGroupRequest& in, v1::UpsertGroupRequest& out, WriteContext& context) {
  out.set_key(context.Clean(in.key));
  if (in.config) Write(*in.config, *out.mutable_config(), context);
  out.set_request_id(context.Clean(in.request_id));
  out.set_size_unset(in.size_unset);
  for (const auto& item : in.replace) out.add_replace(context.Clean(item));
  for (const auto& item : in.remove_instance_ids) out.add_remove_instance_ids(context.Clean(item));
  if (in.fence) Write(*in.fence, *out.mutable_fence(), context);
}

void Read(const v1::DeleteGroupRequest& in, api::DeleteGroupRequest& out,
          ReadContext& /*context*/) {
  out.key = in.key();
}

void Write(const api::DeleteGroupRequest& in, v1::DeleteGroupRequest& out, WriteContext& context) {
  out.set_key(context.Clean(in.key));
}

void Read(const v1::GroupStatus& in, api::GroupStatus& out, ReadContext& /*context*/) {
  out.key = in.key();
  out.tenant = in.tenant();
  out.template_name = in.template_();
  out.size = in.size();
  out.instance_type = in.instance_type();
  out.subnet_pool = in.subnet_pool();
  for (const auto& [name, value] : in.vars()) out.vars.emplace(name, value);
  out.is_static = in.is_static();
  out.etag = in.etag();
  out.actual_size = in.actual_size();
  out.provider_ids.assign(in.provider_ids().begin(), in.provider_ids().end());
  out.draining = in.draining();
  out.creating = in.creating();
  out.ready = in.ready();
  out.warm = in.warm();
  out.claimed = in.claimed();
  out.instance_ids.assign(in.instance_ids().begin(), in.instance_ids().end());
  out.pool = in.pool();
  out.draw_from = in.draw_from();
  out.warming = in.warming();
}

void Write(const api::GroupStatus& in, v1::GroupStatus& out, WriteContext& context) {
  out.set_key(context.Clean(in.key));
  out.set_tenant(context.Clean(in.tenant));
  out.set_template_(context.Clean(in.template_name));
  out.set_size(in.size);
  out.set_instance_type(context.Clean(in.instance_type));
  out.set_subnet_pool(context.Clean(in.subnet_pool));
  WriteTexts(in.vars, *out.mutable_vars(), context);
  out.set_is_static(in.is_static);
  out.set_etag(context.Clean(in.etag));
  out.set_actual_size(in.actual_size);
  for (const auto& item : in.provider_ids) out.add_provider_ids(context.Clean(item));
  out.set_draining(in.draining);
  out.set_creating(in.creating);
  out.set_ready(in.ready);
  out.set_warm(in.warm);
  out.set_claimed(in.claimed);
  for (const auto& item : in.instance_ids) out.add_instance_ids(context.Clean(item));
  out.set_pool(in.pool);
  out.set_draw_from(context.Clean(in.draw_from));
  out.set_warming(in.warming);
}

void Read(const v1::ListGroupsResponse& in, api::ListGroupsResponse& out, ReadContext& context) {
  for (const auto& item : in.groups()) Read(item, out.groups.emplace_back(), context);
}

void Write(const api::ListGroupsResponse& in, v1::ListGroupsResponse& out, WriteContext& context) {
  for (const auto& item : in.groups) Write(item, *out.add_groups(), context);
}

void Read(const v1::GroupEvent& in, api::GroupEvent& out, ReadContext& context) {
  out.type = v1::GroupEvent::Type_IsValid(in.type()) ? static_cast<api::GroupEventType>(in.type())
                                                     : api::GroupEventType::kUnknown;
  if (in.has_group()) Read(in.group(), out.group.emplace(), context);
}

void Write(const api::GroupEvent& in, v1::GroupEvent& out, WriteContext& context) {
  if (in.type != api::GroupEventType::kUnknown) {
    out.set_type(static_cast<v1::GroupEvent::Type>(in.type));
  }
  if (in.group) Write(*in.group, *out.mutable_group(), context);
}

}  // namespace nstance::rpc_codec
