// GroupMachine: takes the groups object over for one leadership and commits changes to it. Sans
// I/O; server/group_source.h runs it.
//
// Changes that wait while a write is under way share the next one (group commit). Each is judged on
// the base with all earlier changes of its batch applied; what is refused is answered and the rest
// goes on. Writes are made through a settled put, so that the machine sees three answers: applied,
// conflict, or an error whose outcome is right.
//
//   state   | event                          | next    | step
//   --------+--------------------------------+---------+------------------------------------------
//   new     | Start                          | reading | Read
//   reading | found, parses, not newer       | writing | Write, when there is something to write
//           | absent: an empty base          | idle    | else; answers
//   reading | stamp of a higher epoch        | lost    | Lost
//   reading | does not parse                 | broken  | ReadCopy if no good base is known; those
//           |                                |         | who wait: FAILED_PRECONDITION, position
//   reading | error                          | waiting | back-off; who waits: UNAVAILABLE
//   writing | applied                        | idle    | publish, answers; or the next batch
//   writing | conflict                       | waiting | a short while; the fifth for a change:
//           |                                |         | ABORTED
//   writing | error, not done                | idle    | answers: that error (taking over: waiting)
//   writing | error, maybe done              | waiting | answers: that error; the next write comes
//           |                                |         | by itself and keeps the lost one out
//   waiting | time                           | reading | Read
//   idle    | change, budget open            | writing | Write; refresh: reading
//   idle    | change, budget spent           | idle    | answers: UNAVAILABLE
//   broken  | refresh, 60 s                  | reading | Read
//
// Guarantees, each held by a test:
//   - success is answered only when the store holds the change (or held it before)
//   - the base of every write is a version that the write's condition proves current: nothing that
//     another has written is lost, and nothing comes from the cached copy
//   - an object that does not parse is not rewritten
//   - the first write of an epoch comes before any change is taken: from then on writes of older
//     epochs lose
//   - a stamp of a higher epoch ends it at once
// An answer that nobody asked for is our own mistake, and a CHECK.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/name.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "core/config/dynamic_groups.h"
#include "core/group/group_upsert.h"
#include "core/object_version.h"
#include "server/back_off.h"
#include "server/groups_snapshot.h"
#include "server/request_memory.h"

namespace nstance {

struct GroupUpsert {
  TenantId tenant;
  GroupKey key;
  UpsertRequest request = {};
  std::string request_id = {};  // Empty: none.
};
struct GroupDelete {
  TenantId tenant;
  GroupKey key;
};
// Reads the object again and goes over to a configuration, in one step.
struct GroupRefresh {
  ConfigRef config;  // REQUIRES: not null.
};
using GroupChange = std::variant<GroupUpsert, GroupDelete, GroupRefresh>;

struct GroupAnswer {
  GroupsRef groups;      // With the change in it.
  bool changed = false;  // False: it was so already, or the request id was known.
};

struct GroupStep {
  struct Nothing {};
  struct Read {};
  struct ReadCopy {};  // The last good copy in the cache folder.
  struct Write {
    std::string bytes;
    PutCondition condition;
  };
  struct TookOver {};
  struct Lost {
    std::int64_t epoch = 0;  // Of whoever leads now.
  };
  struct Settled {
    std::uint64_t ticket = 0;
    Result<GroupAnswer> answer;
  };

  std::variant<Nothing, Read, ReadCopy, Write> call = {};
  Instant wake_at = Instant::Never();  // Call OnTime() then, instead of what was said before.
  std::vector<Settled> settled = {};
  GroupsRef published = {};                             // Something changed: the new snapshot.
  std::optional<std::string> keep_copy = std::nullopt;  // Bytes for the cache folder.
  std::variant<Nothing, TookOver, Lost> news = {};
};

class GroupMachine {
 public:
  static constexpr std::size_t kMaxWaiting = 1'024;
  static constexpr int kMaxRetries = 4;
  using Entropy = std::array<std::uint8_t, 16>;
  enum class Budget : std::uint8_t { kOpen, kSpent };

