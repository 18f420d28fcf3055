#include "core/agent/own_certificate.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace nstance::agent {

Result<OwnCertificate> ReadOwnCertificate(std::string_view pem, const OwnCertificateRules& rules) {
  Result<crypto::Certificate> parsed = crypto::Certificate::FromPem(pem);
  if (!parsed) return Fail(FailedPrecondition(std::move(parsed).error().message));
  const crypto::CertificateFacts& facts = parsed->facts();
  if (facts.public_key != rules.key) {
    return Fail(FailedPrecondition("the certificate is for another key"));
  }
  const auto agent = crypto::RoleExtension(crypto::Role::kAgent);
  if (facts.roles.size() != 1 || !std::ranges::equal(facts.roles.front(), agent)) {
    return Fail(FailedPrecondition("the certificate is not that of an agent"));
  }
  const auto name = parsed->OnlyPart(crypto::SubjectAttribute::kCommonName);
  if (!name) return Fail(FailedPrecondition("the certificate does not name one instance"));
  Result<InstanceId> instance = ParsePuidv7(*name);
  if (!instance) {
    return Fail(FailedPrecondition(
        fmt::format("the certificate names no instance: {}", instance.error().message)));
  }
  if (rules.instance && *instance != *rules.instance) {
    return Fail(FailedPrecondition(fmt::format("the certificate is for instance {}, this is {}",
                                               instance->text(), rules.instance->text())));
  }
  if (facts.not_after <= facts.not_before) {
    return Fail(FailedPrecondition("the certificate ends before it begins"));
  }
  return OwnCertificate{.certificate = *std::move(parsed), .instance = *std::move(instance)};
}

}  // namespace nstance::agent
