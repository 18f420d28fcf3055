#include "core/instance_config/template_data.h"

#include <utility>
#include <vector>

namespace nstance {
namespace {

using tmpl::RecordType;
using tmpl::Value;

// The fields stand in the order in which the functions below fill them.
const RecordType& NewInstanceType() {
  static const RecordType type{.name = "Instance", .fields = {"ID", "Kind", "Arch", "Type"}};
  return type;
}
const RecordType& KnownInstanceType() {
  static const RecordType type{
      .name = "Instance",
      .fields = {"ID", "Kind", "Arch", "Type", "Hostname", "FQDN", "IP4", "IP6"}};
  return type;
}
const RecordType& ClusterType() {
  static const RecordType type{.name = "Cluster", .fields = {"ID", "CACert"}};
  return type;
}
const RecordType& ServerType() {
  static const RecordType type{
      .name = "Server", .fields = {"Shard", "RegistrationAddr", "AgentAddr", "OperatorAddr"}};
  return type;
}
const RecordType& ProviderType() {
  static const RecordType type{.name = "Provider", .fields = {"Kind", "Region", "Zone"}};
  return type;
}
const RecordType& CreationType() {
  static const RecordType type{.name = "UserData",
                               .fields = {"Instance", "Cluster", "Server", "Provider", "Vars",
                                          "Image", "Tenant", "Group", "Nonce"}};
  return type;
}
const RecordType& FilesType() {
  static const RecordType type{.name = "Files",
                               .fields = {"Instance", "Cluster", "Server", "Provider", "Vars",
                                          "Image", "Tenant", "Group", "ClusterID"}};
  return type;
}

Value MapOf(const config::StringMap& map) { return Value::StringMap({map.begin(), map.end()}); }

Value StringsOf(const RecordType& type, std::vector<std::string> fields) {
  std::vector<Value> values;
  values.reserve(fields.size());
  for (std::string& field : fields) values.push_back(Value::String(std::move(field)));
  return Value::Record(type, std::move(values));
}

}  // namespace

ServerFacts FactsOf(const config::Server& server) {
  return {.cluster_id = server.cluster_id.text(),
          .shard = server.shard.text(),
          .provider_kind = server.provider.word,
          .region = server.provider.region,
          .zone = server.provider.zone};
}

SharedTemplateData::SharedTemplateData(const ServerFacts& server, const config::StringMap& images)
    : cluster_id_(server.cluster_id),
      cluster_(StringsOf(ClusterType(), {server.cluster_id, server.ca_certificate})),
      server_(StringsOf(ServerType(), {server.shard, server.registration_addr, server.agent_addr,
                                       server.operator_addr})),
      provider_(StringsOf(ProviderType(), {server.provider_kind, server.region, server.zone})),
      images_(MapOf(images)) {}

Value SharedTemplateData::ForCreation(const InstanceFacts& instance, std::string nonce) const {
  return Value::Record(
      CreationType(),
      {StringsOf(NewInstanceType(), {instance.id, instance.kind,
                                     std::string(config::Word(instance.arch)), instance.type}),
       cluster_, server_, provider_, MapOf(instance.vars), images_, Value::String(instance.tenant),
       Value::String(instance.group), Value::String(std::move(nonce))});
}

Value SharedTemplateData::ForFiles(const InstanceFacts& instance) const {
  return Value::Record(
      FilesType(),
      {StringsOf(KnownInstanceType(),
                 {instance.id, instance.kind, std::string(config::Word(instance.arch)),
                  instance.type, instance.hostname, instance.fqdn, instance.ip4, instance.ip6}),
       cluster_, server_, provider_, MapOf(instance.vars), images_, Value::String(instance.tenant),
       Value::String(instance.group), Value::String(cluster_id_)});
}

}  // namespace nstance
