// SettledPut: a conditional put whose answer is true, although the store's may be ambiguous.
//
// It runs the machine of core/settled_write.h: write once, and where the answer leaves a doubt read
// the object back. Everything that writes conditionally goes through here and sees three results:
//   version              our bytes are in the store under this version
//   kAborted, kNotDone   another write stands: read and decide again
//   any other error      its outcome is right. After kNotDone the write may be sent again. After
//                        kMaybeDone it may still land, and sending the *same bytes* under the same
//                        condition again is the one safe repetition
// REQUIRES of the caller: bytes that no other write has (a `write_id`), or create-only content for
// which equal bytes are as good as one's own.
#pragma once

#include <functional>
#include <utility>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "core/object_key.h"
#include "core/settled_write.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"

namespace nstance {

class SettledPut final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;
    Prng& jitter;
  };
  struct Request {
    PutRequest put;
    // Failed read-backs are tried again until then. Read-back begins when the put has answered, so
    // the last answer comes at most one call of the store after the deadline.
    Instant deadline;
  };
  using Done = std::move_only_function<void(Result<ObjectVersion>)>;

  // `done` is called once, on the loop, never from inside Start(), and may destroy this object.
  // Destroying it earlier means that `done` is not called; the write may still happen.
  SettledPut(Deps deps, Request request, Done done);
  SettledPut(const SettledPut&) = delete;
  SettledPut& operator=(const SettledPut&) = delete;

  void Start() { Do(machine_.Start()); }

 private:
  void Do(SettledWrite::Command command);

  Deps deps_;
  ObjectKey key_;
  SettledWrite machine_;
  Done done_;
  Pending pending_;
};

}  // namespace nstance
