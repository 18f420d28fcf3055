// The stored record of one instance, `instance/{shard}/{tenant}.{instance-id}.json`.
//
//   {"instance_id","tenant","group","on_demand","subnet_id","provider_instance_id",
//    "instance_type","status","private_ipv4","private_ipv6","hostname","created_at",
//    "last_updated","config","tags","infra_config_hash",
//    "registered_at"?,"public_key_pem"?,"cert_serial"?,"cert_expires_at"?,
//    "version":1,"phase","phase_at","provider","nonce_sha256","nonce"?,"request_sha256",
//    "generation"?,"cert_issued_at"?,"cert_scope"?,"blocked"?,"replaces"?,"request_id"?,
//    "drain"?,"deletion"?,"pool"?,"power"?,"quarantine"?,"claims"?,"claim"?,"failure"?,
//    "epoch","seq","write_id",<unknown members>,"checksum"}
//
// Written before the provider is called, after it, at registration, drain, deletion, and kept as a
// tombstone; always by compare-and-swap. The members up to `cert_expires_at` are those of the Go
// implementation; `status` is for its readers and follows from the phase.
//
// Reading. What no writer makes is kDataLoss "corrupt instance record: <member>: <what>": not JSON,
// a wrong checksum, an unknown version, a member of the wrong type or range, a key that names
// another instance. Such a record is never treated as absent (fleet/table_build.h). A record
// without `version` is another program's: its phase follows from what it has
//   status "deleting" -> deleting; registered_at -> registered; provider_instance_id ->
//   provisioned; else creating (and, without request_sha256, never sent again),
// its `registration_jwt`, if any, is hashed into nonce_sha256 and dropped, and a missing checksum
// is accepted.
//
// Compatibility: members that this program does not know, also inside the objects above, are kept
// and written back. A new meaning for a known member needs a new `version`; this program refuses it
// and leaves the record alone.
//
// Guarantees, each held by a test:
//   - what is written is read back equal, and written again as the same bytes
//   - a changed byte in a record with a checksum is refused, or leaves every known member as it was
//   - a record of another program, read and written, keeps every member but registration_jwt
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/name.h"
#include "base/puidv7.h"
#include "base/result.h"
#include "base/time.h"
#include "core/instance_phase.h"

namespace nstance {

// Claims of the registration token: enough to sign the same token again.
struct NonceClaims {
  std::string jti = {};
  std::int64_t iat = 0;  // Seconds, as in the token.
  std::int64_t exp = 0;
  std::string config_hash = {};
  json::Object unknown = {};
  friend bool operator==(const NonceClaims&, const NonceClaims&) = default;
};

// `blocked`, `quarantine`: why and since when.
struct RecordMark {
  std::string reason = {};
  Timestamp at = {};
  json::Object unknown = {};
  friend bool operator==(const RecordMark&, const RecordMark&) = default;
};

struct RecordDrain {
  std::string id = {};  // Of the drain intent.
  std::string reason = {};
  Timestamp started_at = {};
  Timestamp delete_at = {};
  Duration length = {};  // Stored in milliseconds.
  bool ordered = false;  // Asked for through the API.
  bool counted = false;  // Counts in the deletion brake.
  std::optional<Timestamp> acked_at = std::nullopt;
  json::Object unknown = {};
  friend bool operator==(const RecordDrain&, const RecordDrain&) = default;
};

// Kept in the tombstone, so that a new leader can rebuild the brake's window.
struct RecordDeletion {
  std::string reason = {};
  Timestamp started_at = {};
  bool ordered = false;
  bool counted = false;
  json::Object unknown = {};
  friend bool operator==(const RecordDeletion&, const RecordDeletion&) = default;
};

struct RecordFailure {
  std::string code = {};
  std::string message = {};
  Timestamp at = {};
  json::Object unknown = {};
  friend bool operator==(const RecordFailure&, const RecordFailure&) = default;
};

struct RecordClaim {
  std::string request_id = {};
  Timestamp claimed_at = {};
  std::string claim_class = {};  // "claimed", "managed", "on-demand".
  GroupKey group;
  std::optional<json::Object> vars = std::nullopt;
  std::optional<Timestamp> confirmed_at = std::nullopt;
  std::optional<json::Value> superseded = std::nullopt;
  json::Object unknown = {};
  friend bool operator==(const RecordClaim&, const RecordClaim&) = default;
};

// Claims that have ended.
struct RecordClaims {
  std::int64_t count = 0;
  std::string last_request_id = {};
  json::Object unknown = {};
  friend bool operator==(const RecordClaims&, const RecordClaims&) = default;
};

struct InstanceRecord {
  InstanceId instance_id;
  TenantId tenant;
  GroupKey group;
  bool on_demand = false;
  std::string subnet_id = {};
  std::string provider_instance_id = {};  // Empty until the provider answered.
  std::string instance_type = {};
  std::string private_ipv4 = {};
  std::string private_ipv6 = {};
  std::string hostname = {};
  Timestamp created_at = {};
  Timestamp last_updated = {};
  json::Object config = {};  // Merged: args, vars, files, userdata?, instance_type, ...
  std::optional<std::map<std::string, std::string>> tags = std::nullopt;  // Absent: null.
  std::string infra_config_hash = {};  // Empty: not known, which is not drift.
  std::optional<Timestamp> registered_at = std::nullopt;
  std::string public_key_pem = {};
  std::string cert_serial = {};
  std::optional<Timestamp> cert_expires_at = std::nullopt;

  InstancePhase phase = InstancePhase::kCreating;  // Never kIntended.
  Timestamp phase_at = {};
  std::string provider = {};      // Kind of the provider that made it.
  std::string nonce_sha256 = {};  // Hex; empty: no token.
  std::optional<NonceClaims> nonce = std::nullopt;
  std::string request_sha256 = {};  // Hex; empty: unknown, the request is never sent again.
  std::int64_t generation = 0;      // 0: absent.
  std::optional<Timestamp> cert_issued_at = std::nullopt;
  std::string cert_scope = {};  // "", "instance", "pool".
  std::optional<RecordMark> blocked = std::nullopt;
  std::optional<InstanceId> replaces = std::nullopt;
  std::string request_id = {};
  std::optional<RecordDrain> drain = std::nullopt;
  std::optional<RecordDeletion> deletion = std::nullopt;
  std::string pool = {};
  std::string power = {};  // "", "running", "stopped".
  std::optional<RecordMark> quarantine = std::nullopt;
  std::optional<RecordClaims> claims = std::nullopt;
  std::optional<RecordClaim> claim = std::nullopt;
  std::optional<RecordFailure> failure = std::nullopt;

  std::int64_t epoch = 0;  // 0: another program wrote it.
  std::int64_t seq = 0;
  std::string write_id = {};
  json::Object unknown = {};

  friend bool operator==(const InstanceRecord&, const InstanceRecord&) = default;
};

// What the object's key says; content that disagrees is corrupt.
struct RecordKey {
  TenantId tenant;
  InstanceId instance_id;
};

inline constexpr std::size_t kMaxRecordBytes = std::size_t{1} * 1024 * 1024;

[[nodiscard]] Result<InstanceRecord> DecodeInstanceRecord(std::string_view bytes,
                                                          const RecordKey& expected);
// REQUIRES: the phase is not kIntended.
[[nodiscard]] std::string EncodeInstanceRecord(const InstanceRecord& record);

// For foreign readers: "deleting" when deleting, gone or failed, else "pending".
[[nodiscard]] std::string_view ForeignStatus(InstancePhase phase);

}  // namespace nstance
