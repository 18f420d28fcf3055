// Admission: the counts that span connections: per process, address, tenant and identity.
//
// One object is shared by all I/O threads and locked only at accept, at the end of a handshake, and
// at the start and end of a call. It knows no sockets: a connection is a number that the caller
// chose, unique in the process.
//
//   total                  90 % of the descriptor limit; a tenth of that is kept for connections
//                          whose certificate was verified
//   registration port      1,024 connections, 32 per address (IPv6: per /64)
//   agent port             2 connections per CN: the newest wins and the oldest is to be closed
//   operator port          64 connections per tenant: the newest is refused
//   role of another port   2 connections per CN, counted apart: they can call nothing
//   calls                  in flight per holder, by the limits class of the policy row;
//                          registration: 5/s, burst 20, per address and 400/s in total
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/input_probe.h"
#include "base/result.h"
#include "base/time.h"
#include "core/rpc_policy.h"
#include "crypto/verify_peer.h"

namespace nstance::grpc {

using ConnectionId = std::uint64_t;

// Lets the process open as many descriptors as the system allows: service managers start programs
// with a soft limit of about a thousand, and every connection needs one. Before the server is made.
void RaiseDescriptorLimit();
// 90 % of what the process may open.
[[nodiscard]] std::size_t ConnectionsOfProcess();

struct AdmissionLimits {
  std::size_t connections = ConnectionsOfProcess();
  std::size_t registration_connections = 1'024;
  std::size_t registration_per_address = 32;
  std::size_t agent_connections = 2;      // Per CN.
  std::size_t operator_connections = 64;  // Per tenant.
  std::uint32_t calls_per_address = 5;    // Per second, registration.
  std::uint32_t calls_burst = 20;
  std::uint32_t calls_total = 400;
  // Limits per address do not apply to loopback: with some providers all agents share one address.
  enum class Loopback : std::uint8_t { kLimited, kExempt } loopback = Loopback::kLimited;
};

// The part of an address that counts: IPv4 whole, IPv6 its /64. Text in, text out.
[[nodiscard]] std::string AddressKey(std::string_view host);

// A bucket that fills at a fixed rate and holds at most `burst`.
class TokenBucket final {
 public:
  TokenBucket(std::uint32_t per_second, std::uint32_t burst, Instant now)
      : per_second_(per_second), burst_(burst), full_at_(now) {}
  [[nodiscard]] bool Take(Instant now);
  [[nodiscard]] bool IsFull(Instant now) const { return full_at_ <= now; }

 private:
  std::uint32_t per_second_;
  std::uint32_t burst_;
  Instant full_at_;  // When it will hold `burst` again.
};

class Admission final {
 public:
  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // At accept. kResourceExhausted, with the limit's word as the message, refuses.
  [[nodiscard]] Status Accept(RpcPort port, std::string_view host);
  // At the end of the handshake. The value is a connection that has to make room, if any.
  struct Verified {
    RpcPort port = RpcPort::kAgent;
    ConnectionId connection = 0;
    const crypto::PeerIdentity& identity;
  };
  [[nodiscard]] Result<std::optional<ConnectionId>> Verify(const Verified& verified);
  // When a connection goes; `identity` when Verify() was called for it with success.
  struct Gone {
    RpcPort port = RpcPort::kAgent;
    ConnectionId connection = 0;
    std::string_view host;
    const crypto::PeerIdentity* identity = nullptr;
  };
  void Release(const Gone& gone);

  // Who a call counts for.
  struct Holder {
    const RpcPolicyRow& row;
    const crypto::PeerIdentity* identity = nullptr;
    std::string_view host;
  };
  // The value is the key to give back to EndCall().
  [[nodiscard]] Result<std::string> StartCall(const Holder& holder, Instant now);
  void EndCall(const std::string& key);

  // Whether limits per address do not apply to it.
  [[nodiscard]] bool Exempt(std::string_view host) const;

  // What is counted at this moment; all zero when nothing is open.
  struct Usage {
    std::size_t connections = 0;
    std::size_t verified = 0;
    std::size_t registration = 0;
    std::size_t addresses = 0;
    std::size_t identities = 0;
    std::size_t calls = 0;

    friend bool operator==(const Usage&, const Usage&) = default;
  };
  [[nodiscard]] Usage usage() const;

 private:
  [[nodiscard]] Status TakeRate(std::string_view host, Instant now);
  void Sweep(Instant now);

  AdmissionLimits limits_;
  mutable std::mutex mutex_;
  std::size_t total_ = 0;
  std::size_t verified_ = 0;
  std::size_t registration_ = 0;
  std::map<std::string, std::size_t, std::less<>> by_address_;  // Registration.
  std::map<std::string, std::deque<ConnectionId>, std::less<>> by_identity_;
  std::map<std::string, std::size_t, std::less<>> calls_;
  std::map<std::string, TokenBucket, std::less<>> rates_;
  std::optional<TokenBucket> total_rate_;
};

}  // namespace nstance::grpc
