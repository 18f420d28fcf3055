// Metadata, timeouts and status texts: total, and what was accepted can be sent and read again. The
// input is "name, newline, value".
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "adapters/rpc/grpc_metadata.h"
#include "adapters/rpc/grpc_status.h"
#include "base/check.h"

namespace nstance::grpc {
namespace {

void CheckMetadata(std::string_view name, std::string_view value) {
  Metadata metadata;
  const Status status = AppendReceived(metadata, name, value);
  if (!status.has_value()) {
    CHECK(status.error().code == Code::kInvalidArgument);
    return;
  }
  for (const MetadataEntry& entry : metadata) {
    const Result<std::string> encoded = EncodeValue(entry);
    CHECK(encoded.has_value());
    Metadata again;
    CHECK(AppendReceived(again, entry.name, *encoded).has_value());
    CHECK(again == Metadata{entry});
  }
}

void CheckTimeout(std::string_view text) {
  const Result<Duration> timeout = ParseTimeout(text);
  if (!timeout.has_value()) return;
  CHECK(*timeout >= Duration());
  const Result<Duration> again = ParseTimeout(FormatTimeout(*timeout));
  CHECK(again.has_value() && *again >= *timeout);
}

void CheckStatus(std::string_view number, std::string_view text) {
  const std::string decoded = DecodeStatusMessage(text);
  CHECK(IsValidUtf8(decoded));
  if (decoded.size() <= kMaxStatusMessageBytes) {
    CHECK(DecodeStatusMessage(EncodeStatusMessage(decoded)) == decoded);
  }
  const Status status = StatusFromTrailers(number, text);
  CHECK(status.has_value() == (number == "0" || StatusNumber(status) == "0"));
}

}  // namespace
}  // namespace nstance::grpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t newline = text.find('\n');
  const std::string_view name = text.substr(0, newline);
  const std::string_view value =
      newline == std::string_view::npos ? std::string_view() : text.substr(newline + 1);
  nstance::grpc::CheckMetadata(name, value);
  nstance::grpc::CheckTimeout(text);
  nstance::grpc::CheckStatus(name, value);
  return 0;
}
