#include "core/instance_phase.h"

#include <array>
#include <string>

#include <fmt/format.h>

#include "base/text.h"

namespace nstance {
namespace {

constexpr std::array kPhases = {InstancePhase::kIntended,    InstancePhase::kCreating,
                                InstancePhase::kProvisioned, InstancePhase::kRegistered,
                                InstancePhase::kDraining,    InstancePhase::kDeleting,
                                InstancePhase::kGone,        InstancePhase::kFailed};

}  // namespace

std::string_view PhaseName(InstancePhase phase) {
  switch (phase) {
    case InstancePhase::kIntended: return "intended";
    case InstancePhase::kCreating: return "creating";
    case InstancePhase::kProvisioned: return "provisioned";
    case InstancePhase::kRegistered: return "registered";
    case InstancePhase::kDraining: return "draining";
    case InstancePhase::kDeleting: return "deleting";
    case InstancePhase::kGone: return "gone";
    case InstancePhase::kFailed: return "failed";
  }
  return "unknown";
}

Result<InstancePhase> ParsePhase(std::string_view name) {
  for (const InstancePhase phase : kPhases) {
    if (PhaseName(phase) == name) return phase;
  }
  return Fail(InvalidArgument(fmt::format("{} is no phase that this version knows", Quote(name))));
}

bool MayFollow(InstancePhase from, InstancePhase to) {
  using enum InstancePhase;
  if (from == to) return true;
  switch (from) {
    case kIntended: return to == kCreating || to == kGone;
    case kCreating: return to == kProvisioned || to == kRegistered || to == kFailed || to == kGone;
    case kProvisioned: return to == kRegistered || to == kDeleting;
    case kRegistered: return to == kDraining || to == kDeleting;
    case kDraining: return to == kRegistered || to == kDeleting;
    case kDeleting:
    case kFailed: return to == kGone;
    case kGone: return false;
  }
  return false;
}

bool CountsTowardSize(InstancePhase phase) {
  using enum InstancePhase;
  return phase == kIntended || phase == kCreating || phase == kProvisioned || phase == kRegistered;
}

}  // namespace nstance
