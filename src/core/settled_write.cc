#include "core/settled_write.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/fault_point.h"

namespace nstance {
namespace {

constexpr Duration kLongestBackOff = Duration::Seconds(2);

}  // namespace

void SettledWrite::Enter(State from, State to) {
  CHECK(state_ == from, "in state {}", static_cast<int>(state_));
  state_ = to;
}

SettledWrite::Command SettledWrite::Start() {
  Enter(State::kNew, State::kWriting);
  return Put{};
}

SettledWrite::Command SettledWrite::On(PutAnswer answer) {
  Enter(State::kWriting, State::kReading);
  if (answer.result) {
    if (answer.result->text.empty()) return ReadBecause(Doubt::kNoVersion, "no version was told");
    return FinishWith(std::move(answer.result));
  }
  const Error& error = answer.result.error();
  const bool create = std::holds_alternative<IfAbsent>(write_.condition);
  if (error.outcome == Outcome::kMaybeDone && Planted(Plant::kDoubtIsDone)) {
    return FinishWith(ObjectVersion{"unknown"});
  }
  if (error.outcome == Outcome::kMaybeDone && Planted(Plant::kDoubtIsNotDone)) {
    return FinishWith(Fail(Unavailable(error.message)));
  }
  if (create && error.code == Code::kAborted && Planted(Plant::kConflictIsDone)) {
    return FinishWith(ObjectVersion{"unknown"});
  }
  if (error.outcome == Outcome::kMaybeDone) return ReadBecause(Doubt::kLost, error.message);
  if (error.code == Code::kAborted) return ReadBecause(Doubt::kRefused, error.message);
  return FinishWith(std::move(answer.result));
}

SettledWrite::Command SettledWrite::On(GetAnswer answer, Instant now, Prng& jitter) {
  Enter(State::kReading, State::kReading);
  if (answer.result || answer.result.error().code == Code::kNotFound) return Judge(answer.result);
  if (now >= write_.deadline) {
    return FinishWith(Fail(Unavailable(fmt::format("cannot tell whether the write landed ({}), and "
                                                   "reading back fails: {}",
                                                   why_, answer.result.error().message))
                               .MaybeDone()));
  }
  Enter(State::kReading, State::kWaiting);
  const Duration length = back_off_ + jitter.UpTo(back_off_ / 4);
  back_off_ = std::min(back_off_ * 2, kLongestBackOff);
  return Wait{std::min(length, write_.deadline - now)};
}

SettledWrite::Command SettledWrite::On(Woke /*woke*/) {
  Enter(State::kWaiting, State::kReading);
  return Get{};
}

SettledWrite::Command SettledWrite::ReadBecause(Doubt doubt, std::string why) {
  doubt_ = doubt;
  why_ = std::move(why);
  return Get{};
}

SettledWrite::Command SettledWrite::Judge(const Result<Content>& found) {
  if (found && found->bytes == write_.bytes) return FinishWith(found->version);
  if (!AsTheConditionAsked(found)) {
    return FinishWith(Fail(Aborted(fmt::format("another write stands ({})", why_))));
  }
  if (doubt_ == Doubt::kRefused) {
    return FinishWith(
        Fail(Unavailable(fmt::format("refused because of a rival that is gone again ({})", why_))));
  }
  return FinishWith(
      Fail(Unavailable(fmt::format("the write is not there yet ({})", why_)).MaybeDone()));
}

bool SettledWrite::AsTheConditionAsked(const Result<Content>& found) const {
  const auto* version = std::get_if<IfVersion>(&write_.condition);
  if (version == nullptr) return !found.has_value();
  return found.has_value() && found->version == version->version;
}

SettledWrite::Command SettledWrite::FinishWith(Result<ObjectVersion> result) {
  Enter(State::kReading, State::kDone);
  return Finish{std::move(result)};
}

}  // namespace nstance
