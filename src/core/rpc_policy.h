// The policy table: who may call which method, under which rules and limits. One row per method.
//
// The transport consults the row at the request's HEADERS, before any byte of the body, in this
// order, so that only those whom a row admits learn that its method is not offered:
//   no row for the path on this port                     UNIMPLEMENTED
//   a certificate that names nobody of ours              UNAUTHENTICATED
//   a role that the row does not name                    PERMISSION_DENIED
//   a row that is not offered                            what the gate answers, else UNIMPLEMENTED
// Tenant and subject rules need the loop's state or the message and are held by the one gate in
// front of the handlers. A method of the proto without a row stops the start: CheckPolicyCovers().
//
//   const RpcPolicyRow* row = FindRpcPolicy(RpcPolicy(), "/nstance.v1.AgentService/ReceiveFiles");
//
// Adding a method: a row here, a line in test/core/rpc_policy_test.cc's hand-written table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "crypto/certificate.h"

namespace nstance {

// The gRPC listeners.
enum class RpcPort : std::uint8_t { kRegistration, kAgent, kOperator };

// "registration", "agent", "operator".
[[nodiscard]] std::string_view RpcPortName(RpcPort port);

enum class RpcKind : std::uint8_t { kUnary, kClientStream, kServerStream, kBidirectional };

// Whether the client sends, or the server answers, exactly one message.
[[nodiscard]] constexpr bool HasSingleRequest(RpcKind kind) {
  return kind == RpcKind::kUnary || kind == RpcKind::kServerStream;
}
[[nodiscard]] constexpr bool HasSingleResponse(RpcKind kind) {
  return kind == RpcKind::kUnary || kind == RpcKind::kClientStream;
}

enum class RpcTenantRule : std::uint8_t {
  kAnonymous,  // No identity; the token in the message decides.
  kOwn,        // The tenant is the O of the caller's certificate, whatever the message says.
  kSelf,       // In addition an instance id in the message must equal the CN.
};

// What the call is about, besides the tenant.
enum class RpcSubjectRule : std::uint8_t {
  kNone,      // Nothing, or the whole tenant.
  kToken,     // Whatever the registration token names.
  kInstance,  // One instance: the caller's own under kSelf, else one of the tenant.
  kGroup,     // One group of the tenant.
};

enum class RpcLeaderRule : std::uint8_t {
  kOfShard,     // Only the acting leader of the shard answers.
  kOfAnyShard,  // The acting leader of any shard answers: nothing in it belongs to a shard.
};

// Which count of wire.md 1.1 and security.md 7 a call falls under. All are about calls in flight,
// except kRegistration, which is also about their rate.
enum class RpcLimitsClass : std::uint8_t {
  kRegistration,   // Calls per address and in total, by time; in flight per shard.
  kAgentUnary,     // In flight per instance.
  kAgentStream,    // Per instance and method; the newest wins, the loop ends the older one.
  kOperatorUnary,  // In flight per tenant.
  kOperatorClaim,  // ClaimInstance, per tenant: waits for long, so it is counted apart.
  kWatch,          // Watch streams per tenant, all kinds together.
};

// How many calls of the class may be in flight at once for one holder (address, instance, tenant);
// empty: the class has another rule.
[[nodiscard]] std::optional<std::size_t> InFlightLimit(RpcLimitsClass limits);

enum class RpcOffer : std::uint8_t {
  kOffered,
  kNotOffered,  // Answers UNIMPLEMENTED to the row's caller; it stands in place of a handler.
};

// The only role that a row admits; a port admits one role, so does each of its methods.
enum class RpcCaller : std::uint8_t { kAnybody, kAgent, kOperator };

struct RpcPolicyRow {
  std::string_view path = {};  // "/nstance.v1.AgentService/ReceiveFiles".
  RpcPort port = RpcPort::kRegistration;
  RpcKind kind = RpcKind::kUnary;
  RpcCaller caller = RpcCaller::kAnybody;
  RpcTenantRule tenant_rule = RpcTenantRule::kAnonymous;
  RpcSubjectRule subject_rule = RpcSubjectRule::kNone;
  RpcLeaderRule leader_rule = RpcLeaderRule::kOfShard;
  RpcLimitsClass limits = RpcLimitsClass::kRegistration;
  // Longest handling time; a longer or missing deadline of the caller is clamped to it. Empty: the
  // caller's deadline counts as it is (streams).
  std::optional<Duration> time_limit = std::nullopt;
  // Lower-case names of the request metadata that cross to the handler; all others stay behind.
  std::span<const std::string_view> metadata = {};
  RpcOffer offer = RpcOffer::kOffered;
};

// All rows, sorted by path. Static storage.
[[nodiscard]] std::span<const RpcPolicyRow> RpcPolicy();

// The row of that exact path, or null. `rows` need not be sorted.
[[nodiscard]] const RpcPolicyRow* FindRpcPolicy(std::span<const RpcPolicyRow> rows,
                                                std::string_view path);

// The row of that path for that port, or null. A method that several ports offer, as reflection is,
// has a row for each.
[[nodiscard]] const RpcPolicyRow* FindRpcPolicy(std::span<const RpcPolicyRow> rows,
                                                std::string_view path, RpcPort port);

// Whether the role may call the row's method. Empty: no certificate was asked for.
[[nodiscard]] bool Admits(const RpcPolicyRow& row, std::optional<crypto::Role> role);

// What the wire contract says about one method, for the comparison below.
struct RpcMethodFact {
  std::string path;
  RpcKind kind = RpcKind::kUnary;
};

// kFailedPrecondition with the paths when a method has no row, has two, or has one of another kind,
// or when a row has no method. The server does not start then.
[[nodiscard]] Status CheckPolicyCovers(std::span<const RpcPolicyRow> rows,
                                       std::span<const RpcMethodFact> methods);

}  // namespace nstance
