#include "storage/elector.h"

#include <optional>
#include <variant>

#include "base/fault_point.h"
#include "base/overloaded.h"

namespace nstance {
namespace {

LeaseMachine::ReadAnswer ToAnswer(Result<Object> result) {
  if (result) {
    return LeaseMachine::Found{.bytes = std::move(result->bytes),
                               .version = std::move(result->version.text)};
  }
  if (result.error().code == Code::kNotFound) return std::nullopt;
  return Fail(std::move(result).error());
}

LeaseMachine::WriteAnswer ToAnswer(Result<ObjectVersion> result) {
  if (!result) return Fail(std::move(result).error());
  // Applied, but the store did not tell the version: read it.
  if (result->text.empty()) return Fail(Unavailable("no version").MaybeDone());
  return std::move(result->text);
}

}  // namespace

LeaseMachine::Input Elector::Input() {
  return {.now = deps_.loop.Now(),
          .wall_now = deps_.loop.WallNow(),
          .entropy = deps_.random.Array<std::tuple_size_v<LeaseMachine::Entropy>>(),
          .boot_id = deps_.boot_id()};
}

// Its timers are late on a clock that went back.
void Elector::Start() {
  clock_ = deps_.loop.WatchClock([this] { Look(); });
  Do(machine_.Start(Input()));
}

void Elector::Stop(Instant release_by, std::move_only_function<void()> stopped) {
  stops_ = true;
  alarm_ = Pending();
  stopped_ = std::move(stopped);
  Do(machine_.Stop(release_by, Input()));
}

void Elector::StepDown() {
  LeaseStep step = machine_.StepDown(Input());
  // The deadline may have passed unnoticed: the owner knows already that it no longer leads.
  step.news = LeaseStep::Nothing{};
  Do(std::move(step));
}

bool Elector::MayStart(Duration bound) {
  const Instant now = deps_.loop.Now();
  const bool other_boot = machine_.IsOtherBoot(deps_.boot_id());
  // Timers may be far away, so it is looked at in a turn of its own.
  if (now < machine_.last_now() || other_boot) {
    look_ = deps_.loop.CallAt(now, [this] { Look(); });
  }
  return !other_boot && machine_.MayStart(now, bound);
}

Step Elector::StepOfCall(Step in_standby) const {
  if (!deps_.of_shard) return Step::kNone;
  if (machine_.holding()) return Step::kL7;
  return machine_.releasing() ? Step::kL8 : in_standby;
}

void Elector::Read() {
  AtStep(StepOfCall(Step::kL1));
  call_ = deps_.store.Get(key_, [this](Result<Object> result) {
    Do(machine_.OnRead(ToAnswer(std::move(result)), Input()));
  });
}

void Elector::Write(LeaseStep::Write& write) {
  PutRequest request{.key = key_, .bytes = std::move(write.bytes), .condition = IfAbsent{}};
  if (write.expected_version) {
    request.condition = IfVersion{ObjectVersion{std::move(*write.expected_version)}};
  }
  AtStep(StepOfCall(Step::kL2));
  call_ = deps_.store.Put(std::move(request), [this](Result<ObjectVersion> result) {
    Do(machine_.OnWrite(ToAnswer(std::move(result)), Input()));
  });
}

// Calls and timers first: the owner's callbacks may come back here, or end us.
void Elector::Do(LeaseStep step) {
  timer_ = Pending();
  if (step.wake_at != Instant::Never()) {
    timer_ = deps_.loop.CallAt(step.wake_at, [this] { Look(); });
  }
  std::visit(Overloaded{
                 [](LeaseStep::Nothing) {},
                 [this](LeaseStep::Read) { Read(); },
                 [this](LeaseStep::Write& write) { Write(write); },
             },
             step.call);
  Tell(step);
}

// At most one callback in a turn, and nothing of ours is touched after it.
void Elector::Tell(const LeaseStep& step) {
  if (step.alarm && !stops_) {
    alarm_ = deps_.loop.CallAt(deps_.loop.Now(),
                               [owner = owner_, alarm = *step.alarm] { owner->alarm(alarm); });
  }
  const std::shared_ptr<Owner> owner = owner_;
  std::visit(Overloaded{
                 [](LeaseStep::Nothing) {},
                 [&](const LeaseStep::Acquired& news) { owner->acquired(news.term); },
                 [&](const LeaseStep::Lost& news) {
                   if (news.loss == LeaseLoss::kDeadline && deps_.of_shard) AtStep(Step::kL3);
                   if (!stops_) owner->lost(news.loss);
                 },
                 [this](LeaseStep::Stopped) {
                   call_ = Pending();
                   look_ = Pending();
                   clock_ = Pending();
                   timer_ = deps_.loop.CallAt(deps_.loop.Now(), std::move(stopped_));
                 },
             },
             step.news);
}

}  // namespace nstance
