#include "core/cluster_keys_machine.h"

#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance {
namespace {

// Longer than a store shows what is no longer true.
constexpr Duration kSecondLook = Duration::Seconds(10);

ObjectKey Key(std::string_view text) { return *ObjectKey::Parse(text); }

// The store has the value and it is of no use; asking again would give the same.
bool IsUseless(Code code) {
  return code == Code::kDataLoss || code == Code::kFailedPrecondition ||
         code == Code::kInvalidArgument || code == Code::kResourceExhausted;
}

bool AnotherStands(const Error& error) {
  return error.code == Code::kAborted || error.code == Code::kAlreadyExists;
}

}  // namespace

const ObjectKey& CaCertificateKey() {
  static const ObjectKey key = Key("ca.crt");
  return key;
}
const ObjectKey& CaSecretName() {
  static const ObjectKey key = Key("ca.key");
  return key;
}
const ObjectKey& NonceSecretName() {
  static const ObjectKey key = Key("registration-nonce.key");
  return key;
}

ClusterKeysMachine::Options ClusterKeysOptions(const config::Config& config) {
  const config::CaCertificate& ca = config.certificates.ca;
  ClusterKeysMachine::Options options{
      .subject = {.common_name = ca.cn, .organization = ca.organization},
      .ca_life = ca.ttl,
      .secret_prefix = config.server.secrets.prefix};
  if (options.subject.organization.empty()) {
    options.subject.organization.push_back("Nstance Cluster " + config.server.cluster_id.text());
  }
  return options;
}

ClusterKeysMachine::Command ClusterKeysMachine::Start() {
  CHECK(state_ == State::kNew, "started twice");
  return NewRound();
}

ClusterKeysMachine::Command ClusterKeysMachine::NewRound() {
  state_ = State::kCertificate;
  pem_.reset();
  roots_.clear();
  authority_.reset();
  return ReadCertificate{};
}

ClusterKeysMachine::Command ClusterKeysMachine::OnWoke() {
  CHECK(state_ == State::kWaiting, "state {}", static_cast<int>(state_));
  return NewRound();
}

ClusterKeysMachine::Command ClusterKeysMachine::WaitBecause(Error reason, const Input& input) {
  state_ = State::kWaiting;
  return Wait{.length = back_off_.Next(input.jitter), .reason = std::move(reason)};
}

ClusterKeysMachine::Command ClusterKeysMachine::Condemn(Error why, const Input& input) {
  why.code = Code::kFailedPrecondition;
  why.outcome = Outcome::kNotDone;
  if (suspicion_ == why) {
    state_ = State::kDone;
    return Fail{.why = std::move(why)};
  }
  suspicion_ = why;
  state_ = State::kWaiting;
  return Wait{.length = kSecondLook + input.jitter.get().UpTo(kSecondLook / 4),
              .reason = std::move(why)};
}

Error ClusterKeysMachine::Unusable(const ObjectKey& name, const Error& error) const {
  return error.Under(fmt::format("secret {}{}", options_.secret_prefix, name.text()));
}

// ---- reading ------------------------------------------------------------------------------------

ClusterKeysMachine::Command ClusterKeysMachine::OnCertificate(Result<std::string> pem,
                                                              const Input& input) {
  CHECK(state_ == State::kCertificate, "state {}", static_cast<int>(state_));
  if (!pem && pem.error().code != Code::kNotFound) {
    Error error = std::move(pem).error().Under("ca.crt");
    if (IsUseless(error.code)) return Condemn(std::move(error), input);
    return WaitBecause(std::move(error), input);
  }
  if (pem) {
    auto roots = crypto::TrustBundleFromPem(*pem, {.interface = "ca.crt"});
    if (!roots) return Condemn(std::move(roots).error().Under("ca.crt"), input);
    roots_ = *std::move(roots);
    pem_ = *std::move(pem);
  }
  state_ = State::kCaKey;
  return ReadSecret{.name = CaSecretName()};
}

