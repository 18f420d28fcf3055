#include "crypto/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance::crypto {

Sha256Digest Sha256(std::span<const std::uint8_t> bytes) {
  Sha256Digest digest{};
  unsigned int length = 0;
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr);
  CHECK(done == 1 && length == digest.size(), "SHA-256 gave {} bytes", length);
  return digest;
}

std::string Sha256Hex(std::span<const std::uint8_t> bytes) { return HexEncode(Sha256(bytes)); }

bool ConstantTimeEqual(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace nstance::crypto
