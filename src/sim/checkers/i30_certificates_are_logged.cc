// I-30: every certificate is in the log before it leaves the process; serials are unique for ever;
// notAfter <= policy and <= the CA's.
//
// Two log entries may have one serial only if they tell of the same certificate (a repeat whose
// first entry was not seen). Lives are compared without wall clocks: notAfter - notBefore, less the
// five minutes that every certificate begins early.
#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "core/config/config.h"
#include "crypto/certificate_authority.h"
#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

std::string TextOf(const json::Value& value, std::string_view key) {
  const json::Value* found = value.Find(key);
  return found == nullptr || found->if_string() == nullptr ? std::string() : *found->if_string();
}

class I30CertificatesAreLogged final : public Checker {
 public:
  explicit I30CertificatesAreLogged(CheckerWorld& world) : Checker("I-30", world) {}

  void OnChange(const SimChange& change) override {
    if (change.after == nullptr || !change.key.text().starts_with("certlog/")) return;
    if (change.before != nullptr && !IsByHand(change)) {
      return Violated(fmt::format("{} wrote {} again", change.process, change.key.text()));
    }
    const Result<json::Value> entry = json::Parse(change.after->bytes);
    const json::Value* list = entry.has_value() ? entry->Find("certificates") : nullptr;
    if (list == nullptr || list->if_array() == nullptr) {
      return Violated(fmt::format("{} does not read", change.key.text()));
    }
    for (const json::Value& one : *list->if_array()) {
      const std::string what = TextOf(*entry, "tenant") + "/" + TextOf(*entry, "instance_id") +
                               " until " + TextOf(one, "expires_at");
      const auto [at, first] = logged_.try_emplace(TextOf(one, "serial_number"), what);
      if (first || at->second == what) continue;
      Violated(
          fmt::format("serial {} is in the log for {} and for {}", at->first, at->second, what));
    }
  }

  void OnCertificate(const IssuedCertificate& issued) override {
    const crypto::CertificateFacts& facts = issued.certificate.facts();
    const std::string serial = facts.serial.decimal();
    if (!logged_.contains(serial)) {
      return Violated(fmt::format("{} was given certificate {}, which is not in the log",
                                  issued.process, serial));
    }
    const auto [at, first] = given_.try_emplace(serial, issued.certificate.der());
    if (!first && at->second != issued.certificate.der()) {
      return Violated(
          fmt::format("{} was given another certificate with serial {}", issued.process, serial));
    }
    const bool agent =
        facts.roles.size() == 1 &&
        std::ranges::equal(facts.roles.front(), crypto::RoleExtension(crypto::Role::kAgent));
    const Duration policy =
        agent ? world().setting().agent_life : config::OperatorCertificate().ttl;
    const Duration life = facts.not_after - facts.not_before - crypto::kNotBeforeMargin;
    if (life > policy) {
      return Violated(fmt::format("{} was given certificate {} for {}; the policy is {}",
                                  issued.process, serial, FormatDuration(life),
                                  FormatDuration(policy)));
    }
    JudgeAuthority(issued, serial);
  }

 private:
  void JudgeAuthority(const IssuedCertificate& issued, const std::string& serial) {
    if (!authority_end_) {
      const Object* bundle = world().bucket().Find(ObjectKey::Parse("ca.crt").value());
      if (bundle == nullptr) return;
      const auto roots = crypto::TrustBundleFromPem(bundle->bytes);
      if (!roots.has_value()) return;
      authority_end_ = roots->front().facts().not_after;
    }
    if (issued.certificate.facts().not_after <= *authority_end_) return;
    Violated(fmt::format("certificate {} outlives the authority", serial));
  }

  std::map<std::string, std::string> logged_;  // By serial: for whom, until when.
  std::map<std::string, Bytes> given_;         // By serial: the bytes.
  std::optional<Timestamp> authority_end_;
};

}  // namespace

std::unique_ptr<Checker> MakeI30(CheckerWorld& world) {
  return std::make_unique<I30CertificatesAreLogged>(world);
}

}  // namespace nstance::sim
