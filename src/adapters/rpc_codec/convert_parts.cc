#include "adapters/rpc_codec/convert_parts.h"

#include <fmt/core.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include "base/text.h"

namespace nstance::rpc_codec {
namespace {

constexpr std::int32_t kNanosecondsPerSecond = 1'000'000'000;
// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z: what google.protobuf.Timestamp allows.
constexpr std::int64_t kFirstSecond = -62'135'596'800;
constexpr std::int64_t kLastSecond = 253'402'300'799;
// What google.protobuf.Duration allows.
constexpr std::int64_t kMostSeconds = 315'576'000'000;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

const std::string& WriteContext::Clean(const std::string& text) {
  // Temporaries do not get here. NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter)
  if (IsValidUtf8(text)) return text;
  scratch_.clear();
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t length = Utf8SequenceLength(rest);
    scratch_ += length == 0 ? kReplacement : rest.substr(0, length);
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  return scratch_;
}

std::optional<Timestamp> ReadTime(const google::protobuf::Timestamp& in) {
  const bool sound = in.seconds() >= kFirstSecond && in.seconds() <= kLastSecond &&
                     in.nanos() >= 0 && in.nanos() < kNanosecondsPerSecond;
  if (!sound) return std::nullopt;
  return Timestamp::FromUnix(in.seconds(), in.nanos());
}

void WriteTime(Timestamp in, google::protobuf::Timestamp& out) {
  if (in.unix_seconds() < kFirstSecond) {
    out.set_seconds(kFirstSecond);
    return;
  }
  out.set_seconds(in.unix_seconds());
  out.set_nanos(in.nanoseconds());
}

std::optional<Duration> ReadLength(const google::protobuf::Duration& in) {
  const bool in_range = in.seconds() >= -kMostSeconds && in.seconds() <= kMostSeconds &&
                        in.nanos() > -kNanosecondsPerSecond && in.nanos() < kNanosecondsPerSecond;
  const bool signs_agree =
      (in.seconds() <= 0 || in.nanos() >= 0) && (in.seconds() >= 0 || in.nanos() <= 0);
  if (!in_range || !signs_agree) return std::nullopt;
  return Duration::Seconds(in.seconds()) + Duration::Nanoseconds(in.nanos());
}

void WriteLength(Duration in, google::protobuf::Duration& out) {
  out.set_seconds(in.nanoseconds() / kNanosecondsPerSecond);
  out.set_nanos(static_cast<std::int32_t>(in.nanoseconds() % kNanosecondsPerSecond));
}

std::string BadLength(std::string_view field) {
  return fmt::format(
      "{}: not a valid length of time (at most 10,000 years, seconds and nanoseconds of one sign)",
      field);
}

void Read(const google::protobuf::Empty& /*in*/, api::Empty& /*out*/, ReadContext& /*context*/) {}
void Write(const api::Empty& /*in*/, google::protobuf::Empty& /*out*/, WriteContext& /*context*/) {}

}  // namespace nstance::rpc_codec
