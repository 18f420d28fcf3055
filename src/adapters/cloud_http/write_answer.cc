#include "adapters/cloud_http/write_answer.h"

#include <utility>

#include <fmt/core.h>

namespace nstance::cloud {

Error WriteError(int status, const std::string& detail) {
  std::string message = fmt::format("the store answered {}{}", status, detail);
  if (status == 304 || status == 409 || status == 412) return Aborted(std::move(message));
  if (status == 429) return Unavailable(std::move(message));
  if (status >= 300 && status < 400) {
    return Unavailable(std::move(message) + "; redirects are not followed");
  }
  if (status == 401 || status == 403) return PermissionDenied(std::move(message));
  if (status == 404) return FailedPrecondition(std::move(message));
  if (status >= 400 && status < 500 && status != 408) return InvalidArgument(std::move(message));
  return Unavailable(std::move(message)).MaybeDone();
}

Error ReadError(int status, const std::string& detail) {
  std::string message = fmt::format("the store answered {}{}", status, detail);
  if (status == 401 || status == 403) return PermissionDenied(std::move(message));
  if (status >= 300 && status < 400) {
    return Unavailable(std::move(message) + "; redirects are not followed");
  }
  const bool passing = status == 404 || status == 408 || status == 429;
  if (status >= 400 && status < 500 && !passing) return FailedPrecondition(std::move(message));
  return Unavailable(std::move(message));
}

Error WriteTransportError(Error error) {
  if (error.code == Code::kResourceExhausted) error.code = Code::kUnavailable;
  return error;
}

}  // namespace nstance::cloud
