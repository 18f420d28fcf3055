#include "core/fleet/table_build.h"

#include "base/check.h"
#include "base/fault_point.h"

namespace nstance::fleet {
namespace {

TableRow WithoutRecord(const TableFacts& facts) {
  const bool found = facts.provider == ProviderFinding::kFound;
  TableRow row;
  row.close_drain = facts.drain_open;
  row.close_delete = facts.delete_open;
  if (facts.create_open) {
    // The intent is closed by what the step ends with, not before.
    row.step = found ? TableStep::kReadAgain : TableStep::kCancelCreation;
    return row;
  }
  row.step = found ? TableStep::kOrphan : TableStep::kNothing;
  return row;
}

TableRow Creating(const TableFacts& facts) {
  TableRow row;
  row.close_drain = facts.drain_open;  // Nothing runs on it yet.
  if (facts.delete_open) {
    row.step = TableStep::kResolveThenDelete;
    return row;
  }
  if (facts.provider == ProviderFinding::kFound) {
    row.step = TableStep::kAdopt;
    row.close_create = facts.create_open;
    return row;
  }
  row.step = TableStep::kResumeCreation;
  row.open_create = !facts.create_open;
  return row;
}

TableRow Deleting(const TableFacts& facts, TableStep step) {
  TableRow row;
  row.step = step;
  row.close_create = facts.create_open;
  row.close_drain = facts.drain_open;
  row.open_delete = !facts.delete_open;
  return row;
}

TableRow Living(const TableFacts& facts) {
  if (facts.delete_open) return Deleting(facts, TableStep::kRepeatDelete);
  TableRow row;
  row.close_create = facts.create_open;
  if (facts.drain_open && facts.phase == InstancePhase::kRegistered) {
    row.step = TableStep::kRepeatDrain;
    return row;
  }
  // A VM that never registered is not drained: its record decides.
  row.close_drain = facts.drain_open;
  const bool found = facts.provider == ProviderFinding::kFound;
  if (found && !facts.has_provider_id) {
    row.step = TableStep::kAdopt;
  } else if (facts.provider == ProviderFinding::kAbsent) {
    row.step = TableStep::kLook;
  } else {
    row.step = TableStep::kKeep;
  }
  return row;
}

TableRow Draining(const TableFacts& facts) {
  if (facts.delete_open) return Deleting(facts, TableStep::kRepeatDelete);
  TableRow row;
  row.step = TableStep::kContinueDrain;
  row.close_create = facts.create_open;
  row.open_drain = !facts.drain_open;
  return row;
}

TableRow Ended(const TableFacts& facts) {
  const bool found = facts.provider == ProviderFinding::kFound;
  TableRow row;
  row.step = found ? TableStep::kLateCreation : TableStep::kRetain;
  row.close_create = facts.create_open;
  row.close_drain = facts.drain_open;
  // A deletion whose VM still shows goes on under its intent.
  row.close_delete = facts.delete_open && facts.provider == ProviderFinding::kAbsent;
  // Nothing would ask about it again: the deletion itself finds out whether the VM is gone.
  const bool left = Planted(Plant::kBuriedStaysOpen);
  if (facts.delete_open && facts.provider == ProviderFinding::kUnlisted && !left) {
    row.step = TableStep::kContinueDelete;
  }
  return row;
}

}  // namespace

std::string_view Word(TableStep step) {
  switch (step) {
    case TableStep::kNothing: return "nothing";
    case TableStep::kCancelCreation: return "cancel-creation";
    case TableStep::kReadAgain: return "read-again";
    case TableStep::kResumeCreation: return "resume-creation";
    case TableStep::kAdopt: return "adopt";
    case TableStep::kResolveThenDelete: return "resolve-then-delete";
    case TableStep::kKeep: return "keep";
    case TableStep::kLook: return "look";
    case TableStep::kRepeatDrain: return "repeat-drain";
    case TableStep::kContinueDrain: return "continue-drain";
    case TableStep::kRepeatDelete: return "repeat-delete";
    case TableStep::kContinueDelete: return "continue-delete";
    case TableStep::kLateCreation: return "late-creation";
    case TableStep::kRetain: return "retain";
    case TableStep::kOrphan: return "orphan";
    case TableStep::kHoldCorrupt: return "hold-corrupt";
  }
  return "unknown";
}

TableRow BuildRow(const TableFacts& facts) {
  if (facts.corrupt) {
    CHECK(!facts.phase);
    return {.step = TableStep::kHoldCorrupt};
  }
  if (!facts.phase) return WithoutRecord(facts);
  switch (*facts.phase) {
    case InstancePhase::kIntended: CHECK(false, "intended has no record"); break;
    case InstancePhase::kCreating: return Creating(facts);
    case InstancePhase::kProvisioned:
    case InstancePhase::kRegistered: return Living(facts);
    case InstancePhase::kDraining: return Draining(facts);
    case InstancePhase::kDeleting: return Deleting(facts, TableStep::kContinueDelete);
    case InstancePhase::kGone:
    case InstancePhase::kFailed: return Ended(facts);
  }
  return {};
}

}  // namespace nstance::fleet
