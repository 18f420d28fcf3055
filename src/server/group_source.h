// GroupSource: the dynamic groups of a shard (`groups/{shard}.jsonc`) for one leadership, and all
// groups merged: the runner of server/group_machine.h over an object store.
//
// The owner makes one when the journal is taken over and destroys it when leadership ends.
//
//   GroupSource groups(deps, {.key = key, .epoch = epoch}, owner);
//   groups.Start();              // Owner::took_over: older leaders' group writes lose from here
//   groups.SetConfig(config);    // Owner::published(groups): the first snapshot
//   groups.Upsert({tenant, key, request, request_id}, done);
//   groups.Refresh(config, done);        // RefreshConfig: both together, in one step
//
// Each change that is durable is published first and answered then, in one turn. Errors:
//   kInvalidArgument, kFailedPrecondition   as core/group/group_upsert.h; also kFailedPrecondition
//                      while the stored object does not parse, with its position
//   kAlreadyExists     the request id was used with other content
//   kAborted           five times somebody else wrote first
//   kResourceExhausted too many changes wait, or the object would become too large
//   kUnavailable       the store did not answer; the outcome is right. Or the lease is about to end
//
// Guarantees: those of GroupMachine, and each held by a test
//   - no write begins unless may_start(store_timeout) says so in that turn
//   - everything submitted in one turn is one write
//   - destroying the source leaves no timer and no callback
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "core/object_key.h"
#include "ports/cache_folder.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"
#include "ports/secure_random.h"
#include "server/group_machine.h"
#include "storage/settled_put.h"

namespace nstance {

class GroupSource final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;
    CacheFolder& cache;
    SecureRandom& random;
    Prng& jitter;
    log::Logger log;
  };
  struct Options {
    ObjectKey key;
    std::int64_t epoch = 0;
    Duration store_timeout = Duration::Seconds(3);
    // How long a lost answer of a write is followed up.
    Duration settle_limit = Duration::Seconds(6);
    ArchOf arch_of = {};
  };
  struct Owner {
    // The object carries our stamp, or cannot be used and was left alone (dynamic_invalid of the
    // groups published later).
    std::move_only_function<void()> took_over;
    // A higher epoch was seen: step down now. May destroy the source; the last thing told.
    std::move_only_function<void(std::int64_t epoch)> lost;
    std::move_only_function<void(const GroupsRef&)> published;
    // Whether an effect that takes at most so long may start now (Elector::MayStart).
    std::move_only_function<bool(Duration)> may_start;
    // Number of the last durable journal write (JournalWriter::journal().seq).
    std::move_only_function<std::int64_t()> seq;
  };
  using Done = std::move_only_function<void(Result<GroupAnswer>)>;

  GroupSource(Deps deps, Options options, Owner owner);
  GroupSource(const GroupSource&) = delete;
  GroupSource& operator=(const GroupSource&) = delete;
  ~GroupSource() = default;

  void Start() { Do(machine_.Start(Input())); }
  // REQUIRES: not null.
  void SetConfig(ConfigRef config);

  // `done` is called once, never from inside these calls; it may submit more, but not destroy the
  // source.
  void Upsert(GroupUpsert upsert, Done done) { Submit(std::move(upsert), std::move(done)); }
  void Delete(GroupDelete group, Done done) { Submit(std::move(group), std::move(done)); }
  void Refresh(ConfigRef config, Done done) {
    Submit(GroupRefresh{.config = std::move(config)}, std::move(done));
  }

  // All groups as they would be after the change, or why it would be refused: judged by the same
  // code, on what is in force now. Nothing is written.
  [[nodiscard]] Result<GroupsRef> Preview(GroupChange change) const {
    return machine_.Preview(std::move(change));
  }

  // Null before the first published().
  [[nodiscard]] const GroupsRef& groups() const { return machine_.groups(); }

 private:
  [[nodiscard]] GroupMachine::Input Input();
  void Submit(GroupChange change, Done done);
  void Do(GroupStep step);
  void Turn();
  void Call(GroupStep& step);
  void TakeCopyInstead(Object object);
  void Tell(GroupStep& step);
  void Answer(GroupStep::Settled& settled);
  void KeepCopy();

  Deps deps_;
  Options options_;
  Owner owner_;
  GroupMachine machine_;
  std::map<std::uint64_t, Done> done_;  // By ticket.
  std::uint64_t next_ticket_ = 1;
  std::optional<SettledPut> put_;
  std::optional<std::string> copy_waits_;
  bool copy_under_way_ = false;
  std::vector<GroupStep::Settled> refused_;  // Told in the next turn.
  bool turn_armed_ = false;
  Pending call_;
  Pending timer_;
  Pending turn_;
  Pending copy_;
};

// The cached copy of the groups object.
inline constexpr std::string_view kGroupsCacheName = "groups.jsonc";

}  // namespace nstance
