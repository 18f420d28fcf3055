#include "server/fleet/creation_machine.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"

namespace nstance {
namespace {

// After the call: looked at once, then after these, then every 30 s.
constexpr std::array<std::int64_t, 3> kLookSeconds = {5, 10, 15};
constexpr Duration kLastLook = Duration::Seconds(30);
constexpr Duration kFirstBackoff = Duration::Seconds(5);
constexpr Duration kMaxBackoff = Duration::Minutes(5);

fleet::FailureClass ClassOf(ProviderReason reason) {
  switch (reason) {
    case ProviderReason::kCapacity: return fleet::FailureClass::kCapacity;
    case ProviderReason::kQuota: return fleet::FailureClass::kQuota;
    case ProviderReason::kAuth: return fleet::FailureClass::kAuth;
    case ProviderReason::kMismatch:
    case ProviderReason::kInvalid: return fleet::FailureClass::kInvalid;
    case ProviderReason::kOther: break;
  }
  return fleet::FailureClass::kOther;
}

// The provider has understood the request and will not do it.
bool IsRefusal(const ProviderError& error) {
  if (error.error.outcome != Outcome::kNotDone) return false;
  switch (error.error.code) {
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kCancelled:
    case Code::kAborted:
    case Code::kFailedPrecondition: return false;
    default: return true;
  }
}

}  // namespace

bool CreationMachine::TimeIsUp(Instant now) const {
  if (unwanted_ || now >= opened_at_ + options_.t_intent) return true;
  return token_good_until_ && now >= *token_good_until_;
}

Duration CreationMachine::Backoff(Prng& jitter) {
  Duration length = kFirstBackoff;
  for (int i = 0; i < failures_ && length < kMaxBackoff; ++i) length = length * 2;
  ++failures_;
  length = std::min(length, kMaxBackoff);
  return length + jitter.UpTo(length / 4);
}

CreationMachine::Command CreationMachine::Start(const Input& input) {
  CHECK(state_ == State::kNew);
  if (record_ == Record::kNone) return ToTurn(input, std::nullopt);
  sent_ = true;
  unsure_since_ = input.now;
  state_ = State::kLooking;
  return Look{};
}

CreationMachine::Command CreationMachine::ToTurn(const Input& input,
                                                 std::optional<Instant> not_before) {
  if (TimeIsUp(input.now)) return Cancel(input, "it could not be made in time");
  state_ = State::kTurn;
  return AwaitTurn{.not_before = not_before};
}

CreationMachine::Command CreationMachine::TurnCame(const Input& input) {
  CHECK(state_ == State::kTurn);
  if (TimeIsUp(input.now)) return Cancel(input, "it could not be made in time");
  state_ = State::kPreparing;
  return Prepare{};
}

CreationMachine::Command CreationMachine::Prepared(const Input& input, Instant token_good_until) {
  CHECK(state_ == State::kPreparing);
  record_ = Record::kCreating;
  token_good_until_ = token_good_until;
  if (TimeIsUp(input.now)) return Cancel(input, "too little of the token's life is left");
  state_ = State::kCalling;
  sent_ = true;
  return Call{};
}

CreationMachine::Command CreationMachine::NotPrepared(const Input& input, const Error& error) {
  CHECK(state_ == State::kPreparing);
  trouble_ = error.message;
  if (error.code == Code::kFailedPrecondition || error.code == Code::kInvalidArgument) {
    return Cancel(input, error.message);
  }
  return ToTurn(input, input.now + Backoff(input.jitter));
}

CreationMachine::Command CreationMachine::Called(const Input& input,
                                                 ProviderResult<ProviderInstance> answer) {
  CHECK(state_ == State::kCalling);
  if (answer.has_value()) {
    state_ = State::kAdopting;
    result_ = Result::kProvisioned;
    return WriteProvisioned{.vm = std::move(answer).value()};
  }
  trouble_ = answer.error().error.message;
  if (IsRefusal(answer.error())) {
    state_ = State::kFailing;
    result_ = Result::kFailed;
    return WriteFailed{.error = answer.error().error, .failure = ClassOf(answer.error().reason)};
  }
  if (answer.error().error.outcome == Outcome::kNotDone) {
    return ToTurn(input, input.now + Backoff(input.jitter));
  }
  if (Planted(Plant::kForgetsIntent)) {
    state_ = State::kDone;
    return Finish{.result = Result::kCancelled};
  }
  if (Planted(Plant::kNewIdAfterTimeout)) {
    state_ = State::kFailing;
    result_ = Result::kFailed;
    return WriteFailed{.error = answer.error().error};
  }
  unsure_since_ = input.now;
  looks_ = 0;
  state_ = State::kLooking;
  return Look{};
}

CreationMachine::Command CreationMachine::LookLater(const Input& input) {
  const Duration gap = static_cast<std::size_t>(looks_) < kLookSeconds.size()
                           ? Duration::Seconds(kLookSeconds.at(static_cast<std::size_t>(looks_)))
                           : kLastLook;
  ++looks_;
  state_ = State::kLookWait;
  return Wait{.until = input.now + gap};
}

CreationMachine::Command CreationMachine::Looked(const Input& input,
                                                 ProviderResult<ProviderInstance> answer) {
  CHECK(state_ == State::kLooking || state_ == State::kCancelling);
  const bool cancelling = state_ == State::kCancelling;
  if (answer.has_value()) {
    missing_since_.reset();
    state_ = State::kAdopting;
    result_ = Result::kProvisioned;
    return WriteProvisioned{.vm = std::move(answer).value()};
  }
  const bool missing = answer.error().error.code == Code::kNotFound;
  if (!missing) trouble_ = answer.error().error.message;
  if (cancelling) {
    if (missing && missing_since_ && input.now - *missing_since_ >= options_.t_vis) {
      state_ = State::kBurying;
      result_ = Result::kCancelled;
      return Bury{.why = DeadlineExceeded(trouble_)};
    }
    if (missing && !missing_since_) missing_since_ = input.now;
    state_ = State::kGraveWait;
    return Wait{.until = missing ? *missing_since_ + options_.t_vis : input.now + kLastLook};
  }
  if (TimeIsUp(input.now)) return Cancel(input, "it could not be made in time");
  if (!missing || input.now < *unsure_since_ + options_.consistency_window) {
    return LookLater(input);
  }
  return ToTurn(input, std::nullopt);
}

CreationMachine::Command CreationMachine::Woke(const Input& input) {
  if (state_ == State::kGraveWait) {
    state_ = State::kCancelling;
    return Look{};
  }
  CHECK(state_ == State::kLookWait);
  if (TimeIsUp(input.now)) return Cancel(input, "it could not be made in time");
  state_ = State::kLooking;
  return Look{};
}

CreationMachine::Command CreationMachine::Cancel(const Input& input, std::string why) {
  static_cast<void>(input);
  if (trouble_.empty()) trouble_ = std::move(why);
  missing_since_.reset();
  if (!sent_) {
    state_ = State::kBurying;
    result_ = Result::kCancelled;
    return Bury{.why = DeadlineExceeded(trouble_)};
  }
  state_ = State::kCancelling;
  return Look{};
}

CreationMachine::Command CreationMachine::NoLongerWanted(const Input& input) {
  unwanted_ = true;
  if (state_ == State::kTurn || state_ == State::kLookWait) {
    return Cancel(input, "it is no longer wanted");
  }
  return Nothing{};
}

CreationMachine::Command CreationMachine::Written(const Input& input) {
  static_cast<void>(input);
  CHECK(state_ == State::kAdopting || state_ == State::kFailing || state_ == State::kBurying);
  state_ = State::kDone;
  return Finish{.result = result_};
}

}  // namespace nstance
