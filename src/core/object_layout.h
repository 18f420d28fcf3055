// The names of the objects in a shard's store, made from checked ids only (security.md T2).
//
//   instance/{shard}/{tenant}.{instance-id}.json                InstanceRecordKey
//   certlog/{shard}/{tenant}.{timestamp}.{instance-id}.json     CertificateLogKey
//   operator/{tenant}.{storage-key}.json                        OperatorKey
//   operator-nonce/{sha256}.pem                                 OperatorNonceKey
//
// `{timestamp}` is UTC, YYYYMMDDhhmmssmmm. `{storage-key}` is the first 32 hex digits of the
// SHA-256 of the registered public key's SPKI.
#pragma once

#include <string>
#include <string_view>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/result.h"
#include "base/time.h"
#include "core/instance_record.h"
#include "core/object_key.h"

namespace nstance {

[[nodiscard]] ObjectKey InstanceRecordKey(const ShardId& shard, const RecordKey& record);
// What all records of the shard begin with.
[[nodiscard]] std::string InstanceRecordPrefix(const ShardId& shard);
// The reverse. kInvalidArgument: not the name of a record of this shard.
[[nodiscard]] Result<RecordKey> ParseInstanceRecordKey(const ShardId& shard, const ObjectKey& key);

struct CertificateLogName {
  TenantId tenant;
  Timestamp at;         // Whole milliseconds count.
  std::string subject;  // The CN: an instance id, a cluster id or an operator's id.
};
// REQUIRES: the subject is a name or an id.
[[nodiscard]] ObjectKey CertificateLogKey(const ShardId& shard, const CertificateLogName& name);
// Whether the name tells that the entry is of that moment or later. False also when it tells none.
[[nodiscard]] bool IsLoggedSince(const ObjectKey& key, Timestamp at);

// REQUIRES: hex digits, 32 and 64 of them (records of other programs: a cluster's or operator's id,
// or its end).
[[nodiscard]] ObjectKey OperatorKey(const TenantId& tenant, std::string_view storage_key);
[[nodiscard]] ObjectKey OperatorNonceKey(std::string_view token_sha256);

struct OperatorName {
  TenantId tenant;
  std::string storage_key;
};
// The reverse of OperatorKey(). kInvalidArgument: not the name of an operator record.
[[nodiscard]] Result<OperatorName> ParseOperatorKey(const ObjectKey& key);

}  // namespace nstance
