// CertificateIssuer: signs the certificates of agents and operators, each only after it is in the
// certificate log (formats.md 6.5, I-30).
//
//   issuer.Issue({.subject = AgentSubject{...}, .key = key, .serial = serial, .issued_at = at,
//                 .life = life}, [](Result<std::string> pem) { ... });
//
// The caller has made serial and issue time durable in a record before, so that the same request
// gives the same certificate, byte for byte; repeating it writes no second log entry.
//
// Errors: kUnavailable when the log cannot be written (nothing was signed); kFailedPrecondition
// when the authority may not sign: outside its validity, or this leadership is over.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/fault_point.h"
#include "base/metrics.h"
#include "base/prng.h"
#include "base/result.h"
#include "core/cluster_keys_machine.h"
#include "crypto/certificate_authority.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/secure_random.h"
#include "storage/leader_scope.h"
#include "storage/settled_put.h"

namespace nstance {

struct CertificateOrder {
  crypto::ClientSubject subject;
  crypto::PublicKey key;
  crypto::SerialNumber serial = crypto::SerialNumber::One();
  Timestamp issued_at = {};
  Duration life = {};
  // What the simulator knows the entry of the log and the signature as.
  Step log_step = Step::kNone;
  Step sign_step = Step::kNone;
};

class CertificateIssuer final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;
    SecureRandom& random;
    Prng& jitter;
    LeaderScope& leader;
    metrics::Registry* metrics = nullptr;  // Null: nothing is counted.
  };
  struct Options {
    ShardId shard;
    Duration settle_limit = Duration::Seconds(6);
  };
  using Done = std::move_only_function<void(Result<std::string> pem)>;

  CertificateIssuer(Deps deps, Options options, ClusterIdentityRef identity);
  CertificateIssuer(const CertificateIssuer&) = delete;
  CertificateIssuer& operator=(const CertificateIssuer&) = delete;
  ~CertificateIssuer();

  static void Declare(metrics::Snapshot& page);

  // `done` is called once, never from inside.
  void Issue(CertificateOrder order, Done done);

  [[nodiscard]] const crypto::Certificate& ca() const {
    return identity_->authority->certificate();
  }
  // Whether a certificate of that moment could be signed at all. To be asked before anything about
  // it is made durable: what a record tells of is made again and again, and never otherwise.
  // kUnavailable: this server's clock is outside the CA's life, or more than an hour away from the
  // store's.
  [[nodiscard]] Status CheckClock(Timestamp now) const;
  // At most `life`, and not past the CA's own end.
  [[nodiscard]] Duration Clamp(Duration life, Timestamp issued_at) const;
  [[nodiscard]] crypto::SerialNumber NewSerial();

 private:
  struct Job {
    CertificateOrder order;
    Done done;
    Timestamp log_at = {};
    std::unique_ptr<SettledPut> put = nullptr;
    Pending call = {};
  };

  void WriteLog(std::uint64_t number);
  void OnLogged(std::uint64_t number, const Result<ObjectVersion>& version);
  void ReadLog(std::uint64_t number);
  void Sign(std::uint64_t number);
  void Finish(std::uint64_t number, Result<std::string> pem);

  Deps deps_;
  Options options_;
  ClusterIdentityRef identity_;
  std::map<std::uint64_t, Job> jobs_;
  std::uint64_t next_ = 1;
};

}  // namespace nstance
