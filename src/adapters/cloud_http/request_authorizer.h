// RequestAuthorizer: gives a request the credentials of whoever sends it.
#pragma once

#include <functional>

#include "base/result.h"
#include "ports/http.h"
#include "ports/pending.h"

namespace nstance::cloud {

class RequestAuthorizer {
 public:
  RequestAuthorizer() = default;
  RequestAuthorizer(const RequestAuthorizer&) = delete;
  RequestAuthorizer& operator=(const RequestAuthorizer&) = delete;
  virtual ~RequestAuthorizer() = default;

  using Done = std::move_only_function<void(Result<HttpRequest>)>;

  // Answers the same request with a signature or a header (ports/pending.h). Errors are kNotDone.
  [[nodiscard]] virtual Pending Authorize(HttpRequest request, Done done) = 0;
};

}  // namespace nstance::cloud
