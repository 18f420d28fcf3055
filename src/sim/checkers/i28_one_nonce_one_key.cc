// I-28: one nonce, at most one key; every client certificate maps to one consumed nonce or one
// renewal.
//
//   - a record's key changes only together with its generation and its serial
//   - no two instances have one token; a consumed operator's token is never written again
//   - a certificate that somebody was given has the key that stored state has for its serial
#include <map>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/identities.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I28OneNonceOneKey final : public Checker {
 public:
  explicit I28OneNonceOneKey(CheckerWorld& world) : Checker("I-28", world) {}

  void OnChange(const SimChange& change) override {
    identities_.OnChange(change, world().truth());
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kRecord) return OnRecord(change, last);
    const bool token = change.key.text().starts_with("operator-nonce/");
    if (token && change.before != nullptr && change.after != nullptr && !IsByHand(change) &&
        change.before->bytes != change.after->bytes) {
      Violated(
          fmt::format("{} wrote {} again, with another key", change.process, change.key.text()));
    }
  }

  void OnCertificate(const IssuedCertificate& issued) override {
    const crypto::CertificateFacts& facts = issued.certificate.facts();
    const KnownIdentity* known = identities_.Find(facts.serial.decimal());
    if (known == nullptr) {
      return Violated(fmt::format("{} was given certificate {}, for which nothing was consumed",
                                  issued.process, facts.serial.decimal()));
    }
    const Result<crypto::PublicKey> key = crypto::PublicKey::FromPem(known->public_key_pem);
    if (!facts.public_key || !key.has_value() || facts.public_key->ToPem() != key->ToPem()) {
      Violated(fmt::format("{} was given certificate {} for another key than {}'s", issued.process,
                           facts.serial.decimal(), known->name));
    }
  }

 private:
  void OnRecord(const SimChange& change, const TruthChange& last) {
    const InstanceRecord* after = world().truth().Find(*last.id);
    if (after == nullptr || IsByHand(change)) return;
    const auto complain = [&](std::string_view what) {
      Violated(fmt::format("{} by {}: {}", last.id->text(), change.process, what));
    };
    if (!after->nonce_sha256.empty()) {
      const auto [at, first] = tokens_.try_emplace(after->nonce_sha256, *last.id);
      if (!first && at->second != *last.id) {
        return complain(fmt::format("it has the token of {}", at->second.text()));
      }
    }
    if (!last.record || last.record->public_key_pem == after->public_key_pem) return;
    if (after->generation == last.record->generation) {
      return complain(fmt::format("its key changed within generation {}", after->generation));
    }
    if (after->cert_serial == last.record->cert_serial) {
      complain("its key changed, its serial did not");
    }
  }

  Identities identities_;
  std::map<std::string, InstanceId> tokens_;
};

}  // namespace

std::unique_ptr<Checker> MakeI28(CheckerWorld& world) {
  return std::make_unique<I28OneNonceOneKey>(world);
}

}  // namespace nstance::sim
