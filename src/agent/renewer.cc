#include "agent/renewer.h"

#include <utility>
#include <variant>

#include "agent/registrar.h"
#include "base/fault_point.h"
#include "base/overloaded.h"
#include "ports/api/methods.h"
#include "ports/rpc_unary.h"

namespace nstance::agent {
namespace {

constexpr Duration kCallLimit = Duration::Seconds(15);

}  // namespace

Renewer::Renewer(const Deps& deps, const OwnCertificate& present, Owner owner)
    : deps_(deps),
      owner_(std::move(owner)),
      instance_(present.instance),
      machine_(present.validity(), deps_.jitter) {}

Renewal::Moment Renewer::Moment() const {
  return {.now = deps_.loop.Now(),
          .wall = deps_.loop.WallNow(),
          .link = owner_.channel() == nullptr ? Renewal::Link::kDown : Renewal::Link::kUp};
}

void Renewer::Look() {
  look_timer_ = deps_.loop.CallAfter(kLookEvery, [this] { Look(); });
  Do(machine_.Look(Moment()));
}

void Renewer::Stop() {
  look_timer_.Cancel();
  step_.Cancel();
}

void Renewer::Rebind() {
  machine_.Rebind();
  Look();
}

void Renewer::Reconnected() { machine_.Reconnected(); }

void Renewer::Do(Renewal::Command command) {
  std::visit(Overloaded{[](Renewal::Nothing&) {}, [this](Renewal::PrepareKey&) { PrepareKey(); },
                        [this](Renewal::Call&) { Call(); },
                        [this](Renewal::Store& store) { Store(std::move(store.certificate_pem)); },
                        [this](Renewal::Switch&) { Switch(); }},
             command);
}

void Renewer::PrepareKey() {
  step_ = deps_.loop.CallAfter({}, [this] {
    Result<PrivateKeyPtr> key = deps_.store.NextKey();
    Status ready;
    if (key) {
      next_key_ = *std::move(key);
    } else {
      deps_.log.Error("no key for a new certificate", {{"error", key.error()}});
      ready = Fail(key.error());
    }
    Do(machine_.KeyReady(ready, Moment(), deps_.jitter));
  });
}

void Renewer::Call() {
  RpcChannel* channel = owner_.channel();
  if (channel == nullptr) {
    step_ = deps_.loop.CallAfter(
        {}, [this] { Answer(Fail(Unavailable("the connection went meanwhile"))); });
    return;
  }
  AtStep(Step::kW8);
  step_ =
      CallUnary(*channel, api::kAgentRenewCertificate,
                {.message = {.public_key_pem = next_key_->public_key().ToPem()},
                 .timeout = kCallLimit,
                 .metadata = Features()},
                [this](const Result<api::RenewCertificateResponse>& answer) { Answer(answer); });
}

void Renewer::Answer(const Result<api::RenewCertificateResponse>& answer) {
  Result<std::string> certificate = std::string();
  if (!answer) {
    certificate = Fail(answer.error());
  } else if (auto own =
                 ReadOwnCertificate(answer->client_certificate_pem,
                                    {.key = next_key_->public_key(), .instance = instance_})) {
    next_ = *std::move(own);
    certificate = answer->client_certificate_pem;
  } else {
    certificate = Fail(Internal("the server's answer is unusable: " + own.error().message));
  }
  if (!certificate) {
    const bool unimplemented = certificate.error().code == Code::kUnimplemented;
    if (!unimplemented || !std::exchange(told_unimplemented_, true)) {
      deps_.log.Warning(
          "the certificate was not renewed",
          {{"error", certificate.error()}, {"expires_at", machine_.validity().not_after}});
    }
  }
  Do(machine_.Answered(std::move(certificate), Moment(), deps_.jitter));
}

void Renewer::Store(std::string certificate_pem) {
  step_ = deps_.loop.CallAfter({}, [this, pem = std::move(certificate_pem)] {
    AtStep(Step::kW7);
    const Status written = deps_.store.WriteNextCertificate(pem);
    if (!written) return Stored(written);
    SwapNext();
  });
}

void Renewer::SwapNext() {
  step_ = deps_.loop.CallAfter({}, [this] {
    AtStep(Step::kW7);
    const Result<bool> more = deps_.store.SwapOne();
    if (!more) return Stored(Fail(more.error()));
    if (*more) return SwapNext();
    Stored({});
  });
}

void Renewer::Stored(const Status& status) {
  if (!status) {
    deps_.log.Error("the new certificate could not be stored", {{"error", status.error()}});
    return Do(machine_.Stored(Fail(status.error()), Moment(), deps_.jitter));
  }
  Do(machine_.Stored(next_->validity(), Moment(), deps_.jitter));
}

void Renewer::Switch() {
  deps_.log.Info("certificate renewed",
                 {{"expires_at", machine_.validity().not_after}, {"next_renewal", machine_.due()}});
  // In the turn in which it came into force: nothing may ask with the old one any more.
  const PrivateKeyPtr key = std::exchange(next_key_, nullptr);
  const std::optional<OwnCertificate> certificate = std::exchange(next_, std::nullopt);
  owner_.renewed(key, certificate->certificate);
}

}  // namespace nstance::agent
