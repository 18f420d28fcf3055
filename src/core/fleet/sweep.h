// The sweep (server.md 11.3): what a listing of the provider proves, and what it does not.
//
//   listing                          | means
//   ---------------------------------+-------------------------------------------------------------
//   a page failed                    | nothing: discarded
//   empty while VMs are expected     | an error. Every expected VM is looked at by Get; when all
//                                    | were, the listing counts as complete
//   anything else                    | complete
//
// An orphan is a VM with our cluster and shard tags and no record, no intent and no tombstone. It
// is deleted, under the brake, when two complete listings at least T_vis apart have shown it and it
// is older than orphan_grace. One whose id does not parse, or without the managed mark, is only
// reported. Its age counts from the later of its launch and the first time that it was seen without
// a record (the safer reading: launch times come from the provider).
//
// A VM whose record is gone or failed (a late creation, table_build.h) is judged the same way by a
// second OrphanWatch with an orphan_grace of zero: two listings T_vis apart, then deleted again.
//
// Guarantees, each held by a test:
//   - one listing deletes nothing; an incomplete one changes nothing
//   - a VM that was known in between starts over
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"
#include "core/fleet/times.h"
#include "core/instance_phase.h"

namespace nstance::fleet {

// ---- listings ----------------------------------------------------------------------------------

struct ListingFacts {
  bool complete = false;     // No page failed.
  std::size_t listed = 0;    // VMs in it.
  std::size_t expected = 0;  // Records that should have a VM older than T_settle.
};
enum class ListingUse : std::uint8_t {
  kDiscard,
  kLookAtEach,  // Empty although VMs are expected: Get each; no orphan is judged.
  kUse,
};
[[nodiscard]] ListingUse JudgeListing(const ListingFacts& facts);

// ---- orphans -----------------------------------------------------------------------------------

// A VM of our cluster and shard without record, intent or tombstone.
struct UnknownVm {
  std::string provider_id = {};
  std::string instance_id = {};  // The tag, as it is.
  std::string tenant = {};       // The tag; may be empty or bad.
  bool managed = false;
  std::optional<Instant> launched_at = std::nullopt;
};

enum class OrphanUse : std::uint8_t { kReport, kWait, kDelete };

struct OrphanFinding {
  std::string provider_id = {};
  OrphanUse use = OrphanUse::kReport;
  std::optional<InstanceId> instance_id = std::nullopt;  // Set unless its id does not parse.
  TenantId tenant = DefaultTenant();                     // From the tag, else `default`.
  std::optional<Instant> until = std::nullopt;           // kWait: not before; a listing decides.
};

class OrphanWatch {
 public:
  // One complete listing, begun at `now`: all unknown VMs in it. What it lacks is forgotten.
  // Call only for ListingUse::kUse, or after kLookAtEach when every expected VM was looked at.
  [[nodiscard]] std::vector<OrphanFinding> OnListing(std::span<const UnknownVm> unknown,
                                                     Duration orphan_grace, const FleetTimes& times,
                                                     Instant now);

 private:
  std::map<std::string, Instant> first_seen_;  // By provider id.
};

// ---- retention ---------------------------------------------------------------------------------

struct RetentionFacts {
  InstancePhase phase = InstancePhase::kGone;
  Instant phase_at = {};  // MomentOf(record.phase_at).
  bool vm_found = false;  // The last complete listing still shows it.
};
// When the record may be removed; nothing for a phase that is kept, and while a VM is found.
[[nodiscard]] std::optional<Instant> RemovableAt(const RetentionFacts& facts, Duration retention);

}  // namespace nstance::fleet
