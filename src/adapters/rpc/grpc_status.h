// How ends of HTTP/2 streams become gRPC statuses at a client, and what they say about the effect.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "adapters/rpc/h2_session.h"
#include "base/error.h"
#include "base/result.h"

namespace nstance::grpc {

// The values of `grpc-status` and `grpc-message` as received. A number that is none of gRPC's is
// kUnknown.
[[nodiscard]] Status StatusFromTrailers(std::string_view number, std::string_view message);

// "0" or the code's number.
[[nodiscard]] std::string StatusNumber(const Status& status);

// An answer without a gRPC status, by its HTTP status.
[[nodiscard]] Error FromHttpStatus(std::string_view http_status);

// A stream that was reset. Refused ones are kNotDone, all others kMaybeDone.
[[nodiscard]] Error FromReset(H2Code code);

}  // namespace nstance::grpc
