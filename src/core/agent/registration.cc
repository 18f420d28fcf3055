#include "core/agent/registration.h"

#include <algorithm>

#include "base/check.h"
#include "core/agent/backoff.h"

namespace nstance::agent {
namespace {

constexpr Duration kQuickCap = Duration::Seconds(10);
constexpr Duration kLeavingWait = Duration::Seconds(9);

// Uniform between the two.
Duration Between(Duration low, Duration high, Prng& jitter) {
  return low + jitter.UpTo(high - low);
}

}  // namespace

void Registration::Enter(State from, State to) {
  CHECK(state_ == from, "state {}, expected {}", static_cast<int>(state_), static_cast<int>(from));
  state_ = to;
}

Registration::Command Registration::Start() {
  Enter(State::kNew, State::kCalling);
  return Call{};
}

Registration::Command Registration::Answered(Result<std::string> certificate_pem, Timestamp wall,
                                             Prng& jitter) {
  if (!certificate_pem) {
    return WaitAfter(State::kCalling, std::move(certificate_pem).error(), wall, jitter);
  }
  Enter(State::kCalling, State::kStoring);
  return Store{.certificate_pem = *std::move(certificate_pem)};
}

Registration::Command Registration::Stored(const Status& status, Timestamp wall, Prng& jitter) {
  if (!status) {
    return WaitAfter(State::kStoring, Unavailable(status.error().message), wall, jitter);
  }
  Enter(State::kStoring, State::kDone);
  return Finish{};
}

Registration::Command Registration::WaitAfter(State from, Error error, Timestamp wall,
                                              Prng& jitter) {
  Enter(from, State::kWaiting);
  last_error_ = std::move(error);
  const Duration delay = DelayAfter(last_error_.code, jitter);
  const Duration left = std::max(expires_at_ - wall, Duration());
  return Wait{.length = std::min(delay, left)};
}

Duration Registration::DelayAfter(Code code, Prng& jitter) {
  switch (code) {
    case Code::kUnauthenticated:
      return Between(Duration::Seconds(10), Duration::Seconds(30), jitter);
    case Code::kInvalidArgument:
    case Code::kPermissionDenied:
    case Code::kUnimplemented:
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kOutOfRange: return Between(Duration::Seconds(30), Duration::Seconds(60), jitter);
    default: return Jittered(Doubled(quick_retries_++, kQuickCap), jitter);
  }
}

Registration::Command Registration::Woke(Timestamp wall, Prng& jitter) {
  if (state_ == State::kLeaving) {
    Enter(State::kLeaving, State::kDone);
    return GiveUp{.why = last_error_};
  }
  if (wall < expires_at_) {
    Enter(State::kWaiting, State::kCalling);
    return Call{};
  }
  Enter(State::kWaiting, State::kLeaving);
  return Wait{.length = jitter.UpTo(kLeavingWait)};
}

}  // namespace nstance::agent
