// Registration tokens: the single-use JWT with which a new agent or operator joins, and the proof
// that the joiner holds the key it brings.
//
// Form: compact JWS, base64url without padding, header exactly {"alg":"EdDSA","typ":"JWT"},
// Ed25519. The claims are written in a fixed order and Ed25519 is deterministic, so the same claims
// and key give the same token again: a record keeps the claims, never the token.
//
// Verification goes from cheap to dear: size, shape, header, signature, claims. Guarantees, each
// held by a test:
//   - a token above 4 KiB is kResourceExhausted before any of it is decoded; everything else that
//     is wrong is kUnauthenticated, with the reason in the message (for the log: the peer is told
//     nothing)
//   - one value has one text: padding, other alphabets, stray bits, duplicate and surplus header
//     members are refused; `alg` is not negotiated and keys named in a token are never looked at
//   - one bad token counts once in bad_input_total
// What needs storage (known cluster, shard, record, consumption) is decided by the caller.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/input_probe.h"
#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "crypto/ed25519.h"

namespace nstance::crypto {

inline constexpr std::size_t kMaxTokenBytes = std::size_t{4} * 1024;
// Longest life, plus what `iat` is set back.
inline constexpr Duration kMaxTokenLife = Duration::Hours(24) + Duration::Seconds(30);
// How far `iat` and `nbf` stand before the issue time: the Go agent checks both without leeway.
inline constexpr Duration kTokenBackdate = Duration::Seconds(30);

enum class TokenKind : std::uint8_t { kAgent, kOperator };

// "agent", "operator".
[[nodiscard]] std::string_view TokenKindName(TokenKind kind);

struct RegistrationClaims {
  std::string subject;   // `sub`: an agent's instance id, an operator's cluster id.
  Timestamp expires_at;  // `exp`; these three in whole seconds.
  Timestamp not_before;
  Timestamp issued_at;
  // `jti`: 16 random bytes as base64url; empty in tokens of the Go implementation.
  std::string token_id;
  TokenKind kind = TokenKind::kAgent;
  std::string config_hash;  // Agents: runtime hash of the group. Operators: empty.
  std::string cluster;      // A cluster id.
  std::string shard;        // Agents: a shard id. Operators: empty, as the next two.
  std::string group;
  bool on_demand = false;
  TenantId tenant = DefaultTenant();

  friend bool operator==(const RegistrationClaims&, const RegistrationClaims&) = default;
};

// REQUIRES: texts are valid UTF-8.
[[nodiscard]] std::string SignRegistrationToken(const RegistrationClaims& claims,
                                                const PrivateKey& key);

struct TokenExpectation {
  std::span<const PublicKey> keys;  // The current signing key and those not yet retired.
  Timestamp now;
  TokenKind kind = TokenKind::kAgent;
  InputSource source;
};

// Claims that passed: now < `exp` + 30 s; `nbf` and `iat` at most now + 30 s; `exp` - `iat` at most
// 24 h + 30 s; the expected kind; `sub` an instance id in our spelling (agents) or a cluster id
// (operators); `cluster_id` and `tenant` well-formed names; `shard` and `group` names or empty.
// `iss` is not checked; claims that are not known are ignored; only `jti` and what is empty by
// default may be missing.
[[nodiscard]] Result<RegistrationClaims> VerifyRegistrationToken(
    std::string_view token, const TokenExpectation& expectation);

// What a token says, for its holder, who has no key to verify it: shape, header and well-formed
// claims of that kind, without signature and times. Never for a decision about somebody else.
[[nodiscard]] Result<RegistrationClaims> ReadUnverifiedToken(std::string_view token,
                                                             TokenKind kind);

// Hex SHA-256 of the whole token text: all that is ever stored of it.
[[nodiscard]] std::string TokenSha256Hex(std::string_view token);

// Proof of possession: a signature by the key being registered over "nstance-join-v1", NUL, SHA-256
// of the token, cluster id, NUL, SPKI.
[[nodiscard]] Signature SignJoinProof(const PrivateKey& key, std::string_view token,
                                      const ClusterId& cluster);
// kUnauthenticated when `proof` is not the signature of `key` over this token, cluster and itself.
[[nodiscard]] Status VerifyJoinProof(const PublicKey& key, std::string_view token,
                                     const ClusterId& cluster, std::span<const std::uint8_t> proof);

}  // namespace nstance::crypto
