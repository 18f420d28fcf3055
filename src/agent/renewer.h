// Renewer: exchanges the agent's certificate when core/agent/renewal.h says so.
//
// File operations are one per turn, so that streams and keepalive are served between them. What the
// owner is told is durable.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/identity_store.h"
#include "base/log.h"
#include "base/prng.h"
#include "core/agent/own_certificate.h"
#include "core/agent/renewal.h"
#include "ports/api/common.h"
#include "ports/loop.h"
#include "ports/rpc.h"

namespace nstance::agent {

class Renewer final {
 public:
  struct Deps {
    Loop& loop;
    IdentityStore& store;
    Prng& jitter;
    log::Logger log;
  };
  struct Owner {
    // A connection that shows the present certificate, or null.
    std::function<RpcChannel*()> channel;
    // The new pair is in force.
    std::function<void(PrivateKeyPtr key, const crypto::Certificate& certificate)> renewed;
  };

  Renewer(const Deps& deps, const OwnCertificate& present, Owner owner);
  Renewer(const Renewer&) = delete;
  Renewer& operator=(const Renewer&) = delete;

  void Start() { Look(); }
  // Nothing is begun any more; what is under way ends where it is, as a crash would leave it.
  void Stop();
  // The server asks for a new certificate now.
  void Rebind();
  void Reconnected();

  [[nodiscard]] const Renewal& machine() const { return machine_; }

  static constexpr Duration kLookEvery = Duration::Seconds(5);

 private:
  void Look();
  void Do(Renewal::Command command);
  void PrepareKey();
  void Call();
  void Answer(const Result<api::RenewCertificateResponse>& answer);
  void Store(std::string certificate_pem);
  void SwapNext();
  void Stored(const Status& status);
  void Switch();
  [[nodiscard]] Renewal::Moment Moment() const;

  Deps deps_;
  Owner owner_;
  std::optional<InstanceId> instance_;
  Renewal machine_;
  PrivateKeyPtr next_key_;
  std::optional<OwnCertificate> next_;
  bool told_unimplemented_ = false;
  Pending look_timer_;
  Pending step_;  // The command under way.
};

}  // namespace nstance::agent
