// User data: any bytes in any encoding give a text within the limit or an error; what is plain is
// itself, and base64 of bytes decodes to the same as the bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "core/instance_config/user_data.h"

namespace nstance {
namespace {

using config::UserDataEncoding;

void Check(std::string_view bytes) {
  for (const UserDataEncoding encoding : {UserDataEncoding::kPlain, UserDataEncoding::kBase64,
                                          UserDataEncoding::kGzip, UserDataEncoding::kBase64Gzip}) {
    const Result<std::string> text = DecodeUserData(encoding, bytes);
    CHECK(!text.has_value() || text->size() <= kMaxUserDataBytes);
    CHECK(text.has_value() || !text.error().message.empty());
  }
  CHECK(DecodeUserData(UserDataEncoding::kPlain, bytes) == bytes);
  const std::string packed = Base64Encode(AsBytes(bytes));
  CHECK(DecodeUserData(UserDataEncoding::kBase64, packed) == bytes);
  CHECK(DecodeUserData(UserDataEncoding::kBase64Gzip, packed) ==
        DecodeUserData(UserDataEncoding::kGzip, bytes));
}

}  // namespace
}  // namespace nstance

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::Check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
