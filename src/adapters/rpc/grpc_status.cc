#include "adapters/rpc/grpc_status.h"

#include <charconv>

#include <fmt/format.h>

#include "adapters/rpc/grpc_metadata.h"
#include "base/text.h"
#include "ports/rpc.h"

namespace nstance::grpc {
namespace {

constexpr int kHighestCode = static_cast<int>(Code::kUnauthenticated);

Code FromHttp(int status) {
  switch (status) {
    case 400: return Code::kInternal;
    case 401: return Code::kUnauthenticated;
    case 403: return Code::kPermissionDenied;
    case 404: return Code::kUnimplemented;
    case 429:
    case 502:
    case 503:
    case 504: return Code::kUnavailable;
    default: return Code::kUnknown;
  }
}

// -1 when it is no number.
int ParseNumber(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

}  // namespace

Status StatusFromTrailers(std::string_view number, std::string_view message) {
  const int value = ParseNumber(number);
  if (value == 0) return {};
  if (value < 0 || value > kHighestCode) {
    return Fail({.code = Code::kUnknown,
                 .outcome = Outcome::kMaybeDone,
                 .message = fmt::format("unknown grpc-status {}", Quote(number))});
  }
  const Code code = static_cast<Code>(value);
  return Fail(
      {.code = code, .outcome = OutcomeOfRpcStatus(code), .message = DecodeStatusMessage(message)});
}

std::string StatusNumber(const Status& status) {
  return status.has_value() ? "0" : fmt::format("{}", static_cast<int>(status.error().code));
}

Error FromHttpStatus(std::string_view http_status) {
  const Code code = FromHttp(ParseNumber(http_status));
  return {.code = code,
          .outcome = OutcomeOfRpcStatus(code),
          .message = fmt::format("HTTP status {} without a gRPC status", Quote(http_status))};
}

Error FromReset(H2Code code) {
  Code mapped = Code::kInternal;
  switch (code) {
    case H2Code::kRefusedStream:
      return {.code = Code::kUnavailable,
              .outcome = Outcome::kNotDone,
              .message = "the server refused the stream"};
    case H2Code::kCancel: mapped = Code::kCancelled; break;
    case H2Code::kEnhanceYourCalm: mapped = Code::kResourceExhausted; break;
    case H2Code::kInadequateSecurity: mapped = Code::kPermissionDenied; break;
    case H2Code::kStreamClosed: mapped = Code::kUnknown; break;
    default: break;
  }
  return {.code = mapped,
          .outcome = Outcome::kMaybeDone,
          .message = fmt::format("the stream was reset with HTTP/2 code {}",
                                 static_cast<std::uint32_t>(code))};
}

}  // namespace nstance::grpc
