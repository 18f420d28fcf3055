// LearnedPut: a write whose answer may not tell the new version, and the read that learns it. The
// machine (docs/decisions/003); its runner is learned_put_runner.h.
//
//   state   | event                            | next    | command
//   --------+----------------------------------+---------+----------------------------------
//   new     | Start                            | writing | Write
//   writing | applied, with a version          | done    | Finish(version)
//   writing | applied, without a version       | reading | Read
//   writing | error                            | done    | Finish(that error)
//   reading | the bytes that were written      | done    | Finish(version read)
//   reading | other bytes                      | done    | Finish(kUnavailable, maybe done)
//   reading | error                            | done    | Finish(kUnavailable, maybe done)
//
// Any other event in a state is our own mistake, and a CHECK.
//
// Other bytes mean that another write came after ours: its version must not pass for ours, or the
// next write would overwrite what nobody has read. The caller reads back as after a lost answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "ports/object_store.h"

namespace nstance::cloud {

class LearnedPut final {
 public:
  struct Write {};
  struct Read {};
  struct Finish {
    Result<ObjectVersion> result;
  };
  using Command = std::variant<Write, Read, Finish>;

  // What a write was answered: the version, or nothing when the answer did not tell a usable one.
  using WriteResult = Result<std::optional<ObjectVersion>>;

  explicit LearnedPut(std::string bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] Command Start() {
    Enter(State::kNew, State::kWriting);
    return Write{};
  }

  [[nodiscard]] Command On(WriteResult result) {
    const bool unknown = result && !result->has_value();
    Enter(State::kWriting, unknown ? State::kReading : State::kDone);
    if (unknown) return Read{};
    if (!result) return Finish{Fail(std::move(result).error())};
    return Finish{**std::move(result)};
  }

  [[nodiscard]] Command On(Result<Object> object) {
    Enter(State::kReading, State::kDone);
    if (object && object->bytes == bytes_) return Finish{std::move(object->version)};
    return Finish{Fail(
        Unavailable(object ? "the write was answered without a version, and then another stood"
                           : "the write was answered without a version: " + object.error().message)
            .MaybeDone())};
  }

 private:
  enum class State : std::uint8_t { kNew, kWriting, kReading, kDone };

  void Enter(State from, State to) {
    CHECK(state_ == from, "in state {}", static_cast<int>(state_));
    state_ = to;
  }

  std::string bytes_;
  State state_ = State::kNew;
};

}  // namespace nstance::cloud
