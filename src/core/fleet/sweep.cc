#include "core/fleet/sweep.h"

#include <algorithm>
#include <utility>

#include "base/fault_point.h"

namespace nstance::fleet {

ListingUse JudgeListing(const ListingFacts& facts) {
  if (!facts.complete) return ListingUse::kDiscard;
  if (facts.listed == 0 && facts.expected > 0) return ListingUse::kLookAtEach;
  return ListingUse::kUse;
}

std::vector<OrphanFinding> OrphanWatch::OnListing(std::span<const UnknownVm> unknown,
                                                  Duration orphan_grace, const FleetTimes& times,
                                                  Instant now) {
  std::map<std::string, Instant> seen;
  std::vector<OrphanFinding> findings;
  for (const UnknownVm& vm : unknown) {
    const auto before = first_seen_.find(vm.provider_id);
    const bool again = before != first_seen_.end();
    const Instant first = again ? before->second : now;
    seen.emplace(vm.provider_id, first);

    OrphanFinding finding{.provider_id = vm.provider_id};
    if (auto id = ReadPuidv7(vm.instance_id); id && id->text() == vm.instance_id) {
      finding.instance_id = *std::move(id);
    }
    if (auto tenant = TenantId::Parse(vm.tenant)) finding.tenant = *std::move(tenant);
    if (finding.instance_id && vm.managed) {
      const Instant born = std::max(first, vm.launched_at.value_or(first));
      const Instant due = std::max(first + times.t_vis, born + orphan_grace);
      finding.use = again && now >= due ? OrphanUse::kDelete : OrphanUse::kWait;
      if (finding.use == OrphanUse::kWait) finding.until = due;
    }
    findings.push_back(std::move(finding));
  }
  first_seen_ = std::move(seen);
  return findings;
}

std::optional<Instant> RemovableAt(const RetentionFacts& facts, Duration retention) {
  const bool ended = facts.phase == InstancePhase::kGone || facts.phase == InstancePhase::kFailed;
  if (!ended || facts.vm_found) return std::nullopt;
  return Planted(Plant::kTombstoneAtOnce) ? facts.phase_at : facts.phase_at + retention;
}

}  // namespace nstance::fleet
