// VerifyPeer: the one function that decides whether a TLS peer's certificate counts, and whom it
// names.
//
// It is pure: only the arguments count. System roots, files, clocks and the network are not looked
// at, and OpenSSL's error queue is left as it was. It may be called on any thread.
//
// Chain, for clients and servers (a failure ends the handshake):
//   - at most 8 certificates and 64 KiB; the leaf first, the others in any order; all of them well
//     formed (crypto/certificate.h)
//   - the chain ends in one of the given roots; every certificate above the leaf is one of a CA
//     that may sign, so nothing below a leaf is accepted
//   - every certificate used is valid at `now`, give or take 30 s
//   - the leaf has an Ed25519 key, CA false, an extended key usage that holds the usage asked for,
//     and a life (notAfter - notBefore) of at most 8,760 h + 10 min
// Identity, for clients with a good chain (a failure is answered to the first call):
//   - exactly one CN and one O, both UTF8String or PrintableString without NUL; O is a tenant name
//   - exactly one role extension, byte for byte one of RoleExtension()
//   - an agent's CN is an instance id, an operator's a cluster id or an id with prefix `opr`
//   - no OU, or one OU `pool` for agents
// Whether the role fits the port and the call, whether the tenant exists and whether the serial is
// denied is decided elsewhere: that needs state.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/input_probe.h"
#include "base/name.h"
#include "base/result.h"
#include "base/text.h"
#include "base/time.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"

struct x509_st;

namespace nstance::crypto {

inline constexpr std::size_t kMaxChainBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kMaxChainCertificates = 8;
inline constexpr Duration kMaxVerifiedLife = Duration::Hours(8'760) + Duration::Minutes(10);

enum class PeerUsage : std::uint8_t { kClient, kServer };

struct PeerIdentity {
  Role role = Role::kAgent;
  TenantId tenant = DefaultTenant();
  std::string id;             // The CN: instance id, cluster id or `opr` id.
  std::string serial;         // Decimal.
  Sha256Digest key_sha256{};  // Of the SPKI, as records keep it.
  Timestamp not_after;
  PoolState pool = PoolState::kNone;

  friend bool operator==(const PeerIdentity&, const PeerIdentity&) = default;
};

struct PeerEvidence {
  std::span<const Bytes> chain;  // DER, as presented, leaf first.
  std::span<const Certificate> roots;
  Timestamp now;
  PeerUsage usage = PeerUsage::kClient;
  InputSource source;
  // The leaf as TLS has parsed it already, or null: OpenSSL takes as long to parse a certificate as
  // to check a signature. Not used unless it is of the same bytes as chain.front().
  x509_st* parsed_leaf = nullptr;
};

struct PeerVerdict {
  // kUnauthenticated with the reason, kResourceExhausted for a list above the limits.
  Status chain;
  // kUnauthenticated with the reason. The chain's error when that is bad; for PeerUsage::kServer
  // always an error, since servers have no identity beyond the name that the client dialled.
  Result<PeerIdentity> identity;
};

[[nodiscard]] PeerVerdict VerifyPeer(const PeerEvidence& evidence);

}  // namespace nstance::crypto
