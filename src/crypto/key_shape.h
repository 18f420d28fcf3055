// Whether bytes are a key in the usual outer form, whatever its algorithm: for files that pass
// through on their way to others. Keys that we use ourselves are read by crypto/ed25519.h.
//
// Only the outer structure is read (crypto/der.h): cost and depth do not depend on what is inside.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace nstance::crypto {

// SubjectPublicKeyInfo: SEQUENCE { SEQUENCE { OID, ... }, BIT STRING }, and nothing after it.
[[nodiscard]] Status CheckSpkiShape(std::span<const std::uint8_t> der);
// PKCS#8: SEQUENCE { INTEGER 0 or 1, SEQUENCE { OID, ... }, OCTET STRING, ... }, nothing after it.
[[nodiscard]] Status CheckPkcs8Shape(std::span<const std::uint8_t> der);

}  // namespace nstance::crypto
