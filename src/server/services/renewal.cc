#include "server/services/renewal.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "base/text.h"
#include "core/object_layout.h"
#include "server/services/agent_certificate.h"
#include "server/services/features.h"

namespace nstance {
namespace {

constexpr Duration kSettleLimit = Duration::Seconds(6);
constexpr int kMaxRetries = 4;
constexpr std::size_t kStorageKeyLength = 32;
constexpr std::size_t kTail = 8;  // Of an operator's id, as the Go admin tool names its record.
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
  KeyClaim claim;
  bool cloned = false;
};

struct RenewalService::OperatorJob {
  crypto::PeerIdentity caller;
  crypto::PublicKey key;
  Answer answer;
  KeyClaim claim;
  // Where the record may be, in this order: see ReadOperator().
  std::vector<std::string> names;
  std::size_t look = 0;  // The name that is, or was last, looked at.
  int retries = 0;
  bool read_again = false;
  OperatorRecord record = {};
  std::unique_ptr<SettledPut> put = nullptr;
  Pending call = {};
};

RenewalService::RenewalService(ServiceContext& context, IdentityKeys& keys, OperatorRows& rows)
    : context_(context), keys_(keys), rows_(rows) {}
RenewalService::~RenewalService() = default;

Error RenewalService::ForeignKey() const {
  return BadInput(context_, "renew_key",
                  InvalidArgument("public_key_pem: the key belongs to another identity"));
}

Error RenewalService::KeyOfAnother(const InstanceId& id) const {
  context_.alarm(
      {.name = "key_reuse", .detail = "it asks for the key of another", .instance_id = id});
  return ForeignKey();
}

Error RenewalService::KeyOfAnother(const TenantId& tenant) const {
  context_.alarm(
      {.name = "key_reuse",
       .detail = "an operator of tenant " + tenant.text() + " asks for the key of another",
       .tenant = tenant});
  return ForeignKey();
}

Error RenewalService::CloneOf(const TenantId& tenant) const {
  context_.alarm({.name = "identity_clone",
                  .detail = "operator of tenant " + tenant.text(),
                  .tenant = tenant});
  return Unauthenticated(std::string(kCloned));
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
  const KeyClaim claim = keys_.Claim(*key, id->text());
  if ((holder != nullptr && holder->id != *id) || claim == nullptr) {
    return answer(Fail(KeyOfAnother(*id)));
  }
  const config::AgentCertificate& terms = context_.config.current()->config.certificates.agent;
  const Timestamp now = context_.loop.WallNow().TruncatedToSecond();
  if (Status good = context_.issuer.CheckClock(now); !good) return answer(Fail(good.error()));
  const Duration life = HasFeature(info.metadata, Feature::kRenew) ? terms.ttl : terms.legacy_ttl;
  auto job = std::make_shared<AgentJob>(AgentJob{.presented_serial = caller.serial,
                                                 .key_pem = key->ToPem(),
                                                 .serial = context_.issuer.NewSerial(),
                                                 .now = now,
                                                 .life = context_.issuer.Clamp(life, now),
                                                 .claim = claim});
  keys_.FindOperators(
      *key, KeyNews::kRecent,
      [this, id = *id, job, answer](const Result<IdentityKeys::Tenants>& operators) {
        if (!operators->empty()) return answer(Fail(KeyOfAnother(id)));
        EditAgent(id, job, answer);
      });
}

void RenewalService::EditAgent(const InstanceId& id, const std::shared_ptr<AgentJob>& job,
                               const Answer& answer) {
  context_.fleet.EditRecord(
      id,
      [job](InstanceRecord& record) -> Status {
        job->cloned = false;
        if (record.blocked) return Fail(Unauthenticated(std::string(kCloned)));
        const bool past_drain = record.drain && record.drain->delete_at < job->now;
        if ((record.phase != InstancePhase::kRegistered &&
             record.phase != InstancePhase::kDraining) ||
            past_drain) {
          return Fail(PermissionDenied("the instance is being deleted"));
        }
        const bool older = record.cert_serial != job->presented_serial;
        if (older && record.public_key_pem == job->key_pem) return {};  // The answer was lost.
        if (older && !Planted(Plant::kCloneIsFine)) {
          job->cloned = true;
          record.blocked = RecordMark{.reason = "identity_clone", .at = job->now};
          return {};
        }
        record.public_key_pem = job->key_pem;
        record.cert_serial = job->serial.decimal();
        record.cert_issued_at = job->now;
        record.cert_expires_at = job->now + job->life;
        record.generation += Planted(Plant::kKeepsGeneration) ? 0 : 1;
        return {};
      },
      [this, job, answer, id](const Result<StoredRecord>& stored) {
        if (!stored.has_value()) {
          if (stored.error().code == Code::kNotFound) {
            return answer(Fail(PermissionDenied("the instance is being deleted")));
          }
          return answer(Fail(stored.error()));
        }
        if (job->cloned) {
          context_.alarm(
              {.name = "identity_clone", .detail = "two machines use it", .instance_id = id});
          return answer(Fail(Unauthenticated(std::string(kCloned))));
        }
        IssueAgentCertificate(
            context_, stored->record, "renew", [answer](Result<IssuedCertificate> issued) {
              AtStep(Step::kW6);
              if (!issued.has_value()) return answer(Fail(std::move(issued).error()));
              answer(api::RenewCertificateResponse{.client_certificate_pem = std::move(issued->pem),
                                                   .expires_at = issued->expires_at});
            });
      },
      Step::kW8);
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
  const crypto::PeerIdentity& caller = *info.peer.identity;
  const KeyClaim claim = keys_.Claim(*key, "operator " + caller.id + " " + caller.serial);
  if (context_.fleet.FindByKey(HexEncode(key->SpkiSha256())) != nullptr || claim == nullptr) {
    return answer(Fail(KeyOfAnother(caller.tenant)));
  }
  const std::uint64_t number = next_++;
  operators_[number] = std::make_unique<OperatorJob>(OperatorJob{
      .caller = caller,
      .key = *key,
      .answer = answer,
      .claim = claim,
      .names = {HexEncode(caller.key_sha256).substr(0, kStorageKeyLength), OperatorStorageKey(*key),
                caller.id,
                caller.id.substr(caller.id.size() - std::min(caller.id.size(), kTail))}});
  ReadOperator(number);
}

void RenewalService::ReadOperator(std::uint64_t number) {
  OperatorJob& job = *operators_.at(number);
  job.call = context_.cluster_store.Get(
      OperatorKey(job.caller.tenant, job.names[job.look]),
      [this, number](const Result<Object>& object) { OnOperator(number, object); });
}

void RenewalService::OnOperator(std::uint64_t number, const Result<Object>& object) {
  OperatorJob& job = *operators_.at(number);
  if (!object.has_value()) {
    if (object.error().code != Code::kNotFound) {
      return FinishOperator(number, Fail(Unavailable(object.error().message)));
    }
    if (++job.look < job.names.size()) return ReadOperator(number);
    return FinishOperator(number, Fail(Unauthenticated("the operator is not registered")));
  }
  Result<OperatorRecord> record = DecodeOperatorRecord(object->bytes);
  if (!record.has_value()) return FinishOperator(number, Fail(record.error()));
  job.record = std::move(record).value();
  if (job.record.cert_serial == job.caller.serial) return CheckFree(number, *object);
  if (job.record.public_key_pem == job.key.ToPem()) return NameOperator(number);
  FinishOperator(number, Fail(CloneOf(job.caller.tenant)));
}

void RenewalService::CheckFree(std::uint64_t number, Object object) {
  OperatorJob& job = *operators_.at(number);
  if (OperatorStorageKey(job.key) == job.names[job.look]) return WriteOperator(number, object);
  keys_.FindOperators(
      job.key, KeyNews::kFresh,
      [this, number, object = std::move(object)](const Result<IdentityKeys::Tenants>& holders) {
        if (!holders.has_value()) {
          return FinishOperator(number, Fail(holders.error()));
        }
        if (holders->empty()) return WriteOperator(number, object);
        // Perhaps by ourselves: another call was faster, and the record tells.
        OperatorJob& held = *operators_.at(number);
        const bool own = *holders == IdentityKeys::Tenants{held.caller.tenant};
        if (own && !std::exchange(held.read_again, true)) {
          return ReadOperator(number);
        }
        FinishOperator(number, Fail(KeyOfAnother(operators_.at(number)->caller.tenant)));
      });
}

void RenewalService::WriteOperator(std::uint64_t number, const Object& object) {
  if (!context_.leader.may_start(context_.leader.store_timeout)) {
    return FinishOperator(number, Fail(Unavailable("the lease is about to end")));
  }
  OperatorJob& job = *operators_.at(number);
  const Timestamp now = context_.loop.WallNow().TruncatedToSecond();
  if (Status good = context_.issuer.CheckClock(now); !good) {
    return FinishOperator(number, Fail(good.error()));
  }
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
      SettledPut::Request{.put = {.key = OperatorKey(job.caller.tenant, job.names[job.look]),
                                  .bytes = EncodeOperatorRecord(job.record),
                                  .condition = IfVersion{object.version}},
                          .deadline = context_.loop.Now() + kSettleLimit},
      [this, number](const Result<ObjectVersion>& version) {
        if (version.has_value()) return NameOperator(number);
        if (version.error().code != Code::kAborted) {
          return FinishOperator(number, Fail(Unavailable(version.error().message)));
        }
        OperatorJob& lost = *operators_.at(number);
        if (++lost.retries > kMaxRetries) {
          return FinishOperator(number, Fail(Aborted("the operator's record keeps changing")));
        }
        ReadOperator(number);
      });
  AtStep(Step::kW8);
  job.put->Start();
}

