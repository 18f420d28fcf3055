// ServerCertificates: the certificate that this server shows on its listeners. Key and certificate
// exist in memory only, are new with every process, and are made again at half of their life.
//
//   ServerCertificates tls(deps, {.hosts = GrpcHosts(bind, advertised, alias)},
//                          [&](RpcTls material) { (void)rpc.SetTls(material); });
//   RETURN_IF_ERROR(tls.Start(identity));
//
// Guarantees, each held by a test:
//   - the certificate is valid for every host given and for the fixed names (formats.md 4.1)
//   - it ends no later than the CA, and is renewed at half of its life, by whichever clock gets
//     there first; renewal that fails keeps the old one and is tried again
//   - a clock that was ahead when it was made, and is set right, leads to a new one: nobody else
//     takes a certificate of tomorrow
//   - each certificate has a key and a serial of its own
//   - from 90 days before the CA's end a log line warns, once a day
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "core/cluster_keys_machine.h"
#include "core/config/config.h"
#include "ports/loop.h"
#include "ports/pending.h"
#include "ports/rpc.h"
#include "ports/secure_random.h"

namespace nstance {

// Hosts of the gRPC addresses (registration, operator, agent): where they are bound and what is
// advertised, and the name by which instances of the provider reach this host, if there is one.
[[nodiscard]] std::vector<std::string> GrpcHosts(const config::Addresses& bind,
                                                 const config::Addresses& advertised,
                                                 const std::string& provider_alias);
// Host of the advertised election address.
[[nodiscard]] std::vector<std::string> ElectionHosts(const config::Addresses& advertised);

class ServerCertificates final {
 public:
  struct Deps {
    Loop& loop;
    SecureRandom& random;
    log::Logger log;
  };
  struct Options {
    std::vector<std::string> hosts;
    Duration life = crypto::kMaxPeerLife;
    Duration check_interval = Duration::Hours(1);
  };
  using Changed = std::move_only_function<void(RpcTls)>;

  ServerCertificates(Deps deps, Options options, Changed changed);
  ServerCertificates(const ServerCertificates&) = delete;
  ServerCertificates& operator=(const ServerCertificates&) = delete;

  // Makes the first certificate; `changed` is called from inside. An error is final: the CA cannot
  // sign, or a host is malformed. May be called again with an identity that has other roots: then
  // an error leaves the old one in place, and it is tried again.
  [[nodiscard]] Status Start(ClusterIdentityRef identity);

  // The wall clock was moved.
  void OnClockMoved() {
    if (material_ != nullptr) Check();
  }

  // Null before Start().
  [[nodiscard]] const RpcTls& material() const { return material_; }
  [[nodiscard]] std::optional<Timestamp> not_after() const;

 private:
  [[nodiscard]] Status Make();
  void Check();
  void Plan(bool made);
  void WarnOfCaEnd();

  Deps deps_;
  Options options_;
  Changed changed_;
  ClusterIdentityRef identity_;
  RpcTls material_;
  ClusterIdentityRef made_for_;
  Instant renew_at_;
  Timestamp made_at_wall_;
  Timestamp renew_at_wall_;
  std::optional<Instant> warned_at_ = std::nullopt;
  Pending timer_;
};

}  // namespace nstance
