// The deny list: any bytes give a list or an error that says why; what was read is written, and
// read back as the same, and denies what it lists.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "core/deny_list.h"

namespace nstance {
namespace {

void Check(std::string_view bytes) {
  const Result<DenyList> list = DecodeDenyList(bytes);
  if (!list) {
    CHECK(!list.error().message.empty());
    return;
  }
  const std::string written = EncodeDenyList(*list);
  const Result<DenyList> again = DecodeDenyList(written);
  CHECK(again.has_value(), "{}: {}", written, again.error().message);
  CHECK(*again == *list && EncodeDenyList(*again) == written, "{}", written);
  CHECK(NewlyDenied(DenySet(*list), *list).empty(), "{}", written);
}

}  // namespace
}  // namespace nstance

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::Check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
