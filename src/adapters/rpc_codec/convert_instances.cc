// See convert.h. Fields in the order of their numbers.
#include <utility>

#include "adapters/rpc_codec/convert.h"
#include "adapters/rpc_codec/convert_parts.h"
#include "base/overloaded.h"
#include "nstance/v1/operator.pb.h"

namespace nstance::rpc_codec {

api::InstancePhase ReadPhase(int in) {
  if (!v1::InstancePhase_IsValid(in)) return api::InstancePhase::kUnknown;
  return static_cast<api::InstancePhase>(in);
}

v1::InstancePhase WritePhase(api::InstancePhase in) {
  if (in == api::InstancePhase::kUnknown) return v1::INSTANCE_PHASE_UNSPECIFIED;
  return static_cast<v1::InstancePhase>(in);
}

void Read(const v1::InstanceConfig& in, api::InstanceConfig& out, ReadContext& /*context*/) {
  out.group = in.group();
  out.template_name = in.template_();
  out.instance_type = in.instance_type();
  out.subnet_pool = in.subnet_pool();
  for (const auto& [name, value] : in.vars()) out.vars.emplace(name, value);
}

void Write(const api::InstanceConfig& in, v1::InstanceConfig& out, WriteContext& context) {
  out.set_group(context.Clean(in.group));
  out.set_template_(context.Clean(in.template_name));
  out.set_instance_type(context.Clean(in.instance_type));
  out.set_subnet_pool(context.Clean(in.subnet_pool));
  WriteTexts(in.vars, *out.mutable_vars(), context);
}

void Read(const v1::CreateInstanceRequest& in, api::CreateInstanceRequest& out,
          ReadContext& context) {
  out.instance_id = in.instance_id();
  if (in.has_config()) Read(in.config(), out.config.emplace(), context);
  out.request_id = in.request_id();
}

void Write(const api::CreateInstanceRequest& in, v1::CreateInstanceRequest& out,
           WriteContext& context) {
  out.set_instance_id(context.Clean(in.instance_id));
  if (in.config) Write(*in.config, *out.mutable_config(), context);
  out.set_request_id(context.Clean(in.request_id));
}

void Read(const v1::CreateInstanceResponse& in, api::CreateInstanceResponse& out,
          ReadContext& /*context*/) {
  out.instance_id = in.instance_id();
  out.status = in.status();
}

void Write(const api::CreateInstanceResponse& in, v1::CreateInstanceResponse& out,
           WriteContext& context) {
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_status(context.Clean(in.status));
}

void Read(const v1::DeleteInstanceRequest& in, api::DeleteInstanceRequest& out,
          ReadContext& context) {
  out.instance_id = in.instance_id();
  out.drain = in.drain();
  if (in.has_drain_timeout()) {
    out.drain_timeout = ReadLength(in.drain_timeout());
    if (!out.drain_timeout) context.Report(BadLength("drain_timeout"));
  }
}

void Write(const api::DeleteInstanceRequest& in, v1::DeleteInstanceRequest& out,
           WriteContext& context) {
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_drain(in.drain);
  if (in.drain_timeout) WriteLength(*in.drain_timeout, *out.mutable_drain_timeout());
}

void Read(const v1::DeleteInstanceResponse& in, api::DeleteInstanceResponse& out,
          ReadContext& /*context*/) {
  out.status = in.status();
}

void Write(const api::DeleteInstanceResponse& in, v1::DeleteInstanceResponse& out,
           WriteContext& context) {
  out.set_status(context.Clean(in.status));
}

void Read(const v1::GetInstanceStatusRequest& in, api::GetInstanceStatusRequest& out,
          ReadContext& /*context*/) {
  out.instance_id = in.instance_id();
}

void Write(const api::GetInstanceStatusRequest& in, v1::GetInstanceStatusRequest& out,
           WriteContext& context) {
  out.set_instance_id(context.Clean(in.instance_id));
}

void Read(const v1::Instance& in, api::Instance& out, ReadContext& /*context*/) {
  out.instance_id = in.instance_id();
  out.tenant = in.tenant();
  out.group = in.group();
  out.phase = ReadPhase(in.phase());
  out.status = in.status();
  out.on_demand = in.on_demand();
  out.provider_instance_id = in.provider_instance_id();
  out.instance_type = in.instance_type();
  out.subnet_id = in.subnet_id();
  out.private_ipv4 = in.private_ipv4();
  out.private_ipv6 = in.private_ipv6();
  out.hostname = in.hostname();
  if (in.has_created_at()) out.created_at = ReadTime(in.created_at());
  if (in.has_registered_at()) out.registered_at = ReadTime(in.registered_at());
  if (in.has_last_seen()) out.last_seen = ReadTime(in.last_seen());
  out.health = in.health();
  out.reason = in.reason();
  if (in.has_delete_at()) out.delete_at = ReadTime(in.delete_at());
  out.drifted = in.drifted();
  out.claim_request_id = in.claim_request_id();
  if (in.has_claimed_at()) out.claimed_at = ReadTime(in.claimed_at());
  if (in.has_cert_expires_at()) out.cert_expires_at = ReadTime(in.cert_expires_at());
  out.agent_version = in.agent_version();
  out.pool = in.pool();
  out.member_state = in.member_state();
}

void Write(const api::Instance& in, v1::Instance& out, WriteContext& context) {
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_tenant(context.Clean(in.tenant));
  out.set_group(context.Clean(in.group));
  out.set_phase(WritePhase(in.phase));
  out.set_status(context.Clean(in.status));
  out.set_on_demand(in.on_demand);
  out.set_provider_instance_id(context.Clean(in.provider_instance_id));
  out.set_instance_type(context.Clean(in.instance_type));
  out.set_subnet_id(context.Clean(in.subnet_id));
  out.set_private_ipv4(context.Clean(in.private_ipv4));
  out.set_private_ipv6(context.Clean(in.private_ipv6));
  out.set_hostname(context.Clean(in.hostname));
  if (in.created_at) WriteTime(*in.created_at, *out.mutable_created_at());
  if (in.registered_at) WriteTime(*in.registered_at, *out.mutable_registered_at());
  if (in.last_seen) WriteTime(*in.last_seen, *out.mutable_last_seen());
  out.set_health(context.Clean(in.health));
  out.set_reason(context.Clean(in.reason));
  if (in.delete_at) WriteTime(*in.delete_at, *out.mutable_delete_at());
  out.set_drifted(in.drifted);
  out.set_claim_request_id(context.Clean(in.claim_request_id));
  if (in.claimed_at) WriteTime(*in.claimed_at, *out.mutable_claimed_at());
  if (in.cert_expires_at) WriteTime(*in.cert_expires_at, *out.mutable_cert_expires_at());
  out.set_agent_version(context.Clean(in.agent_version));
  out.set_pool(context.Clean(in.pool));
  out.set_member_state(context.Clean(in.member_state));
}

void Read(const v1::InstanceStatusResponse& in, api::InstanceStatusResponse& out,
          ReadContext& context) {
  out.instance_id = in.instance_id();
  out.tenant = in.tenant();
  out.status = in.status();
  if (in.has_created_at()) out.created_at = ReadTime(in.created_at());
  if (in.has_last_seen()) out.last_seen = ReadTime(in.last_seen());
  out.provider_instance_id = in.provider_instance_id();
  if (in.has_instance()) Read(in.instance(), out.instance.emplace(), context);
}

void Write(const api::InstanceStatusResponse& in, v1::InstanceStatusResponse& out,
           WriteContext& context) {
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_tenant(context.Clean(in.tenant));
  out.set_status(context.Clean(in.status));
  if (in.created_at) WriteTime(*in.created_at, *out.mutable_created_at());
  if (in.last_seen) WriteTime(*in.last_seen, *out.mutable_last_seen());
  out.set_provider_instance_id(context.Clean(in.provider_instance_id));
  if (in.instance) Write(*in.instance, *out.mutable_instance(), context);
}

void Read(const v1::InstanceEvent& in, api::InstanceEvent& out, ReadContext& /*context*/) {
  out.instance_id = in.instance_id();
  out.tenant = in.tenant();
  out.provider_instance_id = in.provider_instance_id();
  out.group = in.group();
  out.status = in.status();
  out.reason = in.reason();
  if (in.has_unhealthy_at()) out.unhealthy_at = ReadTime(in.unhealthy_at());
  if (in.has_delete_at()) out.delete_at = ReadTime(in.delete_at());
  out.drain_id = in.drain_id();
}

void Write(const api::InstanceEvent& in, v1::InstanceEvent& out, WriteContext& context) {
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_tenant(context.Clean(in.tenant));
  out.set_provider_instance_id(context.Clean(in.provider_instance_id));
  out.set_group(context.Clean(in.group));
  out.set_status(context.Clean(in.status));
  out.set_reason(context.Clean(in.reason));
  if (in.unhealthy_at) WriteTime(*in.unhealthy_at, *out.mutable_unhealthy_at());
  if (in.delete_at) WriteTime(*in.delete_at, *out.mutable_delete_at());
  out.set_drain_id(context.Clean(in.drain_id));
}

void Read(const v1::DrainAckRequest& in, api::DrainAckRequest& out, ReadContext& /*context*/) {
  out.instance_id = in.instance_id();
  out.drain_id = in.drain_id();
}

void Write(const api::DrainAckRequest& in, v1::DrainAckRequest& out, WriteContext& context) {
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_drain_id(context.Clean(in.drain_id));
}

void Read(const v1::ErrorEvent& in, api::ErrorEvent& out, ReadContext& /*context*/) {
  out.group = in.group();
  out.instance_id = in.instance_id();
  out.error = in.error();
  if (in.has_timestamp()) out.timestamp = ReadTime(in.timestamp());
}

void Write(const api::ErrorEvent& in, v1::ErrorEvent& out, WriteContext& context) {
  out.set_group(context.Clean(in.group));
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_error(context.Clean(in.error));
  if (in.timestamp) WriteTime(*in.timestamp, *out.mutable_timestamp());
}

void Read(const v1::ListInstancesRequest& in, api::ListInstancesRequest& out,
          ReadContext& /*context*/) {
  out.group = in.group();
  for (const int item : in.phases()) out.phases.push_back(ReadPhase(item));
  out.page_size = in.page_size();
  out.page_token = in.page_token();
}

void Write(const api::ListInstancesRequest& in, v1::ListInstancesRequest& out,
           WriteContext& context) {
  out.set_group(context.Clean(in.group));
  for (const auto item : in.phases) out.add_phases(WritePhase(item));
  out.set_page_size(in.page_size);
  out.set_page_token(context.Clean(in.page_token));
}

void Read(const v1::ListInstancesResponse& in, api::ListInstancesResponse& out,
          ReadContext& context) {
  for (const auto& item : in.instances()) Read(item, out.instances.emplace_back(), context);
  out.next_page_token = in.next_page_token();
}

void Write(const api::ListInstancesResponse& in, v1::ListInstancesResponse& out,
           WriteContext& context) {
  for (const auto& item : in.instances) Write(item, *out.add_instances(), context);
  out.set_next_page_token(context.Clean(in.next_page_token));
}

}  // namespace nstance::rpc_codec
