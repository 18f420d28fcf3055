#include "adapters/cloud_http/cloud_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace nstance::cloud {
namespace {

constexpr auto kPassing = std::to_array<int>({408, 429, 500, 502, 503, 504});

bool IsPassingTrouble(const Result<HttpResponse>& answer) {
  if (!answer) return answer.error().code == Code::kUnavailable;
  return std::ranges::find(kPassing, answer->status) != kPassing.end();
}

// Nothing has been sent, so nothing can have happened.
CloudCall::Finish NoTimeLeft() {
  return {.answer = Fail(Unavailable("no credentials within the time of the call"))};
}

}  // namespace

CloudCall::Command CloudCall::Start() {
  Enter(State::kNew, State::kAuthorizing);
  return Authorize{.deadline = deadline_};
}

CloudCall::Command CloudCall::On(Authorized event, Instant now) {
  const bool send = event.result && now < deadline_;
  Enter(State::kAuthorizing, send ? State::kSending : State::kDone);
  if (send) return Send{.left = deadline_ - now};
  if (event.result) return NoTimeLeft();
  return Finish{.answer = Fail(std::move(event.result).error())};
}

CloudCall::Command CloudCall::On(TooLate /*event*/) {
  Enter(State::kAuthorizing, State::kDone);
  return NoTimeLeft();
}

CloudCall::Command CloudCall::On(Answer event, Instant now, Prng& prng) {
  const Duration longest = kFirstWait * (std::int64_t{1} << static_cast<unsigned>(repeats_));
  const Duration wait = longest - prng.UpTo(longest / 2);
  const bool again = repeat_ == Repeat::kRead && IsPassingTrouble(event.answer) &&
                     repeats_ < kMaxRepeats && now + wait < deadline_;
  Enter(State::kSending, again ? State::kWaiting : State::kDone);
  if (!again) return Finish{.answer = std::move(event.answer)};
  ++repeats_;
  return Wait{.length = wait};
}

CloudCall::Command CloudCall::On(Woke /*event*/) {
  Enter(State::kWaiting, State::kAuthorizing);
  return Authorize{.deadline = deadline_};
}

void CloudCall::Enter(State from, State to) {
  CHECK(state_ == from, "in state {}", static_cast<int>(state_));
  state_ = to;
}

}  // namespace nstance::cloud
