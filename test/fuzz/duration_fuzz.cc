// Durations and timestamps: any bytes give a value or an error; what was read survives being
// written and read again, and its text is a fixed point.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/time.h"

namespace nstance {
namespace {

void CheckDuration(std::string_view text) {
  const Result<Duration> duration = ParseDuration(text);
  if (!duration) {
    CHECK(duration.error().code == Code::kInvalidArgument && !duration.error().message.empty());
    return;
  }
  const std::string written = FormatDuration(*duration);
  const Result<Duration> again = ParseDuration(written);
  CHECK(again.has_value(), "{}: {}", written, again.error().message);
  CHECK(*again == *duration, "{}", written);
  CHECK(FormatDuration(*again) == written, "{}", written);
}

void CheckTimestamp(std::string_view text) {
  const Result<Timestamp> at = ParseTimestamp(text);
  if (!at) {
    CHECK(at.error().code == Code::kInvalidArgument && !at.error().message.empty());
    return;
  }
  const std::string written = FormatTimestamp(*at);
  const Result<Timestamp> again = ParseTimestamp(written);
  CHECK(again.has_value(), "{}: {}", written, again.error().message);
  CHECK(*again == *at, "{}", written);
  CHECK(FormatTimestamp(*again) == written, "{}", written);
  // Arithmetic stays in the calendar.
  CHECK(*at + Duration::Max() >= *at && *at - Duration::Max() <= *at);
  CHECK(*at + Duration::Min() <= *at && *at - Duration::Min() >= *at);
}

}  // namespace
}  // namespace nstance

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  nstance::CheckDuration(text);
  nstance::CheckTimestamp(text);
  return 0;
}
