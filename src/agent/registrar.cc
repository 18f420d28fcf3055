#include "agent/registrar.h"

#include <utility>
#include <variant>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/overloaded.h"
#include "base/text.h"
#include "ports/api/methods.h"
#include "ports/rpc_unary.h"

namespace nstance::agent {
namespace {

constexpr Duration kCallLimit = Duration::Seconds(15);

api::RegisterClientRequest MakeRequest(const Registrar::Job& job) {
  const auto cluster = ClusterId::Parse(job.claims.cluster);
  CHECK(cluster.has_value(), "the claims were checked when they were read");
  const crypto::Signature proof = crypto::SignJoinProof(*job.key, job.nonce, *cluster);
  return {.registration_nonce_jwt = job.nonce,
          .public_key_pem = job.key->public_key().ToPem(),
          .private_ipv4 = job.names.ipv4,
          .private_ipv6 = job.names.ipv6,
          .hostname = job.names.hostname,
          .proof = std::string(AsText(proof))};
}

}  // namespace

RpcMetadata Features() { return {{.name = "nstance-features", .value = "renew,rebind"}}; }

Registrar::Registrar(const Deps& deps, Job job, Done done)
    : deps_(deps),
      job_(std::move(job)),
      request_(MakeRequest(job_)),
      machine_(job_.claims.expires_at),
      done_(std::move(done)) {
  if (auto instance = ParsePuidv7(job_.claims.subject)) instance_ = *std::move(instance);
}

void Registrar::Do(Registration::Command command) {
  std::visit(
      Overloaded{[this](Registration::Call&) { Connect(); },
                 [this](Registration::Wait& wait) {
                   timer_ = deps_.loop.CallAfter(wait.length, [this] {
                     Do(machine_.Woke(deps_.loop.WallNow(), deps_.jitter));
                   });
                 },
                 [this](Registration::Store& store) { Keep(store.certificate_pem); },
                 [](Registration::Finish&) {},
                 [this](Registration::GiveUp& give_up) { Finish(Fail(std::move(give_up.why))); }},
      command);
}

void Registrar::Connect() {
  auto roots = deps_.store.ReadRoots();
  if (!roots) {
    // The file was there at start; somebody is exchanging it.
    timer_ = deps_.loop.CallAfter({}, [this, error = roots.error()] { Answer(Fail(error)); });
    return;
  }
  auto tls = std::make_shared<RpcTlsMaterial>();
  tls->roots = *std::move(roots);
  channel_ = deps_.dialer.Dial(
      {.address = job_.server, .tls = std::move(tls)},
      {.state = [this](RpcChannelState state, const Status& why) { OnState(state, why); }});
  channel_->Connect();
}

void Registrar::OnState(RpcChannelState state, const Status& why) {
  if (state == RpcChannelState::kReady) return Ask();
  if (state != RpcChannelState::kGone) return;
  // Whatever ended it, there is no connection: also a server that is not who it should be.
  Answer(Fail(Unavailable(why ? "the connection ended" : why.error().message)));
}

void Registrar::Ask() {
  call_ = CallUnary(*channel_, api::kRegisterAgent,
                    {.message = request_, .timeout = kCallLimit, .metadata = Features()},
                    [this](const Result<api::RegisterClientResponse>& answer) { Answer(answer); });
}

void Registrar::Answer(const Result<api::RegisterClientResponse>& answer) {
  // Taken along, since this may be the event of one of them.
  const Pending call = std::move(call_);
  const std::unique_ptr<RpcChannel> channel = std::move(channel_);
  Result<std::string> certificate = answer ? Checked(*answer) : Fail(answer.error());
  if (!certificate) {
    deps_.log.Warning("registration failed", {{"error", certificate.error()}});
  }
  Do(machine_.Answered(std::move(certificate), deps_.loop.WallNow(), deps_.jitter));
}

Result<std::string> Registrar::Checked(const api::RegisterClientResponse& answer) const {
  const auto own = ReadOwnCertificate(answer.client_certificate_pem,
                                      {.key = job_.key->public_key(), .instance = instance_});
  if (own) return answer.client_certificate_pem;
  return Fail(Internal("the server's answer is unusable: " + own.error().message));
}

void Registrar::Keep(const std::string& certificate_pem) {
  AtStep(Step::kW7);
  const Status stored = deps_.store.WriteCertificate(certificate_pem);
  if (!stored) {
    deps_.log.Error("the certificate could not be stored", {{"error", stored.error()}});
    return Do(machine_.Stored(stored, deps_.loop.WallNow(), deps_.jitter));
  }
  Do(machine_.Stored({}, deps_.loop.WallNow(), deps_.jitter));
  if (const Status removed = deps_.store.RemoveNonce(); !removed) {
    deps_.log.Warning("the nonce could not be removed; it is of no use any more",
                      {{"error", removed.error()}});
  }
  Finish(
      ReadOwnCertificate(certificate_pem, {.key = job_.key->public_key(), .instance = instance_}));
}

void Registrar::Finish(Result<OwnCertificate> result) {
  timer_ = deps_.loop.CallAfter({}, [this, result = std::move(result)]() mutable {
    Done done = std::exchange(done_, nullptr);
    done(std::move(result));
  });
}

}  // namespace nstance::agent
