// See convert.h. Fields in the order of their numbers.
#include <utility>

#include "adapters/rpc_codec/convert.h"
#include "adapters/rpc_codec/convert_parts.h"
#include "base/overloaded.h"
#include "nstance/v1/agent.pb.h"

namespace nstance::rpc_codec {
void Read(const v1::KeyGenerationRequest& in, api::KeyGenerationRequest& out,
          ReadContext& /*context*/) {
  out.key_names.assign(in.key_names().begin(), in.key_names().end());
  out.rebind = in.rebind();
}

void Write(const api::KeyGenerationRequest& in, v1::KeyGenerationRequest& out,
           WriteContext& context) {
  for (const auto& item : in.key_names) out.add_key_names(context.Clean(item));
  out.set_rebind(context.Clean(in.rebind));
}

void Read(const v1::PublicKeySubmission& in, api::PublicKeySubmission& out,
          ReadContext& /*context*/) {
  out.filename = in.filename();
  out.public_key_pem = in.public_key_pem();
}

void Write(const api::PublicKeySubmission& in, v1::PublicKeySubmission& out,
           WriteContext& context) {
  out.set_filename(context.Clean(in.filename));
  out.set_public_key_pem(in.public_key_pem);
}

void Read(const v1::PublicKeysRequest& in, api::PublicKeysRequest& out, ReadContext& context) {
  out.instance_id = in.instance_id();
  for (const auto& item : in.keys()) Read(item, out.keys.emplace_back(), context);
}

void Write(const api::PublicKeysRequest& in, v1::PublicKeysRequest& out, WriteContext& context) {
  out.set_instance_id(context.Clean(in.instance_id));
  for (const auto& item : in.keys) Write(item, *out.add_keys(), context);
}

void Read(const v1::InterfaceMetrics& in, api::InterfaceMetrics& out, ReadContext& /*context*/) {
  out.interface_name = in.interface_name();
  out.rx_bytes = in.rx_bytes();
  out.tx_bytes = in.tx_bytes();
  out.rx_packets = in.rx_packets();
  out.tx_packets = in.tx_packets();
  out.rx_drops = in.rx_drops();
  out.tx_drops = in.tx_drops();
}

void Write(const api::InterfaceMetrics& in, v1::InterfaceMetrics& out, WriteContext& context) {
  out.set_interface_name(context.Clean(in.interface_name));
  out.set_rx_bytes(in.rx_bytes);
  out.set_tx_bytes(in.tx_bytes);
  out.set_rx_packets(in.rx_packets);
  out.set_tx_packets(in.tx_packets);
  out.set_rx_drops(in.rx_drops);
  out.set_tx_drops(in.tx_drops);
}

void Read(const v1::Metrics& in, api::Metrics& out, ReadContext& context) {
  if (in.has_cpu_usage()) out.cpu_usage = in.cpu_usage();
  out.cpu_core_usage.assign(in.cpu_core_usage().begin(), in.cpu_core_usage().end());
  if (in.has_memory_usage()) out.memory_usage = in.memory_usage();
  if (in.has_network_interface())
    Read(in.network_interface(), out.network_interface.emplace(), context);
  if (in.has_network_interface_error()) out.network_interface_error = in.network_interface_error();
  for (const auto& [name, value] : in.ebpf_counters()) out.ebpf_counters.emplace(name, value);
  if (in.has_ebpf_error()) out.ebpf_error = in.ebpf_error();
  if (in.has_conntrack_count()) out.conntrack_count = in.conntrack_count();
  if (in.has_conntrack_max()) out.conntrack_max = in.conntrack_max();
  if (in.has_conntrack_error()) out.conntrack_error = in.conntrack_error();
}

void Write(const api::Metrics& in, v1::Metrics& out, WriteContext& context) {
  if (in.cpu_usage) out.set_cpu_usage(*in.cpu_usage);
  out.mutable_cpu_core_usage()->Add(in.cpu_core_usage.begin(), in.cpu_core_usage.end());
  if (in.memory_usage) out.set_memory_usage(*in.memory_usage);
  if (in.network_interface) Write(*in.network_interface, *out.mutable_network_interface(), context);
  if (in.network_interface_error)
    out.set_network_interface_error(context.Clean(*in.network_interface_error));
  for (const auto& [name, value] : in.ebpf_counters) (*out.mutable_ebpf_counters())[name] = value;
  if (in.ebpf_error) out.set_ebpf_error(context.Clean(*in.ebpf_error));
  if (in.conntrack_count) out.set_conntrack_count(*in.conntrack_count);
  if (in.conntrack_max) out.set_conntrack_max(*in.conntrack_max);
  if (in.conntrack_error) out.set_conntrack_error(context.Clean(*in.conntrack_error));
}

void Read(const v1::FileStatus& in, api::FileStatus& out, ReadContext& /*context*/) {
  if (in.has_last_modified()) {
    if (const auto at = ReadTime(in.last_modified())) out.status = *at;
  } else if (in.has_error()) {
    out.status = in.error();
  }
}

void Write(const api::FileStatus& in, v1::FileStatus& out, WriteContext& context) {
  std::visit(Overloaded{[](std::monostate) {},
                        [&](Timestamp at) { WriteTime(at, *out.mutable_last_modified()); },
                        [&](const std::string& error) { out.set_error(context.Clean(error)); }},
             in.status);
}

void Read(const v1::TerminationNotice& in, api::TerminationNotice& out, ReadContext& /*context*/) {
  out.action = in.action();
  if (in.has_deadline()) out.deadline = ReadTime(in.deadline());
}

void Write(const api::TerminationNotice& in, v1::TerminationNotice& out, WriteContext& context) {
  out.set_action(context.Clean(in.action));
  if (in.deadline) WriteTime(*in.deadline, *out.mutable_deadline());
}

void Read(const v1::HealthReportRequest& in, api::HealthReportRequest& out, ReadContext& context) {
  out.version = in.version();
  out.instance_id = in.instance_id();
  if (in.has_timestamp()) out.timestamp = ReadTime(in.timestamp());
  out.count = in.count();
  out.uptime = in.uptime();
  if (in.has_metrics()) Read(in.metrics(), out.metrics.emplace(), context);
  for (const auto& [name, value] : in.files()) Read(value, out.files[name], context);
  if (in.has_termination_notice())
    Read(in.termination_notice(), out.termination_notice.emplace(), context);
  out.config_hash = in.config_hash();
  if (in.has_one_minute()) Read(in.one_minute(), out.one_minute.emplace(), context);
  if (in.has_five_minutes()) Read(in.five_minutes(), out.five_minutes.emplace(), context);
  if (in.has_fifteen_minutes()) Read(in.fifteen_minutes(), out.fifteen_minutes.emplace(), context);
  if (in.has_booted_at()) out.booted_at = ReadTime(in.booted_at());
  if (in.has_agent_started_at()) out.agent_started_at = ReadTime(in.agent_started_at());
  if (in.has_report_interval()) out.report_interval = ReadLength(in.report_interval());
}

void Write(const api::HealthReportRequest& in, v1::HealthReportRequest& out,
           WriteContext& context) {
  out.set_version(context.Clean(in.version));
  out.set_instance_id(context.Clean(in.instance_id));
  if (in.timestamp) WriteTime(*in.timestamp, *out.mutable_timestamp());
  out.set_count(in.count);
  out.set_uptime(context.Clean(in.uptime));
  if (in.metrics) Write(*in.metrics, *out.mutable_metrics(), context);
  for (const auto& [name, value] : in.files) {
    Write(value, (*out.mutable_files())[context.Clean(name)], context);
  }
  if (in.termination_notice)
    Write(*in.termination_notice, *out.mutable_termination_notice(), context);
  out.set_config_hash(context.Clean(in.config_hash));
  if (in.one_minute) Write(*in.one_minute, *out.mutable_one_minute(), context);
  if (in.five_minutes) Write(*in.five_minutes, *out.mutable_five_minutes(), context);
  if (in.fifteen_minutes) Write(*in.fifteen_minutes, *out.mutable_fifteen_minutes(), context);
  if (in.booted_at) WriteTime(*in.booted_at, *out.mutable_booted_at());
  if (in.agent_started_at) WriteTime(*in.agent_started_at, *out.mutable_agent_started_at());
  if (in.report_interval) WriteLength(*in.report_interval, *out.mutable_report_interval());
}

void Read(const v1::FileTransfer& in, api::FileTransfer& out, ReadContext& /*context*/) {
  out.filename = in.filename();
  out.content = in.content();
  if (in.has_last_modified()) out.last_modified = ReadTime(in.last_modified());
  out.config_hash = in.config_hash();
}

void Write(const api::FileTransfer& in, v1::FileTransfer& out, WriteContext& context) {
  out.set_filename(context.Clean(in.filename));
  out.set_content(in.content);
  if (in.last_modified) WriteTime(*in.last_modified, *out.mutable_last_modified());
  out.set_config_hash(context.Clean(in.config_hash));
}

}  // namespace nstance::rpc_codec
