#include "crypto/md5.h"

#include <array>

#include <openssl/evp.h>

#include "base/text.h"
#include "crypto/openssl_error_scope.h"

namespace nstance::crypto {

std::string Md5Hex(std::span<const std::uint8_t> bytes) {
  const OpensslErrorScope errors;
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_md5(), nullptr) != 1) {
    return {};
  }
  return HexEncode(std::span(digest).first(length));
}

}  // namespace nstance::crypto
