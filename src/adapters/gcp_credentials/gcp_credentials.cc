#include "adapters/gcp_credentials/gcp_credentials.h"

#include <memory>
#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace nstance::gcp {

GcpSettings ReadGcpSettings(const cloud::Environment& environment) {
  GcpSettings settings;
  settings.key_file = environment.Get("GOOGLE_APPLICATION_CREDENTIALS");
  settings.metadata_host = environment.Get("GCE_METADATA_HOST", settings.metadata_host);
  return settings;
}

// Carries out what the machine says. Answers always come later: what needs only a file is finished
// by a task of its own.
class GcpCredentials::Runner final {
 public:
  using Done = std::move_only_function<void(Result<GcpToken>)>;

  Runner(const Deps& deps, GcpCredentialFetch machine, Done done)
      : deps_(deps), machine_(std::move(machine)), done_(std::move(done)) {}

  void Start() {
    pending_ = deps_.loop.CallAfter({}, [this] { Do(machine_.Start()); });
  }

 private:
  void Do(GcpCredentialFetch::Command command) {
    std::visit(
        Overloaded{
            [this](GcpCredentialFetch::ReadFile& read) {
              Do(machine_.On(GcpCredentialFetch::File{deps_.environment.read_file(read.path)},
                             deps_.loop.WallNow()));
            },
            [this](GcpCredentialFetch::Send& send) {
              pending_ =
                  deps_.http.Send(std::move(send.request), [this](Result<HttpResponse> answer) {
                    Do(machine_.On(GcpCredentialFetch::Answer{std::move(answer)},
                                   deps_.loop.WallNow()));
                  });
            },
            [this](GcpCredentialFetch::Finish& finish) {
              pending_ = Pending();
              Done done = std::move(done_);
              done(std::move(finish.result));
            },
        },
        command);
  }

  const Deps& deps_;
  GcpCredentialFetch machine_;
  Done done_;
  Pending pending_;
};

GcpCredentials::GcpCredentials(Deps deps, GcpSettings settings)
    : deps_(std::move(deps)),
      settings_(std::move(settings)),
      cache_(deps_.loop, [this](auto done) { return Fetch(std::move(done)); }) {}

Pending GcpCredentials::Fetch(cloud::CachedCredential<GcpToken>::Fetched done) {
  auto runner = std::make_unique<Runner>(deps_, GcpCredentialFetch(settings_), std::move(done));
  runner->Start();
  return Pending([runner = std::move(runner)]() mutable { runner.reset(); });
}

}  // namespace nstance::gcp
