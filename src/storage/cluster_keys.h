// ClusterKeys: the cluster's CA, trust bundle and token key: the runner of
// core/cluster_keys_machine.h, and the watch on `ca.crt` afterwards.
//
//   ClusterKeys keys(deps, options, {.ready = ..., .failed = ..., .waits = ..., ...});
//   keys.Start();
//
//   ready(identity)     everything is there and fits; told once
//   waits(reason)       what is missing or unreachable; for `/readyz`. Empty when it goes on
//   failed(why)         the stores hold what cannot be used: exit 1
//   roots_changed(...)  the trust bundle has other roots, and the same one signs. A bundle that
//                       does not fit is logged and not taken
//
// Guarantees, each held by a test: those of the machine, and
//   - two servers that start together in an empty cluster end with the same CA and token key,
//     whatever answers are lost
//   - a creation begins only in a turn in which may_create() is true
//   - destroying it leaves no timer and no callback
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "core/cluster_keys_machine.h"
#include "core/object_key.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"
#include "ports/secret_store.h"
#include "ports/secure_random.h"
#include "storage/settled_put.h"

namespace nstance {

class ClusterKeys final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;  // Of the cluster's objects.
    SecretStore& secrets;
    SecureRandom& random;
    Prng& jitter;
    log::Logger log;
  };
  struct Options {
    ClusterKeysMachine::Options machine = {};
    ObjectKey certificate = CaCertificateKey();
    Duration settle_limit = Duration::Seconds(6);
    Duration watch_interval = Duration::Minutes(10);
  };
  struct Owner {
    std::move_only_function<void(ClusterIdentityRef)> ready;
    std::move_only_function<void(Error)> failed;
    std::move_only_function<void(std::optional<Error>)> waits = [](const std::optional<Error>&) {};
    std::move_only_function<void(ClusterIdentityRef)> roots_changed =
        [](const ClusterIdentityRef&) {};
    // Whether this process holds the cluster lease (Elector::Leads of `leader/cluster.json`).
    std::move_only_function<bool()> may_create;
  };

  // The callbacks may not destroy it, except `failed`.
  ClusterKeys(Deps deps, Options options, Owner owner);
  ClusterKeys(const ClusterKeys&) = delete;
  ClusterKeys& operator=(const ClusterKeys&) = delete;
  ~ClusterKeys() = default;

  void Start() { Do(machine_.Start()); }
  // The cluster lease has just been acquired: what waits looks again now.
  void Hurry();

  // Null before ready().
  [[nodiscard]] const ClusterIdentityRef& identity() const { return identity_; }

 private:
  [[nodiscard]] ClusterKeysMachine::Input Input();
  void Do(ClusterKeysMachine::Command command);
  void CreateCertificate(std::string pem);
  void WatchLater();
  void OnHead(const Result<ObjectHead>& head);
  void OnBundle(const Result<Object>& object);

  Deps deps_;
  Options options_;
  Owner owner_;
  std::move_only_function<crypto::PrivateKey()> new_key_;
  ClusterKeysMachine machine_;
  ClusterIdentityRef identity_;
  ObjectVersion version_;  // Of `ca.crt` as read last.
  bool waiting_ = false;
  std::optional<SettledPut> put_;
  Pending call_;
};

}  // namespace nstance
