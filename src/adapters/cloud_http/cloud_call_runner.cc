#include "adapters/cloud_http/cloud_call_runner.h"

#include <memory>
#include <utility>
#include <variant>

namespace nstance::cloud {

CloudCallRunner::CloudCallRunner(Deps deps, Call call, Done done)
    : deps_(deps),
      request_(std::move(call.request)),
      prng_(call.prng),
      machine_(call.repeat, call.deadline),
      done_(std::move(done)) {}

void CloudCallRunner::Do(CloudCall::Command command) {
  std::visit([this](auto& what) { Do(what); }, command);
}

void CloudCallRunner::Do(CloudCall::Authorize& authorize) {
  timer_ = deps_.loop.CallAt(authorize.deadline, [this] { Do(machine_.On(CloudCall::TooLate{})); });
  pending_ = deps_.authorizer.Authorize(
      request_, [this](Result<HttpRequest> request) { OnAuthorized(std::move(request)); });
}

void CloudCallRunner::OnAuthorized(Result<HttpRequest> request) {
  timer_ = Pending();
  Status result;
  if (request) {
    authorized_ = *std::move(request);
  } else {
    result = Fail(std::move(request).error());
  }
  Do(machine_.On(CloudCall::Authorized{std::move(result)}, deps_.loop.Now()));
}

void CloudCallRunner::Do(CloudCall::Send& send) {
  authorized_.deadline = send.left;
  pending_ = deps_.http.Send(std::move(authorized_), [this](Result<HttpResponse> answer) {
    Do(machine_.On(CloudCall::Answer{std::move(answer)}, deps_.loop.Now(), prng_));
  });
}

void CloudCallRunner::Do(CloudCall::Wait& wait) {
  pending_ = deps_.loop.CallAfter(wait.length, [this] { Do(machine_.On(CloudCall::Woke{})); });
}

void CloudCallRunner::Do(CloudCall::Finish& finish) {
  timer_ = Pending();
  pending_ = Pending();
  Done done = std::move(done_);
  done(std::move(finish.answer));
}

Pending RunCloudCall(CloudCallRunner::Deps deps, CloudCallRunner::Call call,
                     CloudCallRunner::Done done) {
  auto runner = std::make_unique<CloudCallRunner>(deps, std::move(call), std::move(done));
  runner->Start();
  return Pending([runner = std::move(runner)]() mutable { runner.reset(); });
}

}  // namespace nstance::cloud
