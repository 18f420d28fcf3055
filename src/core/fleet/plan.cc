#include "core/fleet/plan.h"

#include <fmt/format.h>

namespace nstance::fleet {

std::string_view Because(Reason reason) {
  using enum Reason;
  switch (reason) {
    case kScaleUp: return "the group has fewer instances than its size";
    case kReplace: return "another instance leaves";
    case kOnDemand: return "it was asked for by itself";
    case kUnhealthy: return "its agent is silent although the provider says that it runs";
    case kSpotTerminating: return "the provider announced its termination";
    case kForcedExpiry: return "it has reached its greatest age";
    case kEligibleExpiry: return "it is old enough to be replaced";
    case kOnDemandExpiry: return "on-demand instances of this age expire";
    case kConfigDrift: return "the configuration of its group has changed";
    case kScaleDown: return "the group has more instances than its size";
    case kGroupDeleted: return "its group was deleted";
    case kRequested: return "it was asked for";
    case kRegistrationTimeout: return "its agent did not register in time";
    case kProviderGone: return "the provider says that it does not exist any more";
    case kProviderStopped: return "the provider says that it does not run";
    case kPoolAge: return "it has waited in its pool too long";
    case kClaimUnconfirmed: return "its agent did not confirm the claim";
    case kReleased: return "its claim was released";
    case kOrphan: return "no record knows it";
  }
  return "";
}

std::string_view Because(HoldCode code) {
  using enum HoldCode;
  switch (code) {
    case kBrake: return "the deletion budget of the tenant is used up";
    case kCreateBackoff: return "creations wait after a failure";
    case kCreateRateLimit: return "creations wait for the rate limit of the shard";
    case kCreateConcurrency: return "creations wait for those that are under way";
    case kSurgeLimit: return "size + surge is reached";
    case kOneRotation: return "another rotation of the group is open, or a slot is empty";
    case kWaitingReplacement: return "its replacement is not ready";
    case kWaitingHealthy: return "not every other member is healthy";
    case kNoReplacement: return "no replacement can be made";
    case kWaitingDrain: return "its drain runs";
    case kSecondLook: return "the provider's word is checked a second time";
    case kReconnectGrace: return "leadership is young and its health not yet known";
    case kMassSilence: return "many agents are silent at once: our own side is suspected";
    case kLbDeregistering: return "a load balancer has not let it go";
    case kSubnetFull: return "every subnet of the pool is full";
    case kImageUnresolved: return "an image is not resolved";
    case kUserdataUnavailable: return "the user data cannot be had";
    case kSecretUnavailable: return "a secret cannot be had";
    case kKeyMissing: return "a key is missing";
    case kFileInvalid: return "a file cannot be made";
    case kProviderUnavailable: return "the provider cannot be asked";
    case kStoreUnavailable: return "the store cannot be reached";
    case kJournalFull: return "the journal is full";
    case kTenantUndefined: return "the tenant is not defined: nothing is done";
    case kRecordCorrupt: return "its record is corrupt: an administrator decides";
    case kConfigInvalid: return "the configuration in storage is invalid: members are healed only";
    case kConfigPending: return "a newer configuration waits to be applied";
    case kIdentityBlocked: return "its identity was cloned: a person decides";
    case kOnDemand: return "on-demand instances are not replaced";
    case kClaimed: return "claimed instances are not replaced";
    case kPoolUnavailable: return "warm pools are not served by this version";
  }
  return "";
}

std::string_view Word(ActionKind kind) {
  switch (kind) {
    case ActionKind::kCreate: return "create";
    case ActionKind::kDrain: return "drain";
    case ActionKind::kRevokeDrain: return "cancel-drain";
    case ActionKind::kDelete: return "delete";
    case ActionKind::kOpenDelete: return "accept-delete";
    case ActionKind::kLook: return "look";
  }
  return "unknown";
}

std::string Describe(const Action& action) {
  if (action.kind == ActionKind::kCreate) {
    return action.replaces
               ? fmt::format("create an instance in place of {}", action.replaces->text())
               : fmt::format("create an instance: {}", Because(action.reason));
  }
  const std::string& id = action.instance->text();
  if (action.kind == ActionKind::kLook) return fmt::format("ask the provider about {}", id);
  if (action.kind == ActionKind::kRevokeDrain) {
    return fmt::format("cancel the drain of {}: the group needs it", id);
  }
  return fmt::format("{} {}: {}", Word(action.kind), id, Because(action.reason));
}

std::string Describe(const Hold& hold) {
  if (hold.detail.empty()) return std::string(Because(hold.code));
  return fmt::format("{} ({})", Because(hold.code), hold.detail);
}

}  // namespace nstance::fleet
