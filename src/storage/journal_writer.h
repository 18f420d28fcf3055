// JournalWriter: takes the shard's journal over for one leadership and commits intents to it: the
// runner of core/journal_machine.h over an object store.
//
// The owner makes one when the elector tells of an acquired lease and destroys it when leadership
// ends, for whatever reason. Everything happens on the loop.
//
//   took_over(epoch)   the journal is ours under this epoch; journal() has what was open. Effects
//                      may begin, each after its intent is durable.
//   refused(why)       this server must not lead: the journal is corrupt, another shard's, or
//                      missing although there was one
//   lost(why)          a newer leader writes: stop before the next effect, whatever the clock says
//
// Each is called at most once, and may destroy the writer. After `refused` and `lost` nothing else
// is called: what was submitted and not answered may or may not be durable.
//
// Guarantees: those of JournalMachine, and each held by a test
//   - a Done is called with the intent's id only when the store holds the change
//   - no write begins unless may_start(store_timeout) says so in that turn
//   - destroying the writer leaves no timer and no callback
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/metrics.h"
#include "core/journal_machine.h"
#include "core/object_key.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"
#include "ports/secure_random.h"

namespace nstance {

class JournalWriter final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;
    SecureRandom& random;
    // journal_commits_total, journal_commit_seconds, journal_bytes; null: nothing is counted.
    metrics::Registry* metrics = nullptr;
  };
  struct Owner {
    std::move_only_function<void(std::int64_t epoch)> took_over;
    std::move_only_function<void(Error)> refused;
    std::move_only_function<void(JournalLoss)> lost;
    // Whether an effect that takes at most so long may start now (Elector::MayStart).
    std::move_only_function<bool(Duration)> may_start;
  };
  struct Options {
    ObjectKey key;
    Duration store_timeout = Duration::Seconds(3);
  };
  using Done = std::move_only_function<void(Result<std::string> id)>;

  JournalWriter(Deps deps, Options options, JournalMachine machine, Owner owner)
      : deps_(deps),
        options_(std::move(options)),
        machine_(std::move(machine)),
        owner_(std::move(owner)) {}
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;
  ~JournalWriter() = default;

  static void Declare(metrics::Snapshot& page);

  void Start() { Do(machine_.Start(Input())); }

  // `done` is called once the change is durable, never from inside this call; it may submit more
  // but not destroy the writer.
  void Submit(JournalChange change, JournalMachine::Urgency urgency, Done done);
  void Open(Intent intent, Done done) {
    Submit({.intent = std::move(intent)}, JournalMachine::Urgency::kNow, std::move(done));
  }
  // Rides with the next write, or goes by itself after a second.
  void Close(std::string id) {
    Submit({.id = std::move(id)}, JournalMachine::Urgency::kLazy,
           [](const Result<std::string>&) {});
  }
  // Rides with the next write, or goes by itself after a second (JournalMachine::Remember).
  void Remember(const JournalMemory& news) { Do(machine_.Remember(news, Input())); }
  void SetBrake(std::string_view id, Brake brake) { machine_.SetBrake(id, brake); }

  // REQUIRES: took_over was called.
  [[nodiscard]] const Journal& journal() const { return machine_.table().journal(); }
  [[nodiscard]] const JournalMachine& machine() const { return machine_; }

 private:
  [[nodiscard]] JournalMachine::Input Input();
  void Do(JournalStep step);
  void Read();
  void Write(JournalStep::Write& write);
  void Count(std::size_t bytes, Instant begun);
  void Tell(JournalStep& step);

  Deps deps_;
  Options options_;
  JournalMachine machine_;
  Owner owner_;
  std::map<std::uint64_t, Done> done_;  // By ticket.
  std::uint64_t next_ticket_ = 1;
  Pending call_;
  Pending timer_;
};

}  // namespace nstance
