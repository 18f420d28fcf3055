// What differs between the three listeners, as numbers. Pure values.
#pragma once

#include <cstddef>
#include <optional>

#include "adapters/rpc/h2_limits.h"
#include "adapters/rpc/tls_context.h"
#include "base/time.h"
#include "core/rpc_policy.h"

namespace nstance::grpc {

struct ListenerRules {
  RpcPort port = RpcPort::kRegistration;
  ClientCertificates client_certificates = ClientCertificates::kNone;
  SessionLimits session;
  Duration hello_limit = Duration::Seconds(3);
  Duration handshake_limit;  // TLS and HTTP/2.
  std::size_t handshakes_per_turn = 0;
  // Connections that wait for the client's next handshake step, and those whose step waits for us.
  std::size_t max_waiting_client = 0;
  std::size_t max_waiting_per_address = 0;
  std::size_t max_waiting_us = 0;
  std::optional<Duration> ping_after;
  Duration ping_limit = Duration::Seconds(5);
  std::optional<Duration> request_limit;  // From the handshake to a complete request.
  std::optional<Duration> idle_limit;     // Without calls.
  Duration send_stall = kSendStall;       // Of the socket, when it takes nothing.
};
[[nodiscard]] ListenerRules RulesOf(RpcPort port);

struct RulesOfListeners {
  ListenerRules registration = RulesOf(RpcPort::kRegistration);
  ListenerRules agent = RulesOf(RpcPort::kAgent);
  ListenerRules operators = RulesOf(RpcPort::kOperator);
};

}  // namespace nstance::grpc
