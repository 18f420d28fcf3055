#include "core/agent/renewal.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace nstance::agent {

Renewal::Renewal(Validity validity, Prng& jitter) : validity_(validity) { Plan(jitter); }

void Renewal::Plan(Prng& jitter) {
  const Duration life = std::max(validity_.not_after - validity_.not_before, Duration());
  due_ = validity_.not_before + (life / 2) + jitter.UpTo(life / 6);
}

void Renewal::Enter(State from, State to) {
  CHECK(state_ == from, "state {}, expected {}", static_cast<int>(state_), static_cast<int>(from));
  state_ = to;
}

Renewal::Command Renewal::Look(const Moment& moment) {
  if (retry_at_ && moment.now < *retry_at_) return Nothing{};
  if (state_ == State::kUnstored) {
    retry_at_.reset();
    Enter(State::kUnstored, State::kStoring);
    return Store{.certificate_pem = answer_};
  }
  if (state_ != State::kResting || unimplemented_ || moment.link == Link::kDown) return Nothing{};
  const bool due = (due_at_ && moment.now >= *due_at_) || (!wall_is_wrong_ && moment.wall >= due_);
  if (!rebind_ && !due) return Nothing{};
  retry_at_.reset();
  Enter(State::kResting, State::kKeying);
  return PrepareKey{};
}

Renewal::Command Renewal::Retry(Code code, const Moment& moment, Prng& jitter) {
  const Duration left = std::max(validity_.not_after - moment.wall, Duration());
  const Duration cap = std::max(left / 20, Duration::Seconds(1));
  retry_at_ = moment.now + std::min(backoff_.Ended(moment.now, code, jitter), cap);
  return Nothing{};
}

Renewal::Command Renewal::KeyReady(const Status& status, const Moment& moment, Prng& jitter) {
  if (!status) {
    Enter(State::kKeying, State::kResting);
    return Retry(Code::kUnavailable, moment, jitter);
  }
  Enter(State::kKeying, State::kCalling);
  rebind_called_ = std::exchange(rebind_, false);
  return Call{};
}

Renewal::Command Renewal::Answered(Result<std::string> certificate_pem, const Moment& moment,
                                   Prng& jitter) {
  if (!certificate_pem) {
    Enter(State::kCalling, State::kResting);
    const Code code = certificate_pem.error().code;
    unimplemented_ = code == Code::kUnimplemented;
    rebind_ = rebind_ || rebind_called_;
    return Retry(code, moment, jitter);
  }
  Enter(State::kCalling, State::kStoring);
  answer_ = *std::move(certificate_pem);
  return Store{.certificate_pem = answer_};
}

Renewal::Command Renewal::Stored(const Result<Validity>& stored, const Moment& moment,
                                 Prng& jitter) {
  if (!stored) {
    Enter(State::kStoring, State::kUnstored);
    return Retry(Code::kUnavailable, moment, jitter);
  }
  Enter(State::kStoring, State::kResting);
  validity_ = *stored;
  answer_.clear();
  backoff_ = Backoff();
  Plan(jitter);
  due_at_ = moment.now + (due_ - validity_.not_before);
  wall_is_wrong_ = moment.wall >= due_;
  return Switch{};
}

}  // namespace nstance::agent
