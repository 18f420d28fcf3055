#include "adapters/aws_credentials/aws_authorizer.h"

#include <memory>
#include <utility>

#include "base/text.h"

namespace nstance::aws {

Pending AwsAuthorizer::Authorize(HttpRequest request, Done done) {
  return credentials_.Get(
      [request = std::move(request), done = std::move(done), region = region_,
       service = service_](Result<std::shared_ptr<const AwsKeys>> keys) mutable {
        if (!keys) return done(Fail(std::move(keys).error()));
        const AwsKeys& found = **keys;
        request.aws_signature =
            AwsSignature{.access_key = found.access_key,
                         .secret_key = std::string(AsText(found.secret_key.Reveal())),
                         .session_token = std::string(AsText(found.session_token.Reveal())),
                         .region = region,
                         .service = service};
        done(std::move(request));
      });
}

}  // namespace nstance::aws
