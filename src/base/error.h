// Error: why something was not done, and whether it may have happened all the same.
//
// `code` says who may act on it, and is numbered as gRPC's status codes so that it crosses the wire
// unchanged:
//   kUnavailable                            this call may be made again, by the caller
//   kAborted                                re-read and re-decide (every lost compare-and-swap)
//   kInvalidArgument, kFailedPrecondition   nobody, until something changes
// `outcome` says what is known about the effect. After kMaybeDone the only legal next step is to
// read back. `message` is for people: what, where, what is allowed. It never holds a secret.
//
// Each layer that passes an error on adds one clause in front: `error.Under("reading
// config/a.jsonc")` turns "connection refused" into "reading config/a.jsonc: connection refused".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nstance {

enum class Code : std::uint8_t {
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// gRPC's spelling: "INVALID_ARGUMENT".
[[nodiscard]] std::string_view CodeName(Code code);

enum class Outcome : std::uint8_t {
  kNotDone,    // Surely without effect.
  kMaybeDone,  // The effect may have happened: read back before anything else.
};

struct Error {
  Code code = Code::kUnknown;
  Outcome outcome = Outcome::kNotDone;
  std::string message;

  // The same error with one clause of context in front.
  [[nodiscard]] Error Under(std::string_view context) &&;
  [[nodiscard]] Error Under(std::string_view context) const&;

  // The same error when its effect can no longer be excluded.
  [[nodiscard]] Error MaybeDone() &&;

  // "UNAVAILABLE (maybe done): message", for logs and test failures.
  [[nodiscard]] std::string ToString() const;

  friend bool operator==(const Error&, const Error&) = default;
};

[[nodiscard]] Error InvalidArgument(std::string message);
[[nodiscard]] Error NotFound(std::string message);
[[nodiscard]] Error AlreadyExists(std::string message);
[[nodiscard]] Error PermissionDenied(std::string message);
[[nodiscard]] Error ResourceExhausted(std::string message);
[[nodiscard]] Error FailedPrecondition(std::string message);
[[nodiscard]] Error Aborted(std::string message);
[[nodiscard]] Error Unavailable(std::string message);
[[nodiscard]] Error DeadlineExceeded(std::string message);
[[nodiscard]] Error Unauthenticated(std::string message);
[[nodiscard]] Error Internal(std::string message);

}  // namespace nstance
