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
// An object that vanishes while it held groups is treated like one that does not parse: whoever
// wants all dynamic groups gone says so by `{}`.
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
#include <functional>
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
#include "core/back_off.h"
#include "core/config/dynamic_groups.h"
#include "core/group/group_upsert.h"
#include "core/object_version.h"
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
  static constexpr std::size_t kMaxRequestIdBytes = 64;
  static constexpr Duration kBrokenInterval = Duration::Seconds(60);
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
  // All groups as they would be with the change in force, judged as Submit() and Commit() would;
  // nothing is changed.
  [[nodiscard]] Result<GroupsRef> Preview(GroupChange change) const;
  // REQUIRES for Commit(): wants_commit().
  [[nodiscard]] bool wants_commit() const {
    return (state_ == State::kIdle || state_ == State::kBroken) && !waiting_.empty();
  }
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
    std::string content = {};  // Of an upsert with a request id.
    int retries = 0;
    bool changes = false;  // Judged: the write under way makes a difference for it.
  };
  // What the object held when it was last seen.
  struct Base {
    config::DynamicGroups groups = {};
    std::optional<ObjectVersion> version = std::nullopt;  // Empty: no object.
    std::size_t bytes = 0;
  };
  // A write in the making.
  struct Draft {
    config::DynamicGroups groups = {};
    ConfigRef config = {};       // What changes are judged under.
    bool config_is_new = false;  // A refresh brought it.
    std::size_t bytes = 0;       // About what it will take.
    std::vector<Ticket> accepted = {};
  };

  [[nodiscard]] Result<Ticket> Admit(std::uint64_t number, GroupChange change) const;
  [[nodiscard]] GroupStep Next(const Input& input, GroupStep step);
  [[nodiscard]] GroupStep Begin(const Input& input, GroupStep step);
  void Judge(Draft& draft, Ticket ticket, GroupStep& step) const;
  [[nodiscard]] Result<bool> ApplyTo(Draft& draft, const Ticket& ticket) const;
  [[nodiscard]] Result<bool> UpsertIn(Draft& draft, const GroupUpsert& upsert,
                                      const std::string& content) const;
  [[nodiscard]] RequestMemory::Verdict LookUp(const Draft& draft, const GroupUpsert& upsert,
                                              const std::string& content) const;
  [[nodiscard]] GroupStep Take(std::optional<Found> found, const Input& input);
  [[nodiscard]] GroupStep Write(Draft draft, const Input& input, GroupStep step);
  void Succeed(Draft draft, GroupStep& step);
  [[nodiscard]] GroupStep Conflict(const Input& input, GroupStep step);
  [[nodiscard]] GroupStep Break(Error why, const Input& input);
  [[nodiscard]] GroupStep StayBroken(const Input& input, GroupStep step);
  [[nodiscard]] GroupStep WaitFor(Duration length, const Input& input, GroupStep step);
  [[nodiscard]] GroupStep ReadNow(GroupStep step);
  [[nodiscard]] GroupStep Leave(GroupStep step) const;
  static void FailEach(const std::vector<Ticket>& tickets, const Error& error, GroupStep& step);
  void FailWaiting(const Error& error, GroupStep& step);
  void TakeOver(GroupStep& step);
  void Publish(GroupStep& step);

  Options options_;
  std::reference_wrapper<Prng> jitter_;
  State state_ = State::kNew;
  Instant wake_at_ = Instant::Never();
  bool took_over_ = false;
  // The next write goes out even if nothing changed: our stamp is not there, or a lost write of
  // ours must be kept out.
  bool must_write_ = true;
  ConfigRef config_;
  Base base_;
  std::optional<Error> broken_ = std::nullopt;  // Why the object cannot be used.
  GroupsRef published_;
  RequestMemory memory_;
  std::deque<Ticket> waiting_;
  Draft draft_;  // The write under way.
  std::string draft_bytes_;
  BackOff back_off_;
};

}  // namespace nstance
