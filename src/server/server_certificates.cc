#include "server/server_certificates.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "crypto/secret.h"

namespace nstance {
namespace {

constexpr Duration kCaWarning = Duration::Days(90);
constexpr Duration kRetry = Duration::Minutes(1);

}  // namespace

std::vector<std::string> GrpcHosts(const config::Addresses& bind,
                                   const config::Addresses& advertised,
                                   const std::string& provider_alias) {
  std::vector<std::string> hosts;
  for (const config::Addresses* addresses : {&bind, &advertised}) {
    for (const config::Address* address :
         {&addresses->registration_addr, &addresses->operator_addr, &addresses->agent_addr}) {
      hosts.push_back(address->host);
    }
  }
  hosts.push_back(provider_alias);
  return hosts;
}

std::vector<std::string> ElectionHosts(const config::Addresses& advertised) {
  return {advertised.election_addr.host};
}

ServerCertificates::ServerCertificates(Deps deps, Options options, Changed changed)
    : deps_(std::move(deps)), options_(std::move(options)), changed_(std::move(changed)) {}

Status ServerCertificates::Start(ClusterIdentityRef identity) {
  CHECK(identity != nullptr, "no identity");
  identity_ = std::move(identity);
  const Status made = Make();
  if (material_ != nullptr) Plan(made.has_value());
  return made;
}

std::optional<Timestamp> ServerCertificates::not_after() const {
  if (material_ == nullptr) return std::nullopt;
  return material_->chain.front().facts().not_after;
}

Status ServerCertificates::Make() {
  crypto::Secret seed(crypto::PrivateKey::kSeedSize);
  deps_.random.Fill(seed.MutableBytes());
  auto key = std::make_shared<const crypto::PrivateKey>(
      crypto::PrivateKey::FromSeed(seed.Reveal().first<crypto::PrivateKey::kSeedSize>()));
  const Timestamp now = deps_.loop.WallNow();
  const crypto::CertificateAuthority& authority = *identity_->authority;
  // Whole seconds, as certificates have them, so that the end is not after the CA's.
  const Duration ca_rest = authority.certificate().facts().not_after - now.TruncatedToSecond();
  const Duration life = std::min(options_.life, ca_rest);
  ASSIGN_OR_RETURN(crypto::Certificate certificate,
                   Under(authority.IssueServer(
                             {.hosts = options_.hosts}, key->public_key(),
                             {.serial = crypto::SerialNumber::FromRandom(deps_.random.Array<16>()),
                              .issued_at = now,
                              .life = life}),
                         "server certificate"));
  material_ = std::make_shared<const RpcTlsMaterial>(RpcTlsMaterial{
      .chain = {std::move(certificate)}, .key = std::move(key), .roots = identity_->roots});
  renew_at_ = deps_.loop.Now() + (life / 2);
  made_for_ = identity_;
  made_at_wall_ = now;
  renew_at_wall_ = now + (life / 2);
  changed_(material_);
  return {};
}

void ServerCertificates::Check() {
  const Timestamp wall = deps_.loop.WallNow();
  const bool due = deps_.loop.Now() >= renew_at_ || wall >= renew_at_wall_ ||
                   wall < made_at_wall_ || made_for_ != identity_;
  const Status made = due ? Make() : Status();
  if (!made) {
    deps_.log.Error("server certificate not renewed; the old one stays", {{"error", made.error()}});
  }
  Plan(made.has_value());
}

void ServerCertificates::Plan(bool made) {
  WarnOfCaEnd();
  const Duration rest = std::max(renew_at_ - deps_.loop.Now(), kRetry);
  timer_ = deps_.loop.CallAfter(made ? std::min(options_.check_interval, rest) : kRetry,
                                [this] { Check(); });
}

void ServerCertificates::WarnOfCaEnd() {
  const Timestamp end = identity_->authority->certificate().facts().not_after;
  const Instant now = deps_.loop.Now();
  if (end - deps_.loop.WallNow() > kCaWarning) return;
  if (warned_at_ && now - *warned_at_ < Duration::Days(1)) return;
  warned_at_ = now;
  deps_.log.Warning("the cluster's CA certificate ends soon", {{"not_after", end}});
}

}  // namespace nstance
