#include "server/services/renewal.h"

#include <array>
#include <utility>

#include "base/text.h"
#include "core/object_layout.h"
#include "server/services/features.h"

namespace nstance {
namespace {

constexpr Duration kSettleLimit = Duration::Seconds(6);
constexpr std::string_view kCloned = "the identity is used by two holders";

Result<crypto::PublicKey> ParseKey(const api::RenewCertificateRequest& request,
                                   InputSource source) {
  Result<crypto::PublicKey> key = crypto::PublicKey::FromPem(request.public_key_pem, source);
  if (key.has_value()) return key;
  return Fail(InvalidArgument("public_key_pem: " + key.error().message));
}

}  // namespace

// What the edit of the record decides from, and what it found.
struct RenewalService::AgentJob {
  std::string presented_serial;
  std::string key_pem;
  crypto::SerialNumber serial;
  Timestamp now = {};
  Duration life = {};
  bool cloned = false;
};

struct RenewalService::OperatorJob {
  crypto::PeerIdentity caller;
  crypto::PublicKey key;
  Answer answer;
  OperatorRecord record = {};
  std::string storage_key = {};
  bool second_look = false;  // Found by the key asked for, not by the one presented.
  std::unique_ptr<SettledPut> put = nullptr;
  Pending call = {};
};

RenewalService::RenewalService(ServiceContext& context) : context_(context) {}
RenewalService::~RenewalService() = default;

Error RenewalService::KeyOfAnother(const std::string& who) const {
  context_.alarm("key_reuse", who + " asks for the key of another");
  return BadInput(context_, "renew_key",
                  InvalidArgument("public_key_pem: the key belongs to another identity"));
}

// --- Agents --------------------------------------------------------------------------------------

void RenewalService::RenewAgent(std::unique_ptr<RpcServerCall> call) {
  calls_.Serve(api::kAgentRenewCertificate, std::move(call),
               [this](const Request& request, const RpcCallInfo& info, const Answer& answer) {
                 HandleAgent(request, info, answer);
               });
}

void RenewalService::HandleAgent(const Request& request, const RpcCallInfo& info,
                                 const Answer& answer) {
  const Result<crypto::PublicKey> key = ParseKey(request, context_.source);
  if (!key.has_value()) return answer(Fail(key.error()));
  const crypto::PeerIdentity& caller = *info.peer.identity;
  const Result<InstanceId> id = ParsePuidv7(caller.id);
  if (!id.has_value()) return answer(Fail(PermissionDenied("the certificate names no instance")));
  const Instance* holder = context_.fleet.FindByKey(HexEncode(key->SpkiSha256()));
  if (holder != nullptr && holder->id != *id) return answer(Fail(KeyOfAnother(id->text())));
  const config::AgentCertificate& terms = context_.config.current()->config.certificates.agent;
  const Timestamp now = context_.loop.WallNow().TruncatedToSecond();
  const Duration life = HasFeature(info.metadata, Feature::kRenew) ? terms.ttl : terms.legacy_ttl;
  auto job = std::make_shared<AgentJob>(AgentJob{.presented_serial = caller.serial,
                                                 .key_pem = key->ToPem(),
                                                 .serial = context_.issuer.NewSerial(),
                                                 .now = now,
                                                 .life = context_.issuer.Clamp(life, now)});
  context_.fleet.EditRecord(
      *id,
      [job](InstanceRecord& record) -> Status {
        job->cloned = false;
        if (record.blocked) return Fail(Unauthenticated(std::string(kCloned)));
        const bool past_drain = record.drain && record.drain->delete_at < job->now;
        if ((record.phase != InstancePhase::kRegistered &&
             record.phase != InstancePhase::kDraining) ||
            past_drain) {
          return Fail(PermissionDenied("the instance is being deleted"));
        }
        if (record.cert_serial != job->presented_serial) {
          if (record.public_key_pem == job->key_pem) return {};  // The answer was lost.
          job->cloned = true;
          record.blocked = RecordMark{.reason = "identity_clone", .at = job->now};
          return {};
        }
        record.public_key_pem = job->key_pem;
        record.cert_serial = job->serial.decimal();
        record.cert_issued_at = job->now;
        record.cert_expires_at = job->now + job->life;
        record.generation += 1;
        return {};
      },
      [this, job, answer, id = *id](const Result<StoredRecord>& stored) {
        if (!stored.has_value()) {
          if (stored.error().code == Code::kNotFound) {
            return answer(Fail(PermissionDenied("the instance is being deleted")));
          }
          return answer(Fail(stored.error()));
        }
        if (job->cloned) {
          context_.alarm("identity_clone", id.text());
          return answer(Fail(Unauthenticated(std::string(kCloned))));
        }
        IssueAgent(stored->record, answer);
      });
}

void RenewalService::IssueAgent(const InstanceRecord& record, const Answer& answer) {
  const Result<crypto::PublicKey> key = crypto::PublicKey::FromPem(record.public_key_pem);
  const Result<crypto::SerialNumber> serial = crypto::SerialNumber::FromDecimal(record.cert_serial);
  if (!key.has_value() || !serial.has_value() || !record.cert_issued_at ||
      !record.cert_expires_at) {
    return answer(Fail(Internal("the record holds no certificate that could be made again")));
  }
  const Timestamp expires = *record.cert_expires_at;
  context_.issuer.Issue(
      {.subject = crypto::AgentSubject{.tenant = record.tenant, .instance = record.instance_id},
       .key = *key,
       .serial = *serial,
       .issued_at = *record.cert_issued_at,
       .life = expires - *record.cert_issued_at},
      [this, answer, expires, id = record.instance_id](Result<std::string> pem) {
        if (!pem.has_value()) return answer(Fail(std::move(pem).error()));
        context_.log.Info(
            "certificate issued",
            {{"actor", id}, {"action", "renew"}, {"role", "agent"}, {"expires_at", expires}});
        answer(api::RenewCertificateResponse{.client_certificate_pem = std::move(pem).value(),
                                             .expires_at = expires});
      });
}

// --- Operators -----------------------------------------------------------------------------------

void RenewalService::RenewOperator(std::unique_ptr<RpcServerCall> call) {
  calls_.Serve(api::kOperatorRenewCertificate, std::move(call),
               [this](const Request& request, const RpcCallInfo& info, const Answer& answer) {
                 HandleOperator(request, info, answer);
               });
}

void RenewalService::HandleOperator(const Request& request, const RpcCallInfo& info,
                                    const Answer& answer) {
  const Result<crypto::PublicKey> key = ParseKey(request, context_.source);
  if (!key.has_value()) return answer(Fail(key.error()));
  if (context_.fleet.FindByKey(HexEncode(key->SpkiSha256())) != nullptr) {
    return answer(Fail(KeyOfAnother("an operator")));
  }
  const std::uint64_t number = next_++;
  operators_[number] = std::make_unique<OperatorJob>(
      OperatorJob{.caller = *info.peer.identity, .key = *key, .answer = answer});
  ReadOperator(number, HexEncode(info.peer.identity->key_sha256).substr(0, 32));
}

void RenewalService::ReadOperator(std::uint64_t number, std::string storage_key) {
  OperatorJob& job = *operators_.at(number);
  job.storage_key = std::move(storage_key);
  job.call = context_.cluster_store.Get(
      OperatorKey(job.caller.tenant, job.storage_key),
      [this, number](const Result<Object>& object) { OnOperator(number, object); });
}

void RenewalService::OnOperator(std::uint64_t number, const Result<Object>& object) {
  OperatorJob& job = *operators_.at(number);
  if (!object.has_value()) {
    if (object.error().code != Code::kNotFound) {
      return FinishOperator(number, Fail(Unavailable(object.error().message)));
    }
    if (!std::exchange(job.second_look, true)) {
      return ReadOperator(number, OperatorStorageKey(job.key));
    }
    return FinishOperator(number, Fail(Unauthenticated("the operator is not registered")));
  }
  Result<OperatorRecord> record = DecodeOperatorRecord(object->bytes);
  if (!record.has_value()) return FinishOperator(number, Fail(record.error()));
  job.record = std::move(record).value();
  if (job.record.cert_serial == job.caller.serial) return CheckFree(number, *object);
  if (job.record.public_key_pem == job.key.ToPem()) return NameOperator(number);
  context_.alarm("identity_clone", "operator of tenant " + job.caller.tenant.text());
  FinishOperator(number, Fail(Unauthenticated(std::string(kCloned))));
}

void RenewalService::CheckFree(std::uint64_t number, Object object) {
  OperatorJob& job = *operators_.at(number);
  const std::string name = OperatorStorageKey(job.key);
  if (name == job.storage_key) return WriteOperator(number, object);
  job.call = context_.cluster_store.Get(
      OperatorKey(job.caller.tenant, name),
      [this, number, object = std::move(object)](const Result<Object>& other) {
        if (other.has_value()) return FinishOperator(number, Fail(KeyOfAnother("an operator")));
        if (other.error().code == Code::kNotFound) return WriteOperator(number, object);
        FinishOperator(number, Fail(Unavailable(other.error().message)));
      });
}

void RenewalService::WriteOperator(std::uint64_t number, const Object& object) {
  if (!context_.leader.may_start(context_.leader.store_timeout)) {
    return FinishOperator(number, Fail(Unavailable("the lease is about to end")));
  }
  OperatorJob& job = *operators_.at(number);
  const Timestamp now = context_.loop.WallNow().TruncatedToSecond();
  std::array<std::uint8_t, 16> random{};
  context_.random.Fill(random);
  job.record.public_key_pem = job.key.ToPem();
  job.record.cert_serial = context_.issuer.NewSerial().decimal();
  job.record.renewed_at = now;
  job.record.expires_at =
      now +
      context_.issuer.Clamp(context_.config.current()->config.certificates.operators.ttl, now);
  job.record.generation += 1;
  job.record.write_id = Base64UrlEncode(random);
  // The old name first: from here on the certificate that was presented is an old generation.
  job.put = std::make_unique<SettledPut>(
      SettledPut::Deps{context_.loop, context_.cluster_store, context_.jitter},
      SettledPut::Request{.put = {.key = OperatorKey(job.caller.tenant, job.storage_key),
                                  .bytes = EncodeOperatorRecord(job.record),
                                  .condition = IfVersion{object.version}},
                          .deadline = context_.loop.Now() + kSettleLimit},
      [this, number](const Result<ObjectVersion>& version) {
        if (version.has_value()) return NameOperator(number);
        FinishOperator(number, Fail(Unavailable(version.error().message)));
      });
  job.put->Start();
}

// A record is found by the key of the certificate presented: the new key needs a name of its own.
void RenewalService::NameOperator(std::uint64_t number) {
  OperatorJob& job = *operators_.at(number);
  const std::string name = OperatorStorageKey(job.key);
  if (name == job.storage_key) return IssueOperator(number);
  job.put = std::make_unique<SettledPut>(
      SettledPut::Deps{context_.loop, context_.cluster_store, context_.jitter},
      SettledPut::Request{.put = {.key = OperatorKey(job.caller.tenant, name),
                                  .bytes = EncodeOperatorRecord(job.record),
                                  .condition = IfAbsent{}},
                          .deadline = context_.loop.Now() + kSettleLimit},
      [this, number](const Result<ObjectVersion>& version) {
        // There already: an earlier try whose answer was lost.
        const bool there = !version.has_value() && version.error().code == Code::kAborted;
        if (version.has_value() || there) return IssueOperator(number);
        FinishOperator(number, Fail(Unavailable(version.error().message)));
      });
  job.put->Start();
}

void RenewalService::IssueOperator(std::uint64_t number) {
  const OperatorJob& job = *operators_.at(number);
  const Result<crypto::SerialNumber> serial =
      crypto::SerialNumber::FromDecimal(job.record.cert_serial);
  if (!serial.has_value()) return FinishOperator(number, Fail(serial.error()));
  crypto::OperatorSubject subject = {.tenant = job.caller.tenant, .id = context_.cluster};
  if (const Result<Puidv7> id = ParsePuidv7(job.caller.id, "opr"); id.has_value()) {
    subject.id = *id;
  }
  const Timestamp expires = job.record.expires_at;
  context_.issuer.Issue({.subject = std::move(subject),
                         .key = job.key,
                         .serial = *serial,
                         .issued_at = job.record.issued_at(),
                         .life = expires - job.record.issued_at()},
                        [this, number, expires](Result<std::string> pem) {
                          if (!pem.has_value()) {
                            return FinishOperator(number, Fail(std::move(pem).error()));
                          }
                          FinishOperator(
                              number, api::RenewCertificateResponse{.client_certificate_pem = *pem,
                                                                    .expires_at = expires});
                        });
}

void RenewalService::FinishOperator(std::uint64_t number,
                                    Result<api::RenewCertificateResponse> answer) {
  const auto at = operators_.find(number);
  std::shared_ptr<OperatorJob> job = std::move(at->second);
  operators_.erase(at);
  context_.loop.Post([job] {});  // Its own callback may be on the stack.
  job->answer(std::move(answer));
}

}  // namespace nstance
