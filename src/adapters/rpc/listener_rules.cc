#include "adapters/rpc/listener_rules.h"

namespace nstance::grpc {

ListenerRules RulesOf(RpcPort port) {
  switch (port) {
    case RpcPort::kRegistration:
      return {.port = port,
              .client_certificates = ClientCertificates::kNone,
              .session = kRegistrationLimits,
              .handshake_limit = Duration::Seconds(5),
              .handshakes_per_turn = 4,
              .max_waiting_client = 256,
              .max_waiting_per_address = 32,
              .max_waiting_us = 64,
              .ping_after = std::nullopt,
              .request_limit = Duration::Seconds(10),
              .idle_limit = Duration::Seconds(30)};
    case RpcPort::kAgent:
    case RpcPort::kOperator: break;
  }
  return {.port = port,
          .client_certificates = ClientCertificates::kRequired,
          .session = port == RpcPort::kAgent ? kAgentLimits : kOperatorLimits,
          .handshake_limit = Duration::Seconds(30),
          .handshakes_per_turn = 8,
          .max_waiting_client = 2'048,
          .max_waiting_per_address = 256,
          .max_waiting_us = 2'048,
          .ping_after = Duration::Seconds(10),
          .request_limit = std::nullopt,
          .idle_limit = std::nullopt};
}

}  // namespace nstance::grpc
