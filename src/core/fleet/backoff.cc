#include "core/fleet/backoff.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace nstance::fleet {
namespace {

constexpr std::array<std::string_view, kFailureClasses> kWords = {
    "capacity", "quota", "auth", "invalid", "no-registration", "other"};

constexpr Duration kFirst = Duration::Seconds(5);
constexpr Duration kLongest = Duration::Minutes(5);
constexpr Duration kInvalidWaits = Duration::Minutes(10);

Duration Wait(int failures, Prng& prng) {
  constexpr int kDoublings = 6;  // 5 s x 2^6 is above the cap.
  const int doublings = std::clamp(failures - 1, 0, kDoublings);
  const Duration wait = std::min(kFirst * (std::int64_t{1} << doublings), kLongest);
  return wait + prng.UpTo(wait / 4);
}

}  // namespace

std::string_view Word(FailureClass failure) { return kWords.at(std::to_underlying(failure)); }

FailureClass ParseFailureClass(std::string_view word) {
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (kWords.at(i) == word) return static_cast<FailureClass>(i);
  }
  return FailureClass::kOther;
}

void CreationBackoff::OnFailure(FailureClass failure, std::string_view error, Instant now,
                                Prng& prng) {
  ClassState& state = classes_.at(std::to_underlying(failure));
  ++state.failures;
  state.failed_at = now;
  state.until = now + Wait(state.failures, prng);
  if (failure == FailureClass::kInvalid) state.change_until = now + kInvalidWaits;
  state.error = error;
}

void CreationBackoff::OnCreated() {
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (static_cast<FailureClass>(i) != FailureClass::kNoRegistration) classes_.at(i) = {};
  }
}

void CreationBackoff::OnRegistrationProven() {
  classes_.at(std::to_underlying(FailureClass::kNoRegistration)) = {};
}

void CreationBackoff::OnChange() {
  classes_.at(std::to_underlying(FailureClass::kInvalid)).change_until.reset();
}

bool CreationBackoff::active() const { return failures() > 0; }

bool CreationBackoff::registration_failing() const {
  return classes_.at(std::to_underlying(FailureClass::kNoRegistration)).failures > 0;
}

std::optional<Instant> CreationBackoff::registration_failed_at() const {
  if (!registration_failing()) return std::nullopt;
  return classes_.at(std::to_underlying(FailureClass::kNoRegistration)).failed_at;
}

Instant CreationBackoff::Until(const ClassState& state) {
  return state.change_until ? std::max(state.until, *state.change_until) : state.until;
}

std::optional<Instant> CreationBackoff::until() const {
  std::optional<Instant> latest;
  for (const ClassState& state : classes_) {
    if (state.failures > 0 && (!latest || Until(state) > *latest)) latest = Until(state);
  }
  return latest;
}

int CreationBackoff::failures() const {
  int most = 0;
  for (const ClassState& state : classes_) most = std::max(most, state.failures);
  return most;
}

std::string CreationBackoff::Describe() const {
  const std::optional<Instant> latest = until();
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    const ClassState& state = classes_.at(i);
    if (state.failures == 0 || Until(state) != *latest) continue;
    return fmt::format("{}: {}", kWords.at(i), state.error);
  }
  return {};
}

}  // namespace nstance::fleet
