// What the provider said about one VM: the log of looks, and what may be concluded from it.
//
// A look is one Get, or one complete listing. An error is no evidence. "Not found" counts only for
// a VM at least T_settle old, and absence is believed only after two such answers at least T_vis
// apart with nothing found in between (RU7).
//
//   looks.OnNotFound(now, vm_since, times);
//   if (JudgeAbsence(looks, times) == Absence::kAbsent) ...
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "core/fleet/times.h"
#include "core/fleet/words.h"

namespace nstance::fleet {

struct LookLog {
  // The last VM that was found, and when; a later "not found" leaves them.
  ProviderStatus status = ProviderStatus::kUnknown;
  std::optional<Instant> found_at = std::nullopt;
  // Since when the provider reports a dead state without a break.
  std::optional<Instant> dead_since = std::nullopt;
  // The first and the last "not found" that count, since it was last found.
  std::optional<Instant> missing_first = std::nullopt;
  std::optional<Instant> missing_last = std::nullopt;
  // The last look that was begun, whatever came of it; looks in a row without a report in between.
  std::optional<Instant> attempted_at = std::nullopt;
  int attempts = 0;
  // The last look failed. Says nothing about the VM.
  bool failed = false;
  bool in_flight = false;
  friend bool operator==(const LookLog&, const LookLog&) = default;

  void OnBegun(Instant now);
  void OnFound(ProviderStatus found, Instant now);
  // `vm_since`: see InstanceView. Too young: only `attempted_at` remembers it.
  void OnNotFound(Instant now, Instant vm_since, const FleetTimes& times);
  void OnError();
  // A health report, a new stream: looks start over.
  void OnReport();
};

enum class Absence : std::uint8_t {
  kPresent,  // Or nothing is known.
  kSuspect,  // One "not found".
  kAbsent,   // Two, T_vis apart.
};
[[nodiscard]] Absence JudgeAbsence(const LookLog& looks, const FleetTimes& times);

// When the next look is due once a reason to look began at `since`: at once, then 3 s x 2^n after
// each other, at most 30 s. A suspect VM: not before T_vis after the first "not found".
// Nothing while one is in flight.
[[nodiscard]] std::optional<Instant> NextLook(const LookLog& looks, Instant since,
                                              const FleetTimes& times);

}  // namespace nstance::fleet
