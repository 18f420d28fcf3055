#include "core/fleet/words.h"

#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace nstance::fleet {
namespace {

constexpr std::array<std::string_view, 11> kStatusWords = {
    "unknown",   "pending",   "running",  "stopping", "stopped", "suspending",
    "suspended", "repairing", "deleting", "deleted",  "failed"};

constexpr std::array<std::string_view, 19> kReasonWords = {"scale-up",
                                                           "replace",
                                                           "on-demand",
                                                           "unhealthy",
                                                           "spot-terminating",
                                                           "forced-expiry",
                                                           "eligible-expiry",
                                                           "ondemand-expiry",
                                                           "config-drift",
                                                           "scale-down",
                                                           "group-deleted",
                                                           "requested",
                                                           "registration-timeout",
                                                           "provider-gone",
                                                           "provider-stopped",
                                                           "pool-age",
                                                           "claim-unconfirmed",
                                                           "released",
                                                           "orphan"};

constexpr std::array<std::string_view, 31> kHoldWords = {"brake",
                                                         "create-backoff",
                                                         "create-rate-limit",
                                                         "create-concurrency",
                                                         "surge-limit",
                                                         "one-rotation",
                                                         "waiting-replacement",
                                                         "waiting-healthy",
                                                         "no-replacement",
                                                         "waiting-drain",
                                                         "second-look",
                                                         "reconnect-grace",
                                                         "mass-silence",
                                                         "lb-deregistering",
                                                         "subnet-full",
                                                         "image-unresolved",
                                                         "userdata-unavailable",
                                                         "secret-unavailable",
                                                         "key-missing",
                                                         "file-invalid",
                                                         "provider-unavailable",
                                                         "store-unavailable",
                                                         "journal-full",
                                                         "tenant-undefined",
                                                         "record-corrupt",
                                                         "config-invalid",
                                                         "config-pending",
                                                         "identity-blocked",
                                                         "on-demand",
                                                         "claimed",
                                                         "pool-unavailable"};

static_assert(kStatusWords.size() == static_cast<std::size_t>(ProviderStatus::kFailed) + 1);
static_assert(kReasonWords.size() == static_cast<std::size_t>(Reason::kOrphan) + 1);
static_assert(kHoldWords.size() == static_cast<std::size_t>(HoldCode::kPoolUnavailable) + 1);

}  // namespace

std::string_view Word(ProviderStatus status) { return kStatusWords.at(std::to_underlying(status)); }

ProviderStatus ParseProviderStatus(std::string_view word) {
  for (std::size_t i = 0; i < kStatusWords.size(); ++i) {
    if (kStatusWords.at(i) == word) return static_cast<ProviderStatus>(i);
  }
  return ProviderStatus::kUnknown;
}

bool IsDead(ProviderStatus status) { return status >= ProviderStatus::kStopping; }

std::string_view Word(Reason reason) { return kReasonWords.at(std::to_underlying(reason)); }

Result<Reason> ParseReason(std::string_view word) {
  for (std::size_t i = 0; i < kReasonWords.size(); ++i) {
    if (kReasonWords.at(i) == word) return static_cast<Reason>(i);
  }
  return Fail(InvalidArgument(fmt::format("{} is no reason that this version knows", Quote(word))));
}

bool IsOpportunistic(Reason reason) {
  using enum Reason;
  return reason == kForcedExpiry || reason == kEligibleExpiry || reason == kOnDemandExpiry ||
         reason == kConfigDrift || reason == kPoolAge;
}

bool IsRevocable(Reason reason) {
  using enum Reason;
  return reason == kScaleDown || reason == kConfigDrift || reason == kEligibleExpiry;
}

std::string_view Word(HoldCode code) { return kHoldWords.at(std::to_underlying(code)); }

}  // namespace nstance::fleet
