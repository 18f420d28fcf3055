// SettledPut: one create-only write to a store, settled for certain although answers get lost.
//
// This is the worked example of docs/decisions/003-asynchronous-steps.md. The class below is the
// *machine*: it decides every step and does nothing. It has no clock, no port and no callback, so a
// test walks through it with plain values.
//
//   state    | event                       | next    | command
//   ---------+-----------------------------+---------+---------------------------
//   new      | Start                       | writing | Put
//   writing  | answer: applied             | done    | Finish(applied)
//   writing  | answer: error, not done     | done    | Finish(that error)
//   writing  | answer: error, maybe done   | reading | Get
//   reading  | answer: our write id        | done    | Finish(applied)
//   reading  | answer: another's write id  | done    | Finish(kAborted)
//   reading  | answer: absent              | done    | Finish(kUnavailable, not done)
//   reading  | answer: error               | waiting | Wait(back-off)
//   waiting  | woke, deadline not reached  | reading | Get
//   waiting  | woke, deadline reached      | done    | Finish(kUnavailable, maybe done)
//
// Any other event in a state is our own mistake, and a CHECK.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/result.h"
#include "base/time.h"

namespace nstance::example {

class SettledPut {
 public:
  // What the runner is to do next. Exactly one command is outstanding at any time.
  struct Put {
    std::string write_id;
  };
  struct Get {};
  struct Wait {
    Duration length;
  };
  struct Finish {
    Status result;
  };
  using Command = std::variant<Put, Get, Wait, Finish>;

  // What may come back.
  struct PutAnswer {
    Status result;
  };
  struct GetAnswer {
    Result<std::optional<std::string>> write_id;  // Empty: no such object.
  };
  struct Woke {};

  SettledPut(std::string write_id, Instant deadline)
      : write_id_(std::move(write_id)), deadline_(deadline) {}

  [[nodiscard]] Command Start() {
    Enter(State::kNew, State::kWriting);
    return Put{write_id_};
  }

  [[nodiscard]] Command On(PutAnswer answer) {
    const bool lost = !answer.result && answer.result.error().outcome == Outcome::kMaybeDone;
    Enter(State::kWriting, lost ? State::kReading : State::kDone);
    if (lost) return Get{};
    return Finish{std::move(answer.result)};
  }

  [[nodiscard]] Command On(const GetAnswer& answer) {
    Enter(State::kReading, answer.write_id ? State::kDone : State::kWaiting);
    if (!answer.write_id) {
      back_off_ = std::min(back_off_ * 2, Duration::Seconds(4));
      return Wait{back_off_};
    }
    if (!answer.write_id->has_value()) return Finish{Fail(Unavailable("the write was lost"))};
    if (**answer.write_id == write_id_) return Finish{};
    return Finish{Fail(Aborted("another write stands"))};
  }

  [[nodiscard]] Command On(Woke, Instant now) {
    const bool late = now >= deadline_;
    Enter(State::kWaiting, late ? State::kDone : State::kReading);
    if (!late) return Get{};
    return Finish{Fail(Unavailable("the store does not answer").MaybeDone())};
  }

 private:
  enum class State : std::uint8_t { kNew, kWriting, kReading, kWaiting, kDone };

  void Enter(State from, State to) {
    CHECK(state_ == from, "in state {}", static_cast<int>(state_));
    state_ = to;
  }

  std::string write_id_;
  Instant deadline_;
  Duration back_off_ = Duration::Milliseconds(250);
  State state_ = State::kNew;
};

}  // namespace nstance::example