  // What comes with every event.
  struct Input {
    Instant now;
    Entropy entropy = {};           // For the write id.
    std::int64_t seq = 0;           // Number of the last durable journal write.
    Budget budget = Budget::kOpen;  // Whether a write may begin now.
  };
  struct Options {
    std::int64_t epoch = 0;
    std::string file;  // "groups/a.jsonc", for messages.
    ArchOf arch_of = {};
  };
  struct Found {
    std::string bytes;
    ObjectVersion version;
  };
  using ReadAnswer = Result<std::optional<Found>>;  // Empty: there is no such object.

  // `jitter` must outlive the machine.
  GroupMachine(Options options, Prng& jitter);

  [[nodiscard]] GroupStep Start(const Input& input);
  [[nodiscard]] GroupStep OnRead(ReadAnswer answer, const Input& input);
  [[nodiscard]] GroupStep OnCopy(Result<std::string> bytes, const Input& input);
  // Settled: kAborted means that another write stands.
  [[nodiscard]] GroupStep OnWrite(Result<ObjectVersion> answer, const Input& input);
  [[nodiscard]] GroupStep OnTime(const Input& input);

  // The configuration of the take-over; until then changes are answered with kUnavailable. Later
  // ones come as GroupRefresh.
  [[nodiscard]] GroupStep SetConfig(ConfigRef config, const Input& input);
  // The ticket names the change in GroupStep::Settled. Changes are gathered until Commit().
  [[nodiscard]] GroupStep Submit(std::uint64_t ticket, GroupChange change);
  [[nodiscard]] bool wants_commit() const { return state_ == State::kIdle && !waiting_.empty(); }
  [[nodiscard]] GroupStep Commit(const Input& input);

  // Null before SetConfig() and the first read.
  [[nodiscard]] const GroupsRef& groups() const { return published_; }
  [[nodiscard]] bool took_over() const { return took_over_; }

 private:
  enum class State : std::uint8_t {
    kNew,
    kReading,
    kReadingCopy,
    kWriting,
    kWaiting,
    kIdle,
    kBroken,
    kLost,
  };
  struct Ticket {
    std::uint64_t number = 0;
    GroupChange change;
    int retries = 0;
  };
  // What the object held when it was last seen.
  struct Base {
    config::DynamicGroups groups = {};
    std::optional<ObjectVersion> version = std::nullopt;  // Empty: no object.
    std::size_t bytes = 0;
  };
  // A change of the write under way that was not refused.
  struct Accepted {
    Ticket ticket;
    bool changed = false;
  };
  struct Draft;

  [[nodiscard]] GroupStep Begin(const Input& input, GroupStep step);
  void Judge(Draft& draft, Ticket ticket, GroupStep& step);
  [[nodiscard]] Result<bool> Apply(Draft& draft, const GroupChange& change);
  [[nodiscard]] Result<bool> ApplyUpsertTo(Draft& draft, const GroupUpsert& upsert);
  [[nodiscard]] GroupStep WriteDraft(Draft draft, const Input& input, GroupStep step);
  void Succeed(GroupStep& step);
  [[nodiscard]] GroupStep Break(Error why, const Input& input, GroupStep step);
  [[nodiscard]] GroupStep RetryAfterConflict(const Input& input, GroupStep step);
  void FailAll(const Error& error, GroupStep& step);
  void FailAccepted(const Error& error, GroupStep& step);
  [[nodiscard]] bool WaitsForRead() const;
  void Publish(GroupStep& step);

  Options options_;
  Prng& jitter_;
  State state_ = State::kNew;
  bool took_over_ = false;
  bool must_write_ = true;  // The next write goes out even if nothing changed.
  ConfigRef config_;
  Base base_;
  std::optional<Error> broken_ = std::nullopt;  // Why the object does not parse.
  bool base_known_ = false;                     // base_ is what a read or write has shown.
  GroupsRef published_;
  RequestMemory memory_;
  std::deque<Ticket> waiting_;

  // The write under way.
  std::vector<Accepted> accepted_;
  Base written_;
  std::string written_bytes_;
  ConfigRef written_config_;
  RequestMemory written_memory_;
  BackOff back_off_;
};

}  // namespace nstance
