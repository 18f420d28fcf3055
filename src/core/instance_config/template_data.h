// What templates see (config.md 7.1), as values of the template engine.
//
//   .Instance   ID Kind Arch Type; in files and certificates also Hostname FQDN IP4 IP6
//   .Cluster    ID CACert
//   .Server     Shard RegistrationAddr AgentAddr OperatorAddr   (advertised)
//   .Provider   Kind Region Zone
//   .Vars       map of strings: defaults, template, group, request
//   .Image      map of strings: the resolved images of the configuration
//   .Nonce      registration token; only user data and args
//   .Tenant, .Group
//   .ClusterID  only files and certificates: .Cluster.ID, for older templates
//
// A key that a map lacks is the empty string; a field that a record lacks is an error.
//
//   const SharedTemplateData shared(server_facts, images);              // Once per configuration.
//   const tmpl::Value data = shared.ForCreation(instance, nonce);       // Once per instance.
//
// Values hold references to what is shared: a copy is cheap, and nothing changes once it is made.
#pragma once

#include <string>

#include "base/name.h"
#include "core/config/config.h"
#include "core/template/value.h"

namespace nstance {

// What all instances of a shard have in common.
struct ServerFacts {
  std::string cluster_id = {};
  std::string ca_certificate = {};  // PEM.
  std::string shard = {};
  std::string registration_addr = {};
  std::string agent_addr = {};
  std::string operator_addr = {};
  std::string provider_kind = {};  // The word of the file.
  std::string region = {};
  std::string zone = {};
};

// The facts that the configuration tells; the CA and the addresses are the caller's.
[[nodiscard]] ServerFacts FactsOf(const config::Server& server);

// What is known of one instance. The last four come with its registration.
struct InstanceFacts {
  std::string id = {};
  std::string kind = {};
  config::Arch arch = config::Arch::kAmd64;
  std::string type = {};
  std::string tenant = {};
  std::string group = {};
  config::StringMap vars = {};
  std::string hostname = {};
  std::string fqdn = {};
  std::string ip4 = {};
  std::string ip6 = {};
};

class SharedTemplateData final {
 public:
  SharedTemplateData(const ServerFacts& server, const config::StringMap& images);

  // For user data and args.
  [[nodiscard]] tmpl::Value ForCreation(const InstanceFacts& instance, std::string nonce) const;
  // For files and certificates.
  [[nodiscard]] tmpl::Value ForFiles(const InstanceFacts& instance) const;

 private:
  std::string cluster_id_;
  tmpl::Value cluster_;
  tmpl::Value server_;
  tmpl::Value provider_;
  tmpl::Value images_;
};

}  // namespace nstance
