#include "server/fleet/deletion_machine.h"

#include <algorithm>

#include "base/check.h"

namespace nstance {
namespace {

constexpr Duration kFirstBackoff = Duration::Seconds(5);
constexpr Duration kMaxBackoff = Duration::Minutes(2);
constexpr Duration kFirstLook = Duration::Milliseconds(250);
constexpr Duration kMaxLook = Duration::Seconds(30);
// A VM that is still there so long after its deletion was answered is deleted again.
constexpr Duration kDeleteAgain = Duration::Seconds(60);

Duration Doubled(Duration first, int times, Duration cap) {
  Duration length = first;
  for (int i = 0; i < times && length < cap; ++i) length = length * 2;
  return std::min(length, cap);
}

fleet::ProviderStatus StatusOf(ProviderStatus status) {
  return fleet::ParseProviderStatus(ProviderStatusName(status));
}

}  // namespace

DeletionMachine::Command DeletionMachine::Start(const Input& input) {
  static_cast<void>(input);
  CHECK(state_ == State::kNew);
  if (record_ != Record::kLive) return CallDelete();
  state_ = State::kMarking;
  return WriteDeleting{};
}

DeletionMachine::Command DeletionMachine::CallDelete() {
  state_ = State::kDeleting;
  return Delete{};
}

DeletionMachine::Command DeletionMachine::ToBury() {
  state_ = State::kBurying;
  return Bury{};
}

DeletionMachine::Command DeletionMachine::Written(const Input& input) {
  static_cast<void>(input);
  if (state_ == State::kMarking) return CallDelete();
  CHECK(state_ == State::kBurying);
  state_ = State::kDone;
  return Finish{};
}

DeletionMachine::Command DeletionMachine::Deleted(const Input& input,
                                                  const ProviderResult<ProviderDeleted>& answer) {
  CHECK(state_ == State::kDeleting);
  if (answer.has_value()) {
    trouble_.clear();
    failures_ = 0;
    looks_ = 0;
    deleted_at_ = input.now;
    state_ = State::kConfirming;
    return Look{};
  }
  trouble_ = answer.error().error.message;
  const Duration length = Doubled(kFirstBackoff, failures_++, kMaxBackoff);
  state_ = State::kWaiting;
  return Wait{.until = input.now + length + input.jitter.UpTo(length / 4)};
}

DeletionMachine::Command DeletionMachine::Looked(const Input& input,
                                                 const ProviderResult<ProviderInstance>& answer) {
  CHECK(state_ == State::kConfirming);
  if (answer.has_value()) {
    trouble_.clear();
    if (answer->status == ProviderStatus::kDeleted) return ToBury();
    log_.OnFound(StatusOf(answer->status), input.now);
    return LookLater(input, Doubled(kFirstLook, looks_++, kMaxLook));
  }
  if (answer.error().error.code != Code::kNotFound) {
    trouble_ = answer.error().error.message;
    return LookLater(input, Doubled(kFirstBackoff, looks_++, kMaxBackoff));
  }
  trouble_.clear();
  if (options_.consistency_window == Duration()) return ToBury();
  log_.OnNotFound(input.now, options_.vm_since, options_.times);
  if (fleet::JudgeAbsence(log_, options_.times) == fleet::Absence::kAbsent) return ToBury();
  return LookLater(input, options_.times.t_vis);
}

DeletionMachine::Command DeletionMachine::LookLater(const Input& input, Duration gap) {
  state_ = State::kLookWait;
  return Wait{.until = input.now + gap};
}

DeletionMachine::Command DeletionMachine::Woke(const Input& input) {
  if (state_ == State::kWaiting) return CallDelete();
  CHECK(state_ == State::kLookWait);
  const bool there = log_.found_at && !log_.missing_last;
  if (there && input.now - deleted_at_ >= kDeleteAgain) return CallDelete();
  state_ = State::kConfirming;
  return Look{};
}

}  // namespace nstance
