// Forges certificates with OpenSSL's own writer: everything that ours refuses to issue. Tests only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/time.h"

struct evp_pkey_st;

namespace nstance::crypto::test {

enum class ForgeKeyKind : std::uint8_t { kEd25519, kRsa2048, kRsa1024, kP256 };

class ForgeKey final {
 public:
  explicit ForgeKey(ForgeKeyKind kind = ForgeKeyKind::kEd25519);
  // Of an existing key, for certificates that share it.
  explicit ForgeKey(evp_pkey_st* key);
  [[nodiscard]] evp_pkey_st* get() const { return key_.get(); }

 private:
  std::shared_ptr<evp_pkey_st> key_;
};

struct ForgedPart {
  std::string field;     // OpenSSL's short name: "O", "CN".
  std::string value;     // Raw bytes.
  int string_type = 19;  // V_ASN1_PRINTABLESTRING.
  // Whether it shares the SET of the part before it.
  enum class Set : std::uint8_t { kOwn, kShared } set = Set::kOwn;
};

struct ForgedRole {
  Bytes value;
  enum class Criticality : std::uint8_t { kNo, kYes } critical = Criticality::kNo;
};

struct ForgeSpec {
  std::vector<ForgedPart> subject;
  std::string serial_hex = "1234";  // A minus sign in front is allowed.
  Timestamp not_before;
  Timestamp not_after;
  // In the syntax of OpenSSL's configuration file; an empty value leaves the extension out.
  std::string basic_constraints = "critical,CA:FALSE";
  std::string key_usage = "critical,digitalSignature";
  std::string extended_key_usage = "clientAuth";
  std::vector<ForgedRole> roles;
  // Any other extension: OID and value. Critical ones that nobody knows must be refused.
  std::optional<std::string> unknown_critical_oid;
};

// Who signs: the issuer's name comes from its certificate; without one the certificate is
// self-signed.
struct ForgeIssuer {
  const Bytes* certificate = nullptr;
  const ForgeKey& key;
};

[[nodiscard]] Bytes Forge(const ForgeSpec& spec, const ForgeKey& key, const ForgeIssuer& issuer);

}  // namespace nstance::crypto::test
