// Registrar: joins with the nonce, as core/agent/registration.h decides.
//
// Each attempt is a connection of its own that shows no certificate and trusts ca.crt as it is at
// that moment. The certificate is on disk before `done` hears of it, and the nonce is then removed;
// a nonce that stays behind is harmless.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/identity_store.h"
#include "base/log.h"
#include "base/prng.h"
#include "core/agent/own_certificate.h"
#include "core/agent/registration.h"
#include "crypto/registration_token.h"
#include "ports/api/registration.h"
#include "ports/host_facts.h"
#include "ports/loop.h"
#include "ports/rpc.h"

namespace nstance::agent {

class Registrar final {
 public:
  struct Deps {
    Loop& loop;
    RpcDialer& dialer;
    IdentityStore& store;
    Prng& jitter;
    log::Logger log;
  };
  struct Job {
    RpcAddress server;
    std::string nonce;
    crypto::RegistrationClaims claims;
    PrivateKeyPtr key;
    HostNames names;
  };
  // Once, at the end of a turn of its own; may destroy the registrar. An error: the nonce expired.
  using Done = std::move_only_function<void(Result<OwnCertificate>)>;

  Registrar(const Deps& deps, Job job, Done done);
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  void Start() { Do(machine_.Start()); }
  // Why it has not succeeded yet.
  [[nodiscard]] const Error& last_error() const { return machine_.last_error(); }

 private:
  void Do(Registration::Command command);
  void Connect();
  void OnState(RpcChannelState state, const Status& why);
  void Ask();
  void Answer(const Result<api::RegisterClientResponse>& answer);
  void Keep(const std::string& certificate_pem);
  void Finish(Result<OwnCertificate> result);
  [[nodiscard]] Result<std::string> Checked(const api::RegisterClientResponse& answer) const;

  Deps deps_;
  Job job_;
  std::optional<InstanceId> instance_;
  api::RegisterClientRequest request_;
  Registration machine_;
  Done done_;
  std::unique_ptr<RpcChannel> channel_;
  Pending call_;
  Pending timer_;
};

// Sent with registration and with every call on the agent port.
[[nodiscard]] RpcMetadata Features();

}  // namespace nstance::agent
