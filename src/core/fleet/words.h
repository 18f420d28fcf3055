// The words of fleet planning: provider states, reasons, hold codes. One enum each, with the text
// that is stored and sent.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace nstance::fleet {

// What a provider says of a VM (providers.md 1).
enum class ProviderStatus : std::uint8_t {
  kUnknown,
  kPending,
  kRunning,
  kStopping,
  kStopped,
  kSuspending,
  kSuspended,
  kRepairing,
  kDeleting,
  kDeleted,
  kFailed,
};
[[nodiscard]] std::string_view Word(ProviderStatus status);
// Any other word is kUnknown: a new state of a provider is no evidence.
[[nodiscard]] ProviderStatus ParseProviderStatus(std::string_view word);
// stopping and everything after it: such a VM does no work, and will not by itself.
[[nodiscard]] bool IsDead(ProviderStatus status);

// Why something happens to an instance (wire.md 5.2); the first three are those of creations.
enum class Reason : std::uint8_t {
  kScaleUp,
  kReplace,
  kOnDemand,
  kUnhealthy,
  kSpotTerminating,
  kForcedExpiry,
  kEligibleExpiry,
  kOnDemandExpiry,
  kConfigDrift,
  kScaleDown,
  kGroupDeleted,
  kRequested,
  kRegistrationTimeout,
  kProviderGone,
  kProviderStopped,
  kPoolAge,
  kClaimUnconfirmed,
  kReleased,
  kOrphan,
};
[[nodiscard]] std::string_view Word(Reason reason);
[[nodiscard]] Result<Reason> ParseReason(std::string_view word);
// Expiry, drift and pool age: they may use half of the brake's unordered budget only.
[[nodiscard]] bool IsOpportunistic(Reason reason);
// Drains of these reasons may be revoked.
[[nodiscard]] bool IsRevocable(Reason reason);

// server.md 14.
enum class HoldCode : std::uint8_t {
  kBrake,
  kCreateBackoff,
  kCreateRateLimit,
  kCreateConcurrency,
  kSurgeLimit,
  kOneRotation,
  kWaitingReplacement,
  kWaitingHealthy,
  kNoReplacement,
  kWaitingDrain,
  kSecondLook,
  kReconnectGrace,
  kMassSilence,
  kLbDeregistering,
  kSubnetFull,
  kImageUnresolved,
  kUserdataUnavailable,
  kSecretUnavailable,
  kKeyMissing,
  kFileInvalid,
  kProviderUnavailable,
  kStoreUnavailable,
  kJournalFull,
  kTenantUndefined,
  kRecordCorrupt,
  kConfigInvalid,
  kConfigPending,
  kIdentityBlocked,
  kOnDemand,
  kClaimed,
  kPoolUnavailable,  // Pools are not served yet: a group with `pool` makes no instances.
};
[[nodiscard]] std::string_view Word(HoldCode code);

}  // namespace nstance::fleet
