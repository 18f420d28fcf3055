// OperatorEnrolment: the first certificate of an operator.
//
//   OperatorEnrolment enrolment(deps, {.record = draft, .key = key}, [](auto enrolled) { ... });
//   enrolment.Start();
//
// Four steps, each harmless to repeat: the record, create-only, under the name that the key gives
// it; a look whether another tenant has a record of that name; the certificate log; the signature.
// A record that is there already wins over the draft when it belongs to the same key: whoever asks
// again, with the same token or another one, gets the certificate that the record tells of, byte
// for byte. Callers refuse one that has expired.
//
// A key belongs to one identity (security.md J8). Callers look before they begin, so that nothing
// is consumed in vain; the look after the write is what holds: of two tenants that register one key
// at the same moment the later writer sees the other's record, so that at most one gets a
// certificate. Whoever is refused takes its record back.
//
// Errors: kAlreadyExists when the key is registered otherwise; kInvalidArgument when another tenant
// has it; kFailedPrecondition when the record tells of a certificate that cannot be signed; those
// of CertificateIssuer; else kUnavailable, after which asking again is right.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/prng.h"
#include "base/result.h"
#include "core/operator_record.h"
#include "crypto/ed25519.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"
#include "storage/certificate_issuer.h"
#include "storage/settled_put.h"

namespace nstance {

struct EnrolledOperator {
  OperatorRecord record = {};
  std::string certificate_pem = {};
};

class OperatorEnrolment final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;  // Of the cluster's objects.
    Prng& jitter;
    CertificateIssuer& issuer;
  };
  struct Request {
    // What is written when the key has no record yet: complete, with serial and times.
    OperatorRecord record;
    crypto::PublicKey key;
    Duration settle_limit = Duration::Seconds(6);
  };
  using Done = std::move_only_function<void(Result<EnrolledOperator>)>;

  // `done` is called once, on the loop, never from inside Start(). It may not destroy this object.
  OperatorEnrolment(Deps deps, Request request, Done done);
  OperatorEnrolment(const OperatorEnrolment&) = delete;
  OperatorEnrolment& operator=(const OperatorEnrolment&) = delete;

  void Start();

 private:
  void Read();
  void OnRecord(const Result<Object>& object);
  void LookAround(std::string page_token);
  void OnNames(const Result<ListPage>& page);
  void GiveUp();
  void Issue();

  Deps deps_;
  Request request_;
  Done done_;
  std::unique_ptr<SettledPut> put_;
  std::optional<ObjectVersion> written_ = std::nullopt;  // By this enrolment.
  Pending call_;
};

// The subject of the certificate that a record tells of: its CN is an id with the prefix `opr`, or
// the cluster's. kDataLoss when it is neither.
[[nodiscard]] Result<crypto::OperatorSubject> SubjectOf(const OperatorRecord& record);

}  // namespace nstance
