#include "adapters/aws_credentials/aws_credentials.h"

#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace nstance::aws {

// Carries out what the machine says. Answers always come later: a machine that needs nothing from
// outside, or only files, is finished by a task of its own.
class AwsCredentials::Runner final {
 public:
  using Done = std::move_only_function<void(Result<FoundKeys>)>;

  Runner(const Deps& deps, AwsCredentialFetch machine, Done done)
      : deps_(deps), machine_(std::move(machine)), done_(std::move(done)) {}

  void Start() {
    pending_ = deps_.loop.CallAfter({}, [this] { Do(machine_.Start()); });
  }

 private:
  void Do(AwsCredentialFetch::Command command) {
    std::visit(
        Overloaded{
            [this](AwsCredentialFetch::ReadFile& read) {
              Do(machine_.On(AwsCredentialFetch::File{deps_.environment.read_file(read.path)}));
            },
            [this](AwsCredentialFetch::Send& send) {
              pending_ =
                  deps_.http.Send(std::move(send.request), [this](Result<HttpResponse> answer) {
                    Do(machine_.On(AwsCredentialFetch::Answer{std::move(answer)}));
                  });
            },
            [this](AwsCredentialFetch::Finish& finish) {
              pending_ = Pending();
              Done done = std::move(done_);
              done(std::move(finish.result));
            },
        },
        command);
  }

  const Deps& deps_;
  AwsCredentialFetch machine_;
  Done done_;
  Pending pending_;
};

AwsCredentials::AwsCredentials(Deps deps, AwsSettings settings)
    : deps_(std::move(deps)),
      settings_(std::move(settings)),
      cache_(deps_.loop, [this](auto done) { return Fetch(std::move(done)); }) {}

AwsCredentials::AwsCredentials(const Deps& deps)
    : AwsCredentials(deps, ReadAwsSettings(deps.environment)) {}

Pending AwsCredentials::Fetch(cloud::CachedCredential<AwsKeys>::Fetched done) {
  const auto fall_back = source_ == AwsSource::kMetadata ? AwsCredentialFetch::FallBack::kForbidden
                                                         : AwsCredentialFetch::FallBack::kAllowed;
  auto runner =
      std::make_unique<Runner>(deps_, AwsCredentialFetch(settings_, fall_back),
                               [this, done = std::move(done)](Result<FoundKeys> found) mutable {
                                 if (!found) return done(Fail(std::move(found).error()));
                                 source_ = found->source;
                                 done(std::move(found->keys));
                               });
  runner->Start();
  return Pending([runner = std::move(runner)]() mutable { runner.reset(); });
}

}  // namespace nstance::aws
