// Await(): asks a port and waits for its answer.
//
//   const Result<Object> object = Await<Object>(turns, [&](auto done) {
//     return store.Get(key, std::move(done));
//   });
//
// A command of the tool does one thing after the other, and the process does nothing else
// meanwhile: so it is plain code that asks, waits and decides, and not a machine with a runner
// (docs/decisions/003). What it stands on are the same ports and the same loop, and every port
// answers within a deadline of its own. A process that dies while it waits is the same picture as
// anywhere: what is stored by then is all that counts.
#pragma once

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/loop.h"
#include "ports/pending.h"

namespace nstance::admin {

// The turns of the loop that the ports answer on.
class Turns {
 public:
  Turns() = default;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;
  virtual ~Turns() = default;
  // Runs tasks until Stop() is called by one of them.
  virtual void Run() = 0;
  virtual void Stop() = 0;
};

// `start` takes the callback and returns the Pending.
template <class T, class Start>
[[nodiscard]] Result<T> Await(Turns& turns, Start&& start) {
  std::optional<Result<T>> answer;
  const Pending call = std::forward<Start>(start)([&](Result<T> got) {
    answer.emplace(std::move(got));
    turns.Stop();
  });
  turns.Run();
  CHECK(answer.has_value(), "the loop ended without an answer");
  return *std::move(answer);
}

inline void Pause(Turns& turns, Loop& loop, Duration length) {
  const Pending timer = loop.CallAfter(length, [&] { turns.Stop(); });
  turns.Run();
}

}  // namespace nstance::admin
