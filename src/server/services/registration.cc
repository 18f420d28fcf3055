#include "server/services/registration.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "base/text.h"
#include "core/joiner_input.h"
#include "core/object_layout.h"
#include "core/operator_record.h"
#include "crypto/digest.h"
#include "server/services/agent_certificate.h"
#include "server/services/features.h"

namespace nstance {
namespace {

constexpr std::string_view kRefused = "registration refused";
constexpr std::string_view kForeignKey = "public_key_pem: the key belongs to another identity";
constexpr Duration kSettleLimit = Duration::Seconds(6);
constexpr std::size_t kMaxKeyBytes = std::size_t{4} * 1024;

Loopback LoopbackFor(const config::Config& config) {
  const config::ProviderKind kind = config.server.provider.kind;
  return kind == config::ProviderKind::kLocal || kind == config::ProviderKind::kQemu
             ? Loopback::kAllowed
             : Loopback::kRefused;
}

bool TenantIsKnown(const config::Config& config, const TenantId& tenant) {
  return tenant == DefaultTenant() || config.tenants.contains(tenant);
}

bool MayRegister(InstancePhase phase) {
  return phase == InstancePhase::kCreating || phase == InstancePhase::kProvisioned ||
         phase == InstancePhase::kRegistered;
}

bool SameToken(const InstanceRecord& record, const std::string& token_sha256) {
  return !record.nonce_sha256.empty() &&
         crypto::ConstantTimeEqual(AsBytes(record.nonce_sha256), AsBytes(token_sha256));
}

}  // namespace

// An agent on its way in, until its token is consumed.
struct RegistrationService::Joiner {
  InstanceId id;
  std::string token_sha256;
  crypto::PublicKey key;
  std::string hostname;
  std::string ipv4;
  std::string ipv6;
  crypto::SerialNumber serial;
  Timestamp now = {};
  Duration life = {};
  KeyClaim claim;
  bool reused = false;  // Another key has consumed the token.
};

struct RegistrationService::OperatorJob {
  crypto::RegistrationClaims claims;
  crypto::PublicKey key;
  std::string key_pem;  // The submitted bytes.
  std::string token_sha256;
  KeyClaim claim;
  OperatorRecord record = {};
  Answer answer;
  std::unique_ptr<SettledPut> put = nullptr;
  std::unique_ptr<OperatorEnrolment> enrolment = nullptr;
  Pending call = {};
};

RegistrationService::RegistrationService(ServiceContext& context, IdentityKeys& keys,
                                         OperatorRows& rows)
    : context_(context), keys_(keys), rows_(rows) {}
RegistrationService::~RegistrationService() = default;

Error RegistrationService::Invalid(std::string_view reason, std::string message) const {
  return BadInput(context_, reason, InvalidArgument(std::move(message)));
}

Error RegistrationService::KeyOfAnother(const InstanceId& id) const {
  context_.alarm(
      {.name = "key_reuse", .detail = "it brings the key of another", .instance_id = id});
  return Invalid("join_key", std::string(kForeignKey));
}

Error RegistrationService::KeyOfAnother(const TenantId& tenant) const {
  context_.alarm({.name = "key_reuse",
                  .detail = "an operator of tenant " + tenant.text() + " brings the key of another",
                  .tenant = tenant});
  return Invalid("join_key", std::string(kForeignKey));
}

// What no parser has counted.
Error RegistrationService::RefuseInput(const std::string& reason) const {
  context_.source.Bad("join");
  return Refuse(reason);
}

Error RegistrationService::Refuse(const std::string& reason) const {
  context_.log.Info("registration refused", {{"reason", reason}});
  return Unauthenticated(std::string(kRefused));
}

// --- Common --------------------------------------------------------------------------------------

Result<crypto::RegistrationClaims> RegistrationService::Verify(const Request& request,
                                                               crypto::TokenKind kind) {
  AtStep(Step::kR2);
  const std::array keys = {context_.identity->nonce_key->public_key()};
  Result<crypto::RegistrationClaims> claims = crypto::VerifyRegistrationToken(
      request.registration_nonce_jwt,
      {.keys = keys, .now = context_.loop.WallNow(), .kind = kind, .source = context_.source});
  if (!claims.has_value()) {
    if (claims.error().code == Code::kResourceExhausted) return claims;
    return Fail(Refuse(claims.error().message));
  }
  if (claims->cluster != context_.cluster.text()) {
    return Fail(Invalid("join_token", "the token is for another cluster"));
  }
  if (kind == crypto::TokenKind::kAgent && claims->shard != context_.shard.text()) {
    return Fail(Invalid("join_token", "the token is for another shard"));
  }
  return claims;
}

Result<crypto::PublicKey> RegistrationService::CheckKey(const Request& request) {
  if (request.public_key_pem.size() > kMaxKeyBytes) {
    return Fail(Invalid("join_key", "public_key_pem: longer than 4 KiB"));
  }
  Result<crypto::PublicKey> key =
      crypto::PublicKey::FromPem(request.public_key_pem, context_.source);
  if (!key.has_value()) {
    return Fail(InvalidArgument("public_key_pem: " + key.error().message));
  }
  const bool require = context_.config.current()->config.server.registration.require_proof;
  if (request.proof.empty()) {
    if (require) return Fail(RefuseInput("the proof of possession is missing"));
    return key;
  }
  AtStep(Step::kR4);
  const Status proven = crypto::VerifyJoinProof(*key, request.registration_nonce_jwt,
                                                context_.cluster, AsBytes(request.proof));
  if (!proven.has_value()) return Fail(RefuseInput(proven.error().message));
  return key;
}

// --- Agents --------------------------------------------------------------------------------------

void RegistrationService::RegisterAgent(std::unique_ptr<RpcServerCall> call) {
  calls_.Serve(api::kRegisterAgent, std::move(call),
               [this](const Request& request, const RpcCallInfo& info, const Answer& answer) {
                 HandleAgent(request, info, answer);
               });
}

void RegistrationService::HandleAgent(const Request& request, const RpcCallInfo& info,
                                      const Answer& answer) {
  AtStep(Step::kR1);
  const Result<crypto::RegistrationClaims> claims = Verify(request, crypto::TokenKind::kAgent);
  if (!claims.has_value()) return answer(Fail(claims.error()));
  const Result<InstanceId> id = ParsePuidv7(claims->subject);
  if (!id.has_value()) return answer(Fail(RefuseInput("the subject is no instance id")));
  const std::string token_sha256 = crypto::TokenSha256Hex(request.registration_nonce_jwt);
  if (Planted(Plant::kTokenInLog)) {
    context_.log.Debug("joining", {{"token", request.registration_nonce_jwt}});
  }
  AtStep(Step::kR3);
  const Instance* instance = context_.fleet.Find(claims->tenant, *id);
  if (instance == nullptr || instance->record() == nullptr ||
      !SameToken(*instance->record(), token_sha256) || !MayRegister(instance->record()->phase)) {
    return answer(
        Fail(RefuseInput(fmt::format("no instance {} waits for this token", id->text()))));
  }
  const Result<crypto::PublicKey> key = CheckKey(request);
  if (!key.has_value()) return answer(Fail(key.error()));
  const Instance* holder = context_.fleet.FindByKey(HexEncode(key->SpkiSha256()));
  const KeyClaim claim = keys_.Claim(*key, id->text());
  if ((holder != nullptr && holder->id != *id) || claim == nullptr) {
    return answer(Fail(KeyOfAnother(*id)));
  }
  const Status facts = CheckFacts(request);
  if (!facts.has_value()) return answer(Fail(Invalid("join_facts", facts.error().message)));
  const config::AgentCertificate& terms = context_.config.current()->config.certificates.agent;
  const Timestamp now = context_.loop.WallNow().TruncatedToSecond();
  if (Status good = context_.issuer.CheckClock(now); !good) return answer(Fail(good.error()));
  const Duration life = HasFeature(info.metadata, Feature::kRenew) ? terms.ttl : terms.legacy_ttl;
  const auto joiner = std::make_shared<Joiner>(Joiner{.id = *id,
                                                      .token_sha256 = token_sha256,
                                                      .key = *key,
                                                      .hostname = request.hostname,
                                                      .ipv4 = request.private_ipv4,
                                                      .ipv6 = request.private_ipv6,
                                                      .serial = context_.issuer.NewSerial(),
                                                      .now = now,
                                                      .life = context_.issuer.Clamp(life, now),
                                                      .claim = claim});
  keys_.FindOperators(*key, KeyNews::kRecent,
                      [this, joiner, answer](const Result<IdentityKeys::Tenants>& operators) {
                        if (!operators->empty()) {
                          return answer(Fail(KeyOfAnother(joiner->id)));
                        }
                        ConsumeAgentToken(joiner, answer);
                      });
}

Status RegistrationService::CheckFacts(const Request& request) const {
  const Loopback loopback = LoopbackFor(context_.config.current()->config);
  if (!request.hostname.empty()) RETURN_IF_ERROR(CheckJoinerHostname(request.hostname));
  if (!request.private_ipv4.empty()) {
    RETURN_IF_ERROR(CheckJoinerIpv4(request.private_ipv4, loopback));
  }
  if (!request.private_ipv6.empty()) {
    RETURN_IF_ERROR(CheckJoinerIpv6(request.private_ipv6, loopback));
  }
  return {};
}

void RegistrationService::ConsumeAgentToken(const std::shared_ptr<Joiner>& joiner,
                                            const Answer& answer) {
  context_.fleet.EditRecord(
      joiner->id,
      [joiner](InstanceRecord& record) -> Status {
        joiner->reused = false;
        if (record.blocked) return Fail(Unauthenticated("the identity is blocked"));
        if (!SameToken(record, joiner->token_sha256) || !MayRegister(record.phase)) {
          return Fail(Unauthenticated("the token is not this instance's any more"));
        }
        const std::string pem = joiner->key.ToPem();
        const bool same = record.public_key_pem == pem && record.generation <= 1;
        if (record.registered_at && same && !Planted(Plant::kRepeatMakesNew)) return {};
        if (record.registered_at && !same && !Planted(Plant::kAcceptsAnyKey)) {
          joiner->reused = true;
          return Fail(Unauthenticated("the token was consumed by another key"));
        }
        record.phase = InstancePhase::kRegistered;
        record.phase_at = joiner->now;
        record.registered_at = joiner->now;
        record.public_key_pem = pem;
        record.cert_serial = joiner->serial.decimal();
        record.cert_issued_at = joiner->now;
        record.cert_expires_at = joiner->now + joiner->life;
        record.generation = 1;
        record.cert_scope = "instance";
        if (!joiner->hostname.empty()) record.hostname = joiner->hostname;
        if (!joiner->ipv4.empty()) record.private_ipv4 = joiner->ipv4;
        if (!joiner->ipv6.empty()) record.private_ipv6 = joiner->ipv6;
        return {};
      },
      [this, joiner, answer](const Result<StoredRecord>& stored) {
        if (stored.has_value()) {
          return IssueAgentCertificate(
              context_, stored->record, "join", [answer](Result<IssuedCertificate> issued) {
                AtStep(Step::kR9);
                if (!issued.has_value()) return answer(Fail(std::move(issued).error()));
                answer(api::RegisterClientResponse{.client_certificate_pem = std::move(issued->pem),
                                                   .expires_at = issued->expires_at});
              });
        }
        if (stored.error().code == Code::kUnauthenticated) {
          if (joiner->reused) {
            context_.alarm({.name = "nonce_reuse",
                            .detail = "its token with another key",
                            .instance_id = joiner->id});
          }
          return answer(Fail(RefuseInput(stored.error().message)));
        }
        if (stored.error().code == Code::kNotFound) {
          return answer(Fail(Refuse("the record is gone")));
        }
        answer(Fail(stored.error()));
      },
      Step::kR5);
}

// --- Operators -----------------------------------------------------------------------------------

void RegistrationService::RegisterOperator(std::unique_ptr<RpcServerCall> call) {
  calls_.Serve(api::kRegisterOperator, std::move(call),
               [this](const Request& request, const RpcCallInfo&, const Answer& answer) {
                 HandleOperator(request, answer);
               });
}

void RegistrationService::HandleOperator(const Request& request, const Answer& answer) {
  AtStep(Step::kR1);
  const Result<crypto::RegistrationClaims> claims = Verify(request, crypto::TokenKind::kOperator);
  if (!claims.has_value()) return answer(Fail(claims.error()));
  if (claims->subject != context_.cluster.text()) {
    return answer(Fail(Invalid("join_token", "the token is for another cluster")));
  }
  if (!TenantIsKnown(context_.config.current()->config, claims->tenant)) {
    return answer(Fail(BadInput(context_, "join_token",
                                FailedPrecondition("the token's tenant is not in the "
                                                   "configuration"))));
  }
  if (Status good = context_.issuer.CheckClock(context_.loop.WallNow()); !good) {
    return answer(Fail(good.error()));
  }
  const Result<crypto::PublicKey> key = CheckKey(request);
  if (!key.has_value()) return answer(Fail(key.error()));
  const std::string who = "an operator of tenant " + claims->tenant.text();
  const KeyClaim claim = keys_.Claim(*key, who);
  if (context_.fleet.FindByKey(HexEncode(key->SpkiSha256())) != nullptr || claim == nullptr) {
    return answer(Fail(KeyOfAnother(claims->tenant)));
  }
  const std::uint64_t number = next_++;
  operators_[number] = std::make_unique<OperatorJob>(
      OperatorJob{.claims = *claims,
                  .key = *key,
                  .key_pem = request.public_key_pem,
                  .token_sha256 = crypto::TokenSha256Hex(request.registration_nonce_jwt),
                  .claim = claim,
                  .answer = answer});
  keys_.FindOperators(
      *key, KeyNews::kFresh,
      [this, number, tenant = claims->tenant](Result<IdentityKeys::Tenants> holders) {
        if (!holders.has_value()) return FinishOperator(number, Fail(std::move(holders).error()));
        holders->erase(tenant);
        if (!holders->empty()) return FinishOperator(number, Fail(KeyOfAnother(tenant)));
        ConsumeOperatorToken(number);
      });
}

// Single use by a create-only object that holds the key's bytes.
void RegistrationService::ConsumeOperatorToken(std::uint64_t number) {
  if (!context_.leader.may_start(context_.leader.store_timeout)) {
    return FinishOperator(number, Fail(Unavailable("the lease is about to end")));
  }
  OperatorJob& job = *operators_.at(number);
  job.put = std::make_unique<SettledPut>(
      SettledPut::Deps{context_.loop, context_.cluster_store, context_.jitter},
      SettledPut::Request{.put = {.key = OperatorNonceKey(job.token_sha256),
                                  .bytes = job.key_pem,
                                  .condition = IfAbsent{}},
                          .deadline = context_.loop.Now() + kSettleLimit},
      [this, number](const Result<ObjectVersion>& version) {
        if (version.has_value()) return WriteOperator(number);
        if (version.error().code == Code::kAborted) return ReadOperatorToken(number);
        FinishOperator(number, Fail(Unavailable(version.error().message)));
      });
  AtStep(Step::kR5);
  job.put->Start();
}

void RegistrationService::ReadOperatorToken(std::uint64_t number) {
  OperatorJob& job = *operators_.at(number);
  job.call = context_.cluster_store.Get(
      OperatorNonceKey(job.token_sha256), [this, number](const Result<Object>& object) {
        if (!object.has_value()) {
          return FinishOperator(number, Fail(Unavailable(object.error().message)));
        }
        if (object->bytes == operators_.at(number)->key_pem) return WriteOperator(number);
        context_.alarm({.name = "nonce_reuse",
                        .detail = "an operator's token with another key",
                        .tenant = operators_.at(number)->claims.tenant});
        FinishOperator(number, Fail(RefuseInput("the token was consumed by another key")));
      });
}

void RegistrationService::WriteOperator(std::uint64_t number) {
  OperatorJob& job = *operators_.at(number);
  const Timestamp now = context_.loop.WallNow().TruncatedToSecond();
  // The record keeps these times for good: they are looked at in the turn that takes them.
  if (Status good = context_.issuer.CheckClock(now); !good) {
    return FinishOperator(number, Fail(good.error()));
  }
  const Duration life =
      context_.issuer.Clamp(context_.config.current()->config.certificates.operators.ttl, now);
  std::array<std::uint8_t, 16> random{};
  context_.random.Fill(random);
  job.record = {.cert_serial = context_.issuer.NewSerial().decimal(),
                .client_id = context_.cluster.text(),
                .expires_at = now + life,
                .generation = 1,
                .public_key_pem = job.key.ToPem(),
                .registered_at = now,
                .registered_by = "nstance-server",
                .nonce_sha256 = job.token_sha256,
                .tenant = job.claims.tenant,
                .write_id = Base64UrlEncode(random)};
  job.enrolment = std::make_unique<OperatorEnrolment>(
      OperatorEnrolment::Deps{.loop = context_.loop,
                              .store = context_.cluster_store,
                              .jitter = context_.jitter,
                              .issuer = context_.issuer},
      OperatorEnrolment::Request{
          .record = job.record, .key = job.key, .settle_limit = kSettleLimit},
      [this, number](Result<EnrolledOperator> enrolled) {
        OnEnrolled(number, std::move(enrolled));
      });
  job.enrolment->Start();
}

void RegistrationService::OnEnrolled(std::uint64_t number, Result<EnrolledOperator> enrolled) {
  if (!enrolled.has_value()) {
    if (enrolled.error().code == Code::kAlreadyExists) {
      return FinishOperator(number, Fail(RefuseInput(enrolled.error().message)));
    }
    if (enrolled.error().code == Code::kInvalidArgument) {
      return FinishOperator(number, Fail(KeyOfAnother(operators_.at(number)->claims.tenant)));
    }
    return FinishOperator(number, Fail(std::move(enrolled).error()));
  }
  if (enrolled->record.expires_at <= context_.loop.WallNow()) {
    return FinishOperator(number, Fail(RefuseInput("the key's certificate has expired")));
  }
  OperatorJob& job = *operators_.at(number);
  keys_.Note(job.key, job.claims.tenant);
  job.record = std::move(enrolled->record);
  FinishOperator(number, api::RegisterClientResponse{
                             .client_certificate_pem = std::move(enrolled->certificate_pem),
                             .expires_at = job.record.expires_at});
}

void RegistrationService::FinishOperator(std::uint64_t number,
                                         Result<api::RegisterClientResponse> answer) {
  const auto at = operators_.find(number);
  // Its own callback may be on the stack: it goes in a turn of its own.
  std::shared_ptr<OperatorJob> job = std::move(at->second);
  operators_.erase(at);
  context_.loop.Post([job] {});
  if (answer.has_value()) {
    context_.log.Info("certificate issued", {{"actor", job->claims.tenant},
                                             {"action", "join"},
                                             {"role", "operator"},
                                             {"expires_at", job->record.expires_at}});
    AtStep(Step::kR8);
    rows_.Write({.tenant = job->claims.tenant, .storage_key = OperatorStorageKey(job->key)},
                job->record);
  }
  AtStep(Step::kR9);
  job->answer(std::move(answer));
}

}  // namespace nstance
