#include "base/error.h"

#include <utility>

namespace nstance {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kCancelled: return "CANCELLED";
    case Code::kUnknown: return "UNKNOWN";
    case Code::kInvalidArgument: return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded: return "DEADLINE_EXCEEDED";
    case Code::kNotFound: return "NOT_FOUND";
    case Code::kAlreadyExists: return "ALREADY_EXISTS";
    case Code::kPermissionDenied: return "PERMISSION_DENIED";
    case Code::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition: return "FAILED_PRECONDITION";
    case Code::kAborted: return "ABORTED";
    case Code::kOutOfRange: return "OUT_OF_RANGE";
    case Code::kUnimplemented: return "UNIMPLEMENTED";
    case Code::kInternal: return "INTERNAL";
    case Code::kUnavailable: return "UNAVAILABLE";
    case Code::kDataLoss: return "DATA_LOSS";
    case Code::kUnauthenticated: return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

Error Error::Under(std::string_view context) && {
  message.insert(0, ": ").insert(0, context);
  return std::move(*this);
}

Error Error::Under(std::string_view context) const& { return Error(*this).Under(context); }

Error Error::MaybeDone() && {
  outcome = Outcome::kMaybeDone;
  return std::move(*this);
}

std::string Error::ToString() const {
  std::string text(CodeName(code));
  if (outcome == Outcome::kMaybeDone) text += " (maybe done)";
  return text.append(": ").append(message);
}

namespace {
Error Make(Code code, std::string message) {
  return Error{.code = code, .outcome = Outcome::kNotDone, .message = std::move(message)};
}
}  // namespace

Error InvalidArgument(std::string message) {
  return Make(Code::kInvalidArgument, std::move(message));
}
Error NotFound(std::string message) { return Make(Code::kNotFound, std::move(message)); }
Error AlreadyExists(std::string message) { return Make(Code::kAlreadyExists, std::move(message)); }
Error PermissionDenied(std::string message) {
  return Make(Code::kPermissionDenied, std::move(message));
}
Error ResourceExhausted(std::string message) {
  return Make(Code::kResourceExhausted, std::move(message));
}
Error FailedPrecondition(std::string message) {
  return Make(Code::kFailedPrecondition, std::move(message));
}
Error Aborted(std::string message) { return Make(Code::kAborted, std::move(message)); }
Error Unavailable(std::string message) { return Make(Code::kUnavailable, std::move(message)); }
Error DeadlineExceeded(std::string message) {
  return Make(Code::kDeadlineExceeded, std::move(message));
}
Error Unauthenticated(std::string message) {
  return Make(Code::kUnauthenticated, std::move(message));
}
Error Internal(std::string message) { return Make(Code::kInternal, std::move(message)); }

}  // namespace nstance