// A record is found by the key of the certificate presented: the new key needs a name of its own.
void RenewalService::NameOperator(std::uint64_t number) {
  OperatorJob& job = *operators_.at(number);
  const std::string name = OperatorStorageKey(job.key);
  if (name == job.names[job.look]) return IssueOperator(number);
  job.put = std::make_unique<SettledPut>(
      SettledPut::Deps{context_.loop, context_.cluster_store, context_.jitter},
      SettledPut::Request{.put = {.key = OperatorKey(job.caller.tenant, name),
                                  .bytes = EncodeOperatorRecord(job.record),
                                  .condition = IfAbsent{}},
                          .deadline = context_.loop.Now() + kSettleLimit},
      [this, number](const Result<ObjectVersion>& version) {
        if (version.has_value()) return CheckStillFree(number);
        if (version.error().code == Code::kAborted) return ReadName(number);
        FinishOperator(number, Fail(Unavailable(version.error().message)));
      });
  AtStep(Step::kW8);
  job.put->Start();
}

// There already: by an earlier try whose answer was lost, or another's.
void RenewalService::ReadName(std::uint64_t number) {
  OperatorJob& job = *operators_.at(number);
  job.call = context_.cluster_store.Get(
      OperatorKey(job.caller.tenant, OperatorStorageKey(job.key)),
      [this, number](const Result<Object>& object) {
        if (!object.has_value()) {
          return FinishOperator(number, Fail(Unavailable(object.error().message)));
        }
        const OperatorJob& of = *operators_.at(number);
        const Result<OperatorRecord> record = DecodeOperatorRecord(object->bytes);
        if (!record.has_value()) return FinishOperator(number, Fail(record.error()));
        if (record->cert_serial == of.record.cert_serial) return CheckStillFree(number);
        if (record->client_id == of.record.client_id && record->generation > of.record.generation) {
          // The certificate that is asked for again has been renewed since.
          return FinishOperator(number, Fail(CloneOf(of.caller.tenant)));
        }
        FinishOperator(number, Fail(KeyOfAnother(operators_.at(number)->caller.tenant)));
      });
}

// Two tenants that ask for one key at the same moment: the later to write sees the other's name.
void RenewalService::CheckStillFree(std::uint64_t number) {
  OperatorJob& job = *operators_.at(number);
  keys_.FindOperators(job.key, KeyNews::kFresh,
                      [this, number](const Result<IdentityKeys::Tenants>& holders) {
                        if (!holders.has_value()) {
                          return FinishOperator(number, Fail(holders.error()));
                        }
                        if (holders->size() > 1) {
                          const TenantId& tenant = operators_.at(number)->caller.tenant;
                          return FinishOperator(number, Fail(KeyOfAnother(tenant)));
                        }
                        IssueOperator(number);
                      });
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
                         .life = expires - job.record.issued_at(),
                         .log_step = Step::kW4,
                         .sign_step = Step::kW5},
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
  if (answer.has_value()) {
    rows_.Write({.tenant = job->caller.tenant, .storage_key = job->names[job->look]}, job->record);
    rows_.Write({.tenant = job->caller.tenant, .storage_key = OperatorStorageKey(job->key)},
                job->record);
  }
  AtStep(Step::kW6);
  job->answer(std::move(answer));
}

}  // namespace nstance
