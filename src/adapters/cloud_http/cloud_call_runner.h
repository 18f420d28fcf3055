// CloudCallRunner: carries out what the machine of cloud_call.h says.
#pragma once

#include <functional>

#include "adapters/cloud_http/cloud_call.h"
#include "adapters/cloud_http/request_authorizer.h"
#include "ports/loop.h"

namespace nstance::cloud {

class CloudCallRunner final {
 public:
  // All outlive the runner.
  struct Deps {
    Loop& loop;
    HttpClient& http;
    RequestAuthorizer& authorizer;
  };
  struct Call {
    HttpRequest request = {};  // Its deadline is set by the runner.
    Repeat repeat = Repeat::kNever;
    Instant deadline = {};
    Prng prng;
  };
  using Done = std::move_only_function<void(Result<HttpResponse>)>;

  // `done` is called once, on the loop, and may destroy the runner.
  CloudCallRunner(Deps deps, Call call, Done done);

  void Start() { Do(machine_.Start()); }

 private:
  void Do(CloudCall::Command command);
  void Do(CloudCall::Authorize& authorize);
  void Do(CloudCall::Send& send);
  void Do(CloudCall::Wait& wait);
  void Do(CloudCall::Finish& finish);
  void OnAuthorized(Result<HttpRequest> request);

  Deps deps_;
  HttpRequest request_;
  HttpRequest authorized_;
  Prng prng_;
  CloudCall machine_;
  Done done_;
  Pending pending_;
  Pending timer_;  // Bounds the time for credentials.
};

// Starts a call and hands over its answer; nobody else needs to keep the runner.
[[nodiscard]] Pending RunCloudCall(CloudCallRunner::Deps deps, CloudCallRunner::Call call,
                                   CloudCallRunner::Done done);

}  // namespace nstance::cloud
