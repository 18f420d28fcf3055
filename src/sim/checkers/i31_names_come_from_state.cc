// I-31: role, tenant, CN and alternative names of a certificate come from server state only.
#include <algorithm>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/identities.h"

namespace nstance::sim {
namespace {

class I31NamesComeFromState final : public Checker {
 public:
  explicit I31NamesComeFromState(CheckerWorld& world) : Checker("I-31", world) {}

  void OnChange(const SimChange& change) override { identities_.OnChange(change, world().truth()); }

  void OnCertificate(const IssuedCertificate& issued) override {
    using enum crypto::SubjectAttribute;
    const crypto::CertificateFacts& facts = issued.certificate.facts();
    const KnownIdentity* known = identities_.Find(facts.serial.decimal());
    if (known == nullptr) return;  // I-28.
    const auto complain = [&](std::string_view what) {
      Violated(fmt::format("certificate {} of {} ({}), given to {}: {}", facts.serial.decimal(),
                           known->name, known->tenant, issued.process, what));
    };
    if (issued.certificate.OnlyPart(kCommonName) != known->name) return complain("another CN");
    if (issued.certificate.OnlyPart(kOrganization) != known->tenant) {
      return complain("another tenant");
    }
    if (facts.roles.size() != 1 ||
        !std::ranges::equal(facts.roles.front(), crypto::RoleExtension(known->role))) {
      return complain("another role");
    }
    const bool named =
        !facts.names.dns.empty() || !facts.names.ip.empty() || !facts.names.uri.empty();
    if (named || facts.is_ca || facts.server_auth) complain("it is good for more than a client");
  }

 private:
  Identities identities_;
};

}  // namespace

std::unique_ptr<Checker> MakeI31(CheckerWorld& world) {
  return std::make_unique<I31NamesComeFromState>(world);
}

}  // namespace nstance::sim
