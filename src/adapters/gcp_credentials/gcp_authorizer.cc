#include "adapters/gcp_credentials/gcp_authorizer.h"

#include <memory>
#include <string>
#include <utility>

#include "base/text.h"

namespace nstance::gcp {

Pending GcpAuthorizer::Authorize(HttpRequest request, Done done) {
  return credentials_.Get([request = std::move(request), done = std::move(done)](
                              Result<std::shared_ptr<const GcpToken>> token) mutable {
    if (!token) return done(Fail(std::move(token).error()));
    std::string value = "Bearer ";
    value += AsText((*token)->bearer.Reveal());
    request.headers.push_back({.name = "authorization", .value = std::move(value)});
    done(std::move(request));
  });
}

Pending NoAuthorizer::Authorize(HttpRequest request, Done done) {
  return loop_.CallAfter({}, [request = std::move(request), done = std::move(done)]() mutable {
    done(std::move(request));
  });
}

}  // namespace nstance::gcp
