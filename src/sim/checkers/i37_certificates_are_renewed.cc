// I-37, at quiescence: no agent certificate is expired if the agent was reachable during the last
// third of its life.
//
// Reachable is an agent that nothing was ever done to, when the whole last third was in calm. The
// times in the record are those of the server's wall clock: a certificate that was issued while one
// was wrong is not judged.
#include <map>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I37CertificatesAreRenewed final : public Checker {
 public:
  explicit I37CertificatesAreRenewed(CheckerWorld& world) : Checker("I-37", world) {}

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind != TruthChange::Kind::kRecord) return;
    const InstanceRecord* after = world().truth().Find(*last.id);
    if (after == nullptr || after->phase == InstancePhase::kGone) {
      issued_.erase(*last.id);
    } else if (!last.record || last.record->cert_serial != after->cert_serial) {
      issued_[*last.id] = change.at;
    }
  }

  void AtQuiet() override {
    for (const ShardId& shard : {ShardA(), ShardB()}) {
      if (!world().InCore(shard)) continue;
      for (const auto& [id, record] : world().truth().Of(shard).records) Judge(record);
    }
  }

 private:
  void Judge(const InstanceRecord& record) {
    if (record.phase != InstancePhase::kRegistered || record.blocked) return;
    if (!record.cert_expires_at || !record.cert_issued_at) return;
    if (*record.cert_expires_at > world().wall()) return;
    const auto issued = issued_.find(record.instance_id);
    if (issued == issued_.end() || world().WallsTrueSince() > issued->second) return;
    if (!world().AgentUnharmed(record.instance_id)) return;
    const Duration third = (*record.cert_expires_at - *record.cert_issued_at) / 3;
    const Timestamp calm_since = world().wall() - (world().now() - world().calm_since());
    if (*record.cert_expires_at - third < calm_since) return;
    Violated(fmt::format("{}: its certificate expired at {}, it is {}", record.instance_id.text(),
                         FormatTimestamp(*record.cert_expires_at),
                         FormatTimestamp(world().wall())));
  }

  std::map<InstanceId, Instant> issued_;  // When the present certificate's record was written.
};

}  // namespace

std::unique_ptr<Checker> MakeI37(CheckerWorld& world) {
  return std::make_unique<I37CertificatesAreRenewed>(world);
}

}  // namespace nstance::sim
