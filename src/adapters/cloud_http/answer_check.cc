#include "adapters/cloud_http/answer_check.h"

#include <array>
#include <cstdint>
#include <span>

#include <fmt/core.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance::cloud {

Status CheckBodyForm(const HttpResponse& answer) {
  const std::string* encoding = answer.Header("content-encoding");
  if (encoding != nullptr && *encoding != "identity" && !encoding->empty()) {
    return Fail(Unavailable(
        fmt::format("the answer has the encoding {}, which was not asked for", Quote(*encoding))));
  }
  if (answer.Header("content-length") == nullptr && answer.Header("transfer-encoding") == nullptr) {
    return Fail(Unavailable("the answer tells no length"));
  }
  return {};
}

std::string Md5Base64(std::string_view bytes) {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_md5(), nullptr) == 1);
  return Base64Encode(std::span(digest).first(size));
}

std::string_view ContentTypeOf(std::string_view key) {
  if (key.ends_with(".json") || key.ends_with(".jsonc")) return "application/json";
  if (key.ends_with(".pem") || key.ends_with(".crt")) return "application/x-pem-file";
  return "application/octet-stream";
}

}  // namespace nstance::cloud
