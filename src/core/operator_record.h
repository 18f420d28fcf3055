// The stored record of one operator, `operator/{tenant}.{storage-key}.json`.
//
//   {"cert_serial","client_id","expires_at","generation","public_key_pem","registered_at",
//    "registered_by","renewed_at"?,"nonce_sha256"?,"tenant","write_id",<unknown>,"checksum"}
//
// Key, serial and expiry are those of the present generation, which was issued at `renewed_at`,
// else at `registered_at`. Readers accept `public_key` for `public_key_pem` and `cluster_id` for
// `client_id`, as older programs wrote them. The object's name is taken from the first key, so it
// stays when the key is renewed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "crypto/ed25519.h"

namespace nstance {

struct OperatorRecord {
  std::string cert_serial = {};  // Decimal.
  std::string client_id = {};    // The CN.
  Timestamp expires_at = {};
  std::int64_t generation = 1;
  std::string public_key_pem = {};
  Timestamp registered_at = {};
  std::string registered_by = {};  // "nstance-server" or "nstance-admin".
  std::optional<Timestamp> renewed_at = std::nullopt;
  std::string nonce_sha256 = {};
  TenantId tenant = DefaultTenant();
  std::string write_id = {};
  json::Object unknown = {};
  friend bool operator==(const OperatorRecord&, const OperatorRecord&) = default;

  [[nodiscard]] Timestamp issued_at() const { return renewed_at.value_or(registered_at); }
};

// First 32 hex digits of the SHA-256 of the registered key's SPKI: part of the object's name.
[[nodiscard]] std::string OperatorStorageKey(const crypto::PublicKey& registered_key);

[[nodiscard]] std::string EncodeOperatorRecord(const OperatorRecord& record);
// kDataLoss "corrupt operator record: ...".
[[nodiscard]] Result<OperatorRecord> DecodeOperatorRecord(std::string_view bytes);

}  // namespace nstance
