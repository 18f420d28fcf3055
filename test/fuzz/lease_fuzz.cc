// Lease records: any bytes give a verdict; a record that was read is written and read back as the
// same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "core/lease.h"

namespace nstance {
namespace {

void Check(std::string_view bytes) {
  const DecodedLease decoded = DecodeLease(bytes);
  CHECK(decoded.flaw.empty() == (decoded.form == LeaseForm::kValid));
  if (decoded.form != LeaseForm::kValid) return;
  const std::string written = EncodeLease(decoded.record);
  const DecodedLease again = DecodeLease(written);
  CHECK(again.form == LeaseForm::kValid, "{}: {}", written, again.flaw);
  CHECK(EncodeLease(again.record) == written, "{}", written);
}

}  // namespace
}  // namespace nstance

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::Check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
