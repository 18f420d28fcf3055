// Services: all RPCs of one leadership behind one gate.
//
// The transport has checked certificate, role and method (core/rpc_policy.h); the gate checks what
// needs the state of the loop, once per call, before any handler sees it (wire.md 2, rows 5 to 7):
// the tenant is defined, an agent's instance exists and is not on its way out, serial and identity
// are not denied. A later change of one of these closes the connections it concerns.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "server/services/agent_streams.h"
#include "server/services/identity_keys.h"
#include "server/services/operator_rows.h"
#include "server/services/operator_service.h"
#include "server/services/registration.h"
#include "server/services/renewal.h"
#include "server/services/service_context.h"
#include "server/services/watches.h"

namespace nstance {

class Services final {
 public:
  explicit Services(ServiceContext& context);
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  // The acceptor of every listener, and the gate that it asks first.
  void Accept(std::unique_ptr<RpcServerCall> call);
  [[nodiscard]] Status Admit(const RpcCallInfo& info) const;

  // Gauges of this moment: agents, operators and their watches.
  void Measure(metrics::Registry& gauges) const;

  [[nodiscard]] Watches& watches() { return watches_; }
  [[nodiscard]] AgentStreams& streams() { return streams_; }

 private:
  using Handler = std::move_only_function<void(std::unique_ptr<RpcServerCall>)>;

  [[nodiscard]] Status AdmitAgent(const crypto::PeerIdentity& identity) const;
  template <class Method, class Function>
  void On(const Method& method, Function function) {
    handlers_[method.path] = std::move(function);
  }

  ServiceContext& context_;
  IdentityKeys keys_;
  OperatorRows operator_rows_;
  RegistrationService registration_;
  RenewalService renewal_;
  AgentStreams streams_;
  OperatorService operator_;
  Watches watches_;
  std::map<std::string_view, Handler> handlers_;
};

}  // namespace nstance
