#include "crypto/digest.h"

#include <memory>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance::crypto {

namespace {

struct ContextFree {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// Looking up the algorithm and making a context takes several times as long as hashing a record, so
// it is fetched once, and each thread keeps a context.
EVP_MD_CTX* Sha256Context() {
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  thread_local const std::unique_ptr<EVP_MD_CTX, ContextFree> context(EVP_MD_CTX_new());
  CHECK(algorithm != nullptr && context != nullptr, "no SHA-256");
  CHECK(EVP_DigestInit_ex2(context.get(), algorithm, nullptr) == 1, "no SHA-256");
  return context.get();
}

}  // namespace

Sha256Digest Sha256(std::span<const std::uint8_t> bytes) {
  EVP_MD_CTX* context = Sha256Context();
  Sha256Digest digest{};
  unsigned int length = 0;
  const bool done = EVP_DigestUpdate(context, bytes.data(), bytes.size()) == 1 &&
                    EVP_DigestFinal_ex(context, digest.data(), &length) == 1;
  CHECK(done && length == digest.size(), "SHA-256 gave {} bytes", length);
  return digest;
}

std::string Sha256Hex(std::span<const std::uint8_t> bytes) { return HexEncode(Sha256(bytes)); }

bool ConstantTimeEqual(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace nstance::crypto
