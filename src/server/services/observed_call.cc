#include "server/services/observed_call.h"

#include <array>
#include <string_view>

#include "base/metric_families.h"
#include "ports/api/methods.h"

namespace nstance {
namespace {

const metrics::Family& Requests() {
  static const metrics::Family kFamily = {.name = "grpc_requests_total",
                                          .help = "RPCs that have ended.",
                                          .labels = {"method", "code"},
                                          .buckets = {}};
  return kFamily;
}

const metrics::Family& Seconds() {
  static const metrics::Family kFamily = {
      .name = "grpc_request_seconds",
      .help = "From an RPC's request to its end.",
      .labels = {"method", "code"},
      .buckets = {0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3600}};
  return kFamily;
}

const metrics::Family& Registrations() {
  static const metrics::Family kFamily = {.name = "registrations_total",
                                          .help = "Registrations, by who came and the answer.",
                                          .labels = {"kind", "code"},
                                          .buckets = {}};
  return kFamily;
}

}  // namespace

ObservedCall::ObservedCall(std::unique_ptr<RpcServerCall> call, Loop& loop,
                           metrics::Registry& metrics)
    : call_(std::move(call)), loop_(loop), metrics_(metrics), began_at_(loop.Now()) {}

ObservedCall::~ObservedCall() {
  if (counted_) return;
  const Error over = Unavailable("not finished");
  Count(&over);
}

void ObservedCall::Declare(metrics::Snapshot& page) {
  nstance::Declare(page, Requests(), metrics::Kind::kCounter);
  nstance::Declare(page, Seconds(), metrics::Kind::kHistogram);
  nstance::Declare(page, Registrations(), metrics::Kind::kCounter);
}

void ObservedCall::Listen(RpcServerEvents events) {
  events.cancelled = [this, tell = std::move(events.cancelled)](const Error& why) mutable {
    Count(&why);
    if (tell) tell(why);  // May destroy this.
  };
  call_->Listen(std::move(events));
}

void ObservedCall::Finish(Status status, RpcMetadata trailing) {
  Count(status.has_value() ? nullptr : &status.error());
  call_->Finish(std::move(status), std::move(trailing));
}

void ObservedCall::Count(const Error* error) {
  if (counted_) return;
  counted_ = true;
  const std::string_view path = call_->info().policy->path;
  const std::string_view code = error == nullptr ? "OK" : CodeName(error->code);
  const std::array labels = {path.substr(1), code};
  metrics_.Counter(Requests(), labels).Add();
  metrics_.Histogram(Seconds(), labels).Observe(InSeconds(loop_.Now() - began_at_));
  if (path == api::kRegisterAgent.path || path == api::kRegisterOperator.path) {
    const std::array who = {
        path == api::kRegisterAgent.path ? std::string_view("agent") : std::string_view("operator"),
        code};
    metrics_.Counter(Registrations(), who).Add();
  }
}

}  // namespace nstance