ClusterKeysMachine::Command ClusterKeysMachine::OnSecret(Result<crypto::Secret> value,
                                                         const Input& input) {
  CHECK(state_ == State::kCaKey || state_ == State::kNonceKey, "state {}",
        static_cast<int>(state_));
  const ObjectKey& name = state_ == State::kCaKey ? CaSecretName() : NonceSecretName();
  if (!value && value.error().code == Code::kNotFound) return OnMissing(name, input);
  if (!value) {
    Error error = Unusable(name, value.error());
    if (IsUseless(error.code)) return Condemn(std::move(error), input);
    return WaitBecause(std::move(error), input);
  }
  auto key = crypto::PrivateKey::FromPem(AsText(value->Reveal()));
  if (!key) return Condemn(Unusable(name, key.error()), input);
  return state_ == State::kCaKey ? OnCaKey(*std::move(key), input) : OnNonceKey(*std::move(key));
}

ClusterKeysMachine::Command ClusterKeysMachine::OnMissing(const ObjectKey& name,
                                                          const Input& input) {
  if (state_ == State::kCaKey && pem_) {
    return Condemn(FailedPrecondition(
                       fmt::format("ca.crt exists but ca.key is missing: restore the secret {}{}",
                                   options_.secret_prefix, name.text())),
                   input);
  }
  if (input.right == Right::kMayCreate) return CreateKey(name, input);
  return WaitBecause(
      Unavailable(fmt::format("waiting for the cluster leader to create {}", name.text())), input);
}

ClusterKeysMachine::Command ClusterKeysMachine::OnCaKey(crypto::PrivateKey key,
                                                        const Input& input) {
  if (!pem_) {
    if (input.right == Right::kMayCreate) return SelfSign(key, input);
    return WaitBecause(Unavailable("waiting for the cluster leader to create ca.crt"), input);
  }
  auto authority = crypto::CertificateAuthority::Make(roots_.front(), std::move(key));
  if (!authority) return Condemn(std::move(authority).error(), input);
  authority_ = std::make_shared<const crypto::CertificateAuthority>(*std::move(authority));
  state_ = State::kNonceKey;
  return ReadSecret{.name = NonceSecretName()};
}

ClusterKeysMachine::Command ClusterKeysMachine::OnNonceKey(crypto::PrivateKey key) {
  state_ = State::kDone;
  return Finish{.identity = std::make_shared<const ClusterIdentity>(ClusterIdentity{
                    .authority = std::move(authority_),
                    .roots = std::move(roots_),
                    .ca_pem = *std::move(pem_),
                    .nonce_key = std::make_shared<const crypto::PrivateKey>(std::move(key))})};
}

// ---- creating -----------------------------------------------------------------------------------

ClusterKeysMachine::Command ClusterKeysMachine::CreateKey(const ObjectKey& name,
                                                          const Input& input) {
  state_ = State::kCreating;
  return CreateSecret{.name = name, .value = input.new_key.get()().ToPem()};
}

ClusterKeysMachine::Command ClusterKeysMachine::SelfSign(const crypto::PrivateKey& key,
                                                         const Input& input) {
  auto certificate = crypto::IssueCa(options_.subject, key,
                                     {.serial = crypto::SerialNumber::One(),
                                      .issued_at = input.wall_now,
                                      .life = options_.ca_life});
  if (!certificate) {
    return Condemn(std::move(certificate).error().Under("certificates.ca"), input);
  }
  state_ = State::kCreating;
  return CreateCertificate{.pem = certificate->ToPem()};
}

ClusterKeysMachine::Command ClusterKeysMachine::OnCreated(Status status, const Input& input) {
  CHECK(state_ == State::kCreating, "state {}", static_cast<int>(state_));
  if (status || AnotherStands(status.error())) {
    back_off_.Reset();
    return NewRound();
  }
  return WaitBecause(std::move(status).error(), input);
}

}  // namespace nstance
