// I-40: the renewal generation of an identity rises by one with every new certificate, and not at
// all once the identity is blocked. Agents and operators alike. An identity is blocked only if a
// second copy of it was seen to run: an agent that comes back after lost answers is no clone.
//
// And whoever is given a new key shows the certificate of the present generation: a renewal from an
// older one with another key is a copy's, however well its generation follows.
#include <algorithm>

#include <fmt/format.h>

#include "core/operator_record.h"
#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I40GenerationsRise final : public Checker {
 public:
  explicit I40GenerationsRise(CheckerWorld& world) : Checker("I-40", world) {}

  void OnChange(const SimChange& change) override {
    if (IsByHand(change)) return;
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kRecord) return OnRecord(change, last);
    if (change.before == nullptr || change.after == nullptr) return;
    if (!change.key.text().starts_with("operator/")) return;
    const Result<OperatorRecord> before = DecodeOperatorRecord(change.before->bytes);
    const Result<OperatorRecord> after = DecodeOperatorRecord(change.after->bytes);
    if (!before.has_value() || !after.has_value()) return;
    Judge(change, {before->generation, before->cert_serial},
          {after->generation, after->cert_serial});
  }

 private:
  struct Present {
    std::int64_t generation = 0;
    const std::string& serial;
  };

  void OnRecord(const SimChange& change, const TruthChange& last) {
    const InstanceRecord* after = world().truth().Find(*last.id);
    if (after == nullptr || !last.record) return;
    Judge(change, {last.record->generation, last.record->cert_serial},
          {after->generation, after->cert_serial});
    if (!last.record->blocked && after->blocked && !world().AgentCloned(*last.id)) {
      Violated(fmt::format("{} by {}: blocked ({}), and there is no second one of it",
                           change.key.text(), change.process, after->blocked->reason));
    }
    JudgeKey(change, *last.record, *after);
    if (last.record->blocked && after->generation != last.record->generation) {
      Violated(fmt::format("{} by {}: renewed although it is blocked", change.key.text(),
                           change.process));
    }
  }

  void JudgeKey(const SimChange& change, const InstanceRecord& before,
                const InstanceRecord& after) {
    if (before.cert_serial.empty() || before.public_key_pem == after.public_key_pem) return;
    const Result<crypto::PublicKey> key = crypto::PublicKey::FromPem(after.public_key_pem);
    if (!key.has_value()) return;
    const auto shown = world().SerialsBeside(after.instance_id, key->ToPem());
    if (!shown || std::ranges::find(*shown, before.cert_serial) != shown->end()) return;
    Violated(fmt::format("{} by {}: renewed by a machine that shows an older certificate than {}",
                         change.key.text(), change.process, before.cert_serial));
  }

  void Judge(const SimChange& change, const Present& before, const Present& after) {
    const std::int64_t step = before.serial == after.serial ? 0 : 1;
    if (after.generation == before.generation + step) return;
    Violated(fmt::format("{} by {}: generation {} (serial {}) follows generation {} (serial {})",
                         change.key.text(), change.process, after.generation, after.serial,
                         before.generation, before.serial));
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI40(CheckerWorld& world) {
  return std::make_unique<I40GenerationsRise>(world);
}

}  // namespace nstance::sim
