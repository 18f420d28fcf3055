// The cases of the gRPC interoperability tests, made with our client against any server.
#pragma once

#include <span>
#include <string_view>

#include "adapters/real_loop/real_loop.h"
#include "ports/rpc.h"

namespace nstance::interop {

// A channel that is ready, and the loop that it lives on.
struct CaseClient {
  RealLoop& loop;
  RpcChannel& channel;
};

struct ClientCase {
  std::string_view name;                      // As the public description calls it.
  void (*run)(CaseClient& client) = nullptr;  // Fails the test that runs it.
};

[[nodiscard]] std::span<const ClientCase> ClientCases();
// Fails the test when there is none of that name.
void RunClientCase(std::string_view name, CaseClient client);

}  // namespace nstance::interop
