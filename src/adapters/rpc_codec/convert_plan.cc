// See convert.h. Fields in the order of their numbers.
#include <utility>

#include "adapters/rpc_codec/convert.h"
#include "adapters/rpc_codec/convert_parts.h"
#include "base/overloaded.h"
#include "nstance/v1/operator.pb.h"

namespace nstance::rpc_codec {
void Read(const v1::Action& in, api::Action& out, ReadContext& /*context*/) {
  out.kind = in.kind();
  out.group = in.group();
  out.instance_id = in.instance_id();
  out.reason = in.reason();
  out.priority = in.priority();
  out.detail = in.detail();
}

void Write(const api::Action& in, v1::Action& out, WriteContext& context) {
  out.set_kind(context.Clean(in.kind));
  out.set_group(context.Clean(in.group));
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_reason(context.Clean(in.reason));
  out.set_priority(in.priority);
  out.set_detail(context.Clean(in.detail));
}

void Read(const v1::Hold& in, api::Hold& out, ReadContext& /*context*/) {
  out.code = in.code();
  out.group = in.group();
  out.instance_id = in.instance_id();
  out.detail = in.detail();
  if (in.has_until()) out.until = ReadTime(in.until());
}

void Write(const api::Hold& in, v1::Hold& out, WriteContext& context) {
  out.set_code(context.Clean(in.code));
  out.set_group(context.Clean(in.group));
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_detail(context.Clean(in.detail));
  if (in.until) WriteTime(*in.until, *out.mutable_until());
}

void Read(const v1::PlanRequest& in, api::PlanRequest& out, ReadContext& context) {
  out.group = in.group();
  if (in.has_what_if()) Read(in.what_if(), out.what_if.emplace(), context);
  out.remove = in.remove();
}

void Write(const api::PlanRequest& in, v1::PlanRequest& out, WriteContext& context) {
  out.set_group(context.Clean(in.group));
  if (in.what_if) Write(*in.what_if, *out.mutable_what_if(), context);
  out.set_remove(in.remove);
}

void Read(const v1::PlanResponse& in, api::PlanResponse& out, ReadContext& context) {
  for (const auto& item : in.actions()) Read(item, out.actions.emplace_back(), context);
  for (const auto& item : in.holds()) Read(item, out.holds.emplace_back(), context);
  if (in.has_replan_at()) out.replan_at = ReadTime(in.replan_at());
}

void Write(const api::PlanResponse& in, v1::PlanResponse& out, WriteContext& context) {
  for (const auto& item : in.actions) Write(item, *out.add_actions(), context);
  for (const auto& item : in.holds) Write(item, *out.add_holds(), context);
  if (in.replan_at) WriteTime(*in.replan_at, *out.mutable_replan_at());
}

void Read(const v1::ExplainRequest& in, api::ExplainRequest& out, ReadContext& /*context*/) {
  if (in.has_group()) {
    out.subject = api::ExplainRequest::Group{in.group()};
  } else if (in.has_instance_id()) {
    out.subject = api::ExplainRequest::InstanceId{in.instance_id()};
  }
}

void Write(const api::ExplainRequest& in, v1::ExplainRequest& out, WriteContext& context) {
  std::visit(Overloaded{[](std::monostate) {},
                        [&](const api::ExplainRequest::Group& group) {
                          out.set_group(context.Clean(group.key));
                        },
                        [&](const api::ExplainRequest::InstanceId& id) {
                          out.set_instance_id(context.Clean(id.text));
                        }},
             in.subject);
}

void Read(const v1::ExplainResponse& in, api::ExplainResponse& out, ReadContext& context) {
  out.summary = in.summary();
  if (in.has_instance()) Read(in.instance(), out.instance.emplace(), context);
  if (in.has_status()) Read(in.status(), out.status.emplace(), context);
  for (const auto& item : in.actions()) Read(item, out.actions.emplace_back(), context);
  for (const auto& item : in.holds()) Read(item, out.holds.emplace_back(), context);
  if (in.has_replan_at()) out.replan_at = ReadTime(in.replan_at());
  for (const auto& item : in.history()) Read(item, out.history.emplace_back(), context);
}

void Write(const api::ExplainResponse& in, v1::ExplainResponse& out, WriteContext& context) {
  out.set_summary(context.Clean(in.summary));
  if (in.instance) Write(*in.instance, *out.mutable_instance(), context);
  if (in.status) Write(*in.status, *out.mutable_status(), context);
  for (const auto& item : in.actions) Write(item, *out.add_actions(), context);
  for (const auto& item : in.holds) Write(item, *out.add_holds(), context);
  if (in.replan_at) WriteTime(*in.replan_at, *out.mutable_replan_at());
  for (const auto& item : in.history) Write(item, *out.add_history(), context);
}

void Read(const v1::ClaimInstanceRequest& in, api::ClaimInstanceRequest& out,
          ReadContext& context) {
  out.request_id = in.request_id();
  out.group = in.group();
  if (in.has_wait()) {
    out.wait = ReadLength(in.wait());
    if (!out.wait) context.Report(BadLength("wait"));
  }
  for (const auto& [name, value] : in.vars()) out.vars.emplace(name, value);
  out.until_ready = in.until_ready();
}

void Write(const api::ClaimInstanceRequest& in, v1::ClaimInstanceRequest& out,
           WriteContext& context) {
  out.set_request_id(context.Clean(in.request_id));
  out.set_group(context.Clean(in.group));
  if (in.wait) WriteLength(*in.wait, *out.mutable_wait());
  WriteTexts(in.vars, *out.mutable_vars(), context);
  out.set_until_ready(in.until_ready);
}

void Read(const v1::ClaimInstanceResponse& in, api::ClaimInstanceResponse& out,
          ReadContext& context) {
  if (in.has_instance()) Read(in.instance(), out.instance.emplace(), context);
  out.source = in.source();
  out.ready = in.ready();
}

void Write(const api::ClaimInstanceResponse& in, v1::ClaimInstanceResponse& out,
           WriteContext& context) {
  if (in.instance) Write(*in.instance, *out.mutable_instance(), context);
  out.set_source(context.Clean(in.source));
  out.set_ready(in.ready);
}

void Read(const v1::ReleaseInstanceRequest& in, api::ReleaseInstanceRequest& out,
          ReadContext& /*context*/) {
  out.request_id = in.request_id();
  out.instance_id = in.instance_id();
}

void Write(const api::ReleaseInstanceRequest& in, v1::ReleaseInstanceRequest& out,
           WriteContext& context) {
  out.set_request_id(context.Clean(in.request_id));
  out.set_instance_id(context.Clean(in.instance_id));
}

void Read(const v1::ReleaseInstanceResponse& in, api::ReleaseInstanceResponse& out,
          ReadContext& /*context*/) {
  out.status = in.status();
}

void Write(const api::ReleaseInstanceResponse& in, v1::ReleaseInstanceResponse& out,
           WriteContext& context) {
  out.set_status(context.Clean(in.status));
}

void Read(const v1::Event& in, api::Event& out, ReadContext& /*context*/) {
  if (in.has_time()) out.time = ReadTime(in.time());
  out.type = in.type();
  out.group = in.group();
  out.instance_id = in.instance_id();
  out.phase = ReadPhase(in.phase());
  out.reason = in.reason();
  out.message = in.message();
}

void Write(const api::Event& in, v1::Event& out, WriteContext& context) {
  if (in.time) WriteTime(*in.time, *out.mutable_time());
  out.set_type(context.Clean(in.type));
  out.set_group(context.Clean(in.group));
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_phase(WritePhase(in.phase));
  out.set_reason(context.Clean(in.reason));
  out.set_message(context.Clean(in.message));
}

void Read(const v1::WatchEventsRequest& in, api::WatchEventsRequest& out,
          ReadContext& /*context*/) {
  out.group = in.group();
  out.instance_id = in.instance_id();
  out.backlog = in.backlog();
}

void Write(const api::WatchEventsRequest& in, v1::WatchEventsRequest& out, WriteContext& context) {
  out.set_group(context.Clean(in.group));
  out.set_instance_id(context.Clean(in.instance_id));
  out.set_backlog(in.backlog);
}

}  // namespace nstance::rpc_codec
