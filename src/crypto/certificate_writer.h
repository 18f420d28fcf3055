// The bytes of a certificate from its parts. Internal to crypto; certificate_authority.h has the
// rules.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/time.h"
#include "crypto/certificate.h"
#include "crypto/ed25519.h"
#include "crypto/serial_number.h"

namespace nstance::crypto {

// One relative distinguished name: the values of one attribute. Empty lists are left out.
struct SubjectGroup {
  std::uint8_t attribute_number = 0;  // 2.5.4.<number>
  std::vector<std::string> values;
};

enum class CertificateShape : std::uint8_t { kCa, kClient, kServer };

struct CertificateParts {
  CertificateShape shape = CertificateShape::kClient;
  SerialNumber serial = SerialNumber::One();
  Timestamp not_before;
  Timestamp not_after;
  std::vector<SubjectGroup> subject;
  AlternativeNames names;                        // Checked; addresses in text form.
  std::span<const std::uint8_t> role_extension;  // Empty for none.
  std::span<const std::uint8_t> issuer_der;      // Empty: self-signed, the subject is the issuer.
  std::span<const std::uint8_t> issuer_key_id;   // Empty: no authority key id.
};

// First 20 bytes of the SHA-256 of the key (RFC 7093 method 1).
[[nodiscard]] Bytes SubjectKeyIdOf(const PublicKey& key);

// REQUIRES: the parts are valid; addresses parse.
[[nodiscard]] Bytes WriteCertificate(const CertificateParts& parts, const PublicKey& key,
                                     const PrivateKey& signer);

// 4 or 16 bytes of an address in text form, empty when it is none. Addresses of the form
// ::ffff:a.b.c.d are IPv4 addresses, as Go writes them.
[[nodiscard]] Bytes AddressBytes(const std::string& text);

}  // namespace nstance::crypto
