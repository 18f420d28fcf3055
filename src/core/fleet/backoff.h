// Creation back-off of one group: how long, after which kind of failure, nothing is created.
//
//   class           | after n failures in a row            | reset by
//   ----------------+--------------------------------------+---------------------------------------
//   capacity, quota,| 5 s x 2^(n-1), cap 5 min, 0-25 %     | a creation that the provider answers
//   auth, other     | jitter                               |
//   invalid         | the same, and until the group or the | the same
//                   | configuration changes, at most 10 min|
//   no-registration | as the first                         | an instance healthy for 1 min that
//                   |                                      | registered after the last failure
//
// (An older member that goes on being healthy proves nothing about new ones: if it did, a broken
// image would be tried without any pause.) While any class is not reset, the group tries one
// creation at a time. The state is kept in memory only: a new leader rebuilds what it can from the
// failures in records (OnFailure in their order).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"

namespace nstance::fleet {

enum class FailureClass : std::uint8_t {
  kCapacity,
  kQuota,
  kAuth,
  kInvalid,
  kNoRegistration,
  kOther,
};
inline constexpr std::size_t kFailureClasses = 6;
// "capacity", "quota", "auth", "invalid", "no-registration", "other".
[[nodiscard]] std::string_view Word(FailureClass failure);
// Any other word is kOther.
[[nodiscard]] FailureClass ParseFailureClass(std::string_view word);

class CreationBackoff {
 public:
  // The text is shown in holds; `prng` gives the jitter.
  void OnFailure(FailureClass failure, std::string_view error, Instant now, Prng& prng);
  // The provider answered a creation with a VM.
  void OnCreated();
  // An instance of the group has been healthy for a minute (Plan::registration_proven).
  void OnRegistrationProven();
  // The group or the configuration changed: class invalid need not wait for that any more.
  void OnChange();

  // Some class has failed and was not reset: one creation at a time.
  [[nodiscard]] bool active() const;
  [[nodiscard]] bool registration_failing() const;
  // Of class no-registration, the last failure; empty when reset.
  [[nodiscard]] std::optional<Instant> registration_failed_at() const;
  // Nothing is created before this moment, if any.
  [[nodiscard]] std::optional<Instant> until() const;
  // The most failures in a row of any class.
  [[nodiscard]] int failures() const;
  // Of the class that waits longest: "capacity: <error>". Empty when not active.
  [[nodiscard]] std::string Describe() const;

  friend bool operator==(const CreationBackoff&, const CreationBackoff&) = default;

 private:
  struct ClassState {
    int failures = 0;
    Instant failed_at = {};
    Instant until = {};
    std::optional<Instant> change_until = std::nullopt;
    std::string error = {};
    friend bool operator==(const ClassState&, const ClassState&) = default;
  };
  [[nodiscard]] static Instant Until(const ClassState& state);

  std::array<ClassState, kFailureClasses> classes_ = {};
};

}  // namespace nstance::fleet
