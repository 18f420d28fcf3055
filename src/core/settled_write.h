// SettledWrite: one conditional write, settled by reading back whatever the store answered.
//
// This is the machine (docs/decisions/003); storage/settled_put.h runs it. It is the only place
// that decides what an ambiguous or refused write means. A write is told from all others by its
// bytes: what is written often carries a `write_id`, and what does not (certificates, generated
// secrets) is create-only, where the same bytes serve as well.
//
//   state    | event                              | next    | command
//   ---------+------------------------------------+---------+-----------------------------------
//   new      | Start                              | writing | Put
//   writing  | applied, version told              | done    | Finish(version)
//   writing  | applied, no version                | reading | Get
//   writing  | conflict (kAborted, not done)      | reading | Get
//   writing  | any error, maybe done              | reading | Get
//   writing  | any other error, not done          | done    | Finish(that error)
//   reading  | our bytes                          | done    | Finish(version read)
//   reading  | what the condition asked for       | done    | Finish(kUnavailable): see below
//   reading  | anything else                      | done    | Finish(kAborted, not done)
//   reading  | error, deadline not reached        | waiting | Wait(back-off with jitter)
//   reading  | error, deadline reached            | done    | Finish(kUnavailable, maybe done)
//   waiting  | woke                               | reading | Get
//
// "What the condition asked for" is no object after IfAbsent, and the same version after IfVersion:
// the write is not there, and nothing stands in its way.
//   - After a conflict the refusal no longer explains itself (a rival came and went, or the store
//     answers 409 to whoever meets another write): surely not done, may be sent again.
//   - After a lost answer the write may still be on its way: maybe done. Sending the same bytes
//     under the same condition again is safe, since a late first copy is then found as "our bytes".
//
// Guarantees, each held by a test:
//   - success means that the bytes were in the store under the version returned
//   - an ambiguous or refused write is never reported without a read of the object that succeeded
//     or was tried until the deadline; at least one read is tried, also when the deadline has
//     passed
//   - kAborted means that ours is not there and never will be: another write stands. It may have
//     been there before that write, whose author has then seen it.
//   - the write is sent once
// Any event that a state does not expect is our own mistake, and a CHECK.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "core/object_version.h"

namespace nstance {

class SettledWrite {
 public:
  // What the runner is to do next. Exactly one command is outstanding at any time.
  struct Put {};
  struct Get {};
  struct Wait {
    Duration length;
  };
  struct Finish {
    Result<ObjectVersion> result;
  };
  using Command = std::variant<Put, Get, Wait, Finish>;

  // What may come back.
  struct PutAnswer {
    Result<ObjectVersion> result;
  };
  struct Content {
    std::string bytes;
    ObjectVersion version;
  };
  struct GetAnswer {
    Result<Content> result;  // kNotFound: there is no such object.
  };
  struct Woke {};

  struct Write {
    std::string bytes;
    PutCondition condition;
    // Until when a failed read-back is tried again.
    Instant deadline;
  };

  explicit SettledWrite(Write write) : write_(std::move(write)) {}

  [[nodiscard]] const Write& write() const { return write_; }

  [[nodiscard]] Command Start();
  [[nodiscard]] Command On(PutAnswer answer);
  // `jitter` lengthens back-offs by up to a quarter.
  [[nodiscard]] Command On(GetAnswer answer, Instant now, Prng& jitter);
  [[nodiscard]] Command On(Woke);

 private:
  enum class State : std::uint8_t { kNew, kWriting, kReading, kWaiting, kDone };
  // Why the object is read.
  enum class Doubt : std::uint8_t { kNoVersion, kRefused, kLost };

  void Enter(State from, State to);
  [[nodiscard]] Command ReadBecause(Doubt doubt, std::string why);
  [[nodiscard]] Command Judge(const Result<Content>& found);
  [[nodiscard]] bool AsTheConditionAsked(const Result<Content>& found) const;
  [[nodiscard]] Command FinishWith(Result<ObjectVersion> result);

  Write write_;
  State state_ = State::kNew;
  Doubt doubt_ = Doubt::kLost;
  std::string why_;  // What the store said to the write.
  Duration back_off_ = Duration::Milliseconds(100);
};

}  // namespace nstance
