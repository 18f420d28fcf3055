#include "admin/shard/identity.h"

#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "crypto/certificate.h"
#include "crypto/clock_skew.h"
#include "crypto/ed25519.h"
#include "crypto/verify_peer.h"

namespace nstance::admin {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{256} * 1024;
constexpr const char* kMakeOne =
    "make one with `nstance-admin cluster register-operator`, or name another folder with "
    "--identity-dir";

Result<std::string> ReadOne(const std::string& path, const ReadFile& read) {
  auto text = read(path, kMaxBytes);
  if (text) return text;
  return Fail(FailedPrecondition(
      fmt::format("the identity cannot be read: {}; {}", text.error().message, kMakeOne)));
}

Error Malformed(const std::string& path, const Error& error) {
  return FailedPrecondition(fmt::format("{}: {}; {}", path, error.message, kMakeOne));
}

// In the words of somebody who wonders what to do.
Error Unusable(const std::string& path, const crypto::Certificate& certificate, const Error& why,
               Timestamp now) {
  const crypto::CertificateFacts& facts = certificate.facts();
  if (facts.not_after + crypto::kClockSkew < now) {
    return Unauthenticated(
        fmt::format("{} expired at {}; {}", path, FormatTimestamp(facts.not_after), kMakeOne));
  }
  if (now + crypto::kClockSkew < facts.not_before) {
    return Unauthenticated(fmt::format("{} is valid only from {} on; check this machine's clock",
                                       path, FormatTimestamp(facts.not_before)));
  }
  return Unauthenticated(fmt::format("{} would be refused: {}; {}", path, why.message, kMakeOne));
}

}  // namespace

Result<OperatorIdentity> ReadIdentity(const std::string& folder, const ReadFile& read,
                                      Timestamp now) {
  const std::string roots_path = folder + "/ca.crt";
  const std::string key_path = folder + "/identity.key";
  const std::string certificate_path = folder + "/identity.crt";
  ASSIGN_OR_RETURN(const std::string roots_text, ReadOne(roots_path, read));
  ASSIGN_OR_RETURN(const std::string certificate_text, ReadOne(certificate_path, read));
  ASSIGN_OR_RETURN(const std::string key_text, ReadOne(key_path, read));

  auto roots = crypto::TrustBundleFromPem(roots_text);
  if (!roots) return Fail(Malformed(roots_path, roots.error()));
  auto certificate = crypto::Certificate::FromPem(certificate_text);
  if (!certificate) return Fail(Malformed(certificate_path, certificate.error()));
  auto key = crypto::PrivateKey::FromPem(key_text);
  if (!key) return Fail(Malformed(key_path, key.error()));
  if (certificate->facts().public_key != key->public_key()) {
    return Fail(FailedPrecondition(
        fmt::format("{} does not belong to {}; {}", key_path, certificate_path, kMakeOne)));
  }
  const std::vector<Bytes> chain = {certificate->der()};
  const crypto::PeerVerdict verdict = crypto::VerifyPeer({.chain = chain,
                                                          .roots = *roots,
                                                          .now = now,
                                                          .usage = crypto::PeerUsage::kClient,
                                                          .source = {}});
  if (!verdict.identity) {
    return Fail(Unusable(certificate_path, *certificate, verdict.identity.error(), now));
  }
  if (verdict.identity->role != crypto::Role::kOperator) {
    return Fail(
        PermissionDenied(fmt::format("{} is the certificate of an agent, not of an "
                                     "operator; {}",
                                     certificate_path, kMakeOne)));
  }
  auto material = std::make_shared<RpcTlsMaterial>();
  material->chain.push_back(*std::move(certificate));
  material->key = std::make_shared<const crypto::PrivateKey>(*std::move(key));
  material->roots = *std::move(roots);
  return OperatorIdentity{
      .folder = folder, .tenant = verdict.identity->tenant, .tls = std::move(material)};
}

}  // namespace nstance::admin
