// Certificate: an X.509 certificate as a value: its DER bytes and what they say.
//
// The reader is strict and total: version 3 only, DER only (crypto/der.h), a positive serial of at
// most 20 bytes, no extension twice (the role extension excepted, whose number is a fact:
// VerifyPeer judges it). It reads what we and the Go implementation issue and what VerifyPeer must
// be able to refuse with a reason; it verifies no signature. Other kinds of keys than Ed25519 are
// read, without their key.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_probe.h"
#include "base/result.h"
#include "base/text.h"
#include "base/time.h"
#include "crypto/ed25519.h"
#include "crypto/serial_number.h"

namespace nstance::crypto {

inline constexpr std::size_t kMaxCertificateBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kMaxTrustBundleRoots = 4;

// Whom a client certificate speaks for. It stands in an extension of its own, OID
// 1.3.6.1.4.1.999999.1, not critical, value a DER PrintableString.
enum class Role : std::uint8_t { kAgent, kOperator };

// "agent", "operator".
[[nodiscard]] std::string_view RoleName(Role role);
// The whole `Extension` SEQUENCE that says it; the only bytes that count as that role.
[[nodiscard]] std::span<const std::uint8_t> RoleExtension(Role role);

// Whether a pool member has been claimed; the certificate of an unclaimed one says OU=pool.
enum class PoolState : std::uint8_t { kNone, kUnclaimed };

enum class SubjectAttribute : std::uint8_t {
  kCountry,
  kOrganization,
  kOrganizationalUnit,
  kLocality,
  kProvince,
  kStreet,
  kPostalCode,
  kCommonName,
  kOther,
};

struct SubjectPart {
  SubjectAttribute attribute = SubjectAttribute::kOther;
  std::uint8_t string_tag = 0;  // DER tag of the value: 0x0c UTF8String, 0x13 PrintableString.
  std::string value;            // The raw bytes, whatever the string type.

  friend bool operator==(const SubjectPart&, const SubjectPart&) = default;
};

struct AlternativeNames {
  std::vector<std::string> dns;
  std::vector<std::string> ip;  // In text form.
  std::vector<std::string> uri;

  friend bool operator==(const AlternativeNames&, const AlternativeNames&) = default;
};

struct CertificateFacts {
  SerialNumber serial = SerialNumber::One();
  std::vector<SubjectPart> subject;  // In the order of the bytes.
  AlternativeNames names;            // Other kinds of names are left out.
  Timestamp not_before;
  Timestamp not_after;
  std::optional<PublicKey> public_key;  // Empty when it is not a sound Ed25519 key.
  std::string key_problem;              // Why it is empty.

  bool is_ca = false;        // Basic constraints say so.
  bool may_sign = false;     // Key usage keyCertSign, or no key usage at all.
  bool server_auth = false;  // Extended key usage holds serverAuth.
  bool client_auth = false;  // Extended key usage holds clientAuth.
  Bytes subject_key_id;      // Empty when there is none.
  Bytes subject_der;         // The Name, with tag and length.
  Bytes issuer_der;          // Likewise.
  std::vector<Bytes> roles;  // Each role extension, whole.
};

class Certificate final {
 public:
  [[nodiscard]] static Result<Certificate> FromDer(std::span<const std::uint8_t> der);
  // One strict PEM block (crypto/pem.h).
  [[nodiscard]] static Result<Certificate> FromPem(std::string_view pem, InputSource source = {});

  [[nodiscard]] const Bytes& der() const { return der_; }
  [[nodiscard]] const CertificateFacts& facts() const { return facts_; }
  [[nodiscard]] std::string ToPem() const;

  // The only value of the attribute; empty when there is none or more than one.
  [[nodiscard]] std::optional<std::string_view> OnlyPart(SubjectAttribute attribute) const;

  friend bool operator==(const Certificate& a, const Certificate& b) { return a.der_ == b.der_; }

 private:
  Certificate(Bytes der, CertificateFacts facts) : der_(std::move(der)), facts_(std::move(facts)) {}

  Bytes der_;
  CertificateFacts facts_;
};

// A trust bundle: 1 to 4 CA certificates as PEM, read tolerantly. The first one is the one that
// signs.
[[nodiscard]] Result<std::vector<Certificate>> TrustBundleFromPem(std::string_view pem,
                                                                  InputSource source = {});

}  // namespace nstance::crypto
