// StoreProbe: does a store honour conditional writes?
//
// Everything that this product promises rests on it, so a store is asked before anybody writes to
// it, and one that lies is refused. This is the machine (docs/decisions/003); storage/store_probe.h
// runs it. The rules themselves, as scripts and judgements, are in core/store_probe_rules.h.
//
//   #  check                                             if it fails
//   1  concurrent creates of one key, several rounds     refused
//   2  concurrent updates from one version, rounds       refused
//   3  update from a stale version                       refused
//   4  update of a missing key                           refused
//   5  delete, then create                               refused
//   6  read after write, from each endpoint              refused
//   7  list after write and after delete                 warning; the lag is measured
//   8  the store's clock against ours                    warning above 60 s
//   9  conditional delete with a stale version           reported; decides whether it is used
//
// Keys are `probe/{shard}/{random}-{n}`; all that were used are deleted at the end, whatever the
// verdict.
//
//   state    | event                              | next     | command
//   ---------+------------------------------------+----------+---------------------------------
//   new      | Start                              | asking   | Ask(first batch)
//   asking   | an answer, others outstanding      | asking   | Nothing
//   asking   | the last answer, script goes on    | asking   | Ask(next batch)
//   asking   | a listing that lags                | waiting  | Wait, then the same batch again
//   asking   | the last answer, round is over:    |          |
//            |   rule holds                       | asking   | Ask(next round or check)
//            |   rule broken                      | asking   | Ask(next check); refused
//            |   unclear, attempts left           | waiting  | Wait, then the round again
//            |   refused without reason, for good | asking   | Ask(next check); refused
//            |   unclear for good, checks 1-6     | cleaning | Ask(deletes); unreachable
//   asking   | no check left                      | cleaning | Ask(deletes)
//   cleaning | the last answer, first time        | cleaning | Ask(deletes that failed), if any
//   cleaning | the last answer                    | done     | Finish
//   waiting  | woke                               | asking   | Ask
//
// Guarantees, each held by a test:
//   - a store that breaks one of the rules 1 to 6 is refused; the message says the rule in words
//   - errors alone never refuse a store: they prove nothing (kUnreachable)
//   - losers of a race may be told 409, 412, 500 or nothing at all
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/prng.h"
#include "base/time.h"
#include "core/object_key.h"
#include "core/object_version.h"
#include "core/store_probe_rules.h"

namespace nstance {

enum class ProbeStatus : std::uint8_t { kPassed, kFailed, kWarning, kReported, kNotRun };
// "passed", "failed", "warning", "reported", "not run".
[[nodiscard]] std::string_view ProbeStatusName(ProbeStatus status);

struct ProbeCheck {
  int number = 0;
  std::string_view name;  // The rule in words.
  ProbeStatus status = ProbeStatus::kNotRun;
  std::string detail = {};
  Duration took =
      {};  // With waits and repetitions; zero for the clock, which is watched all along.
};

enum class ProbeVerdict : std::uint8_t {
  kAccepted,
  kRefused,      // The store breaks a rule: never write to it.
  kUnreachable,  // It could not be probed, which proves nothing: probe again later.
};

struct StoreProbeReport {
  ProbeVerdict verdict = ProbeVerdict::kUnreachable;
  // One sentence for people; names the first broken rule in words.
  std::string message;
  std::vector<ProbeCheck> checks;  // All nine, in order.

  // Check 9: deletes may carry a condition.
  bool conditional_delete = false;
  // Check 7: the longest time until a listing was right; the limit when it never was. T_vis must
  // not be below it.
  Duration listing_lag = {};
  // Check 8: the store's clock minus ours; empty when it tells none.
  std::optional<Duration> clock_offset = std::nullopt;
};

class StoreProbe final {
 public:
  struct Options {
    std::string shard;
    // Unpredictable, so that two probes never meet: 16 random bytes in base64url.
    std::string random;
    std::size_t endpoints = 1;
    int writers = 32;
    int rounds = 3;    // Of checks 1 and 2.
    int attempts = 3;  // Of a round that stays inconclusive.
    Duration listing_limit = Duration::Seconds(30);
  };

  struct Request {
    probe::Method method = probe::Method::kGet;
    std::size_t endpoint = 0;
    ObjectKey key;
    std::string bytes;      // Creates and updates.
    ObjectVersion version;  // Updates and conditional deletes.
  };

  // What the runner is to do next. All requests of an Ask are sent at once; the machine counts
  // answers.
  struct Ask {
    std::vector<Request> requests;
  };
  struct Wait {
    Duration length;
  };
  struct Nothing {};
  struct Finish {
    StoreProbeReport report;
  };
  using Command = std::variant<Ask, Wait, Nothing, Finish>;

  struct Answer {
    std::size_t number = 0;  // Of the request within its Ask.
    std::optional<Error> error = std::nullopt;
    std::string bytes = {};                              // Gets.
    ObjectVersion version = {};                          // Gets and applied writes.
    bool listed = false;                                 // Lists: the key was among them.
    std::optional<Timestamp> store_time = std::nullopt;  // Gets.
    Timestamp wall = {};                                 // Our clock when the answer came.
  };
  struct Woke {};

  // REQUIRES: a shard name that may stand in a key; at least one endpoint.
  explicit StoreProbe(Options options);

  [[nodiscard]] Command Start(Instant now);
  // `jitter` lengthens back-offs by up to a quarter.
  [[nodiscard]] Command On(Answer answer, Instant now, Prng& jitter);
  [[nodiscard]] Command On(Woke woke, Instant now);

 private:
  enum class State : std::uint8_t { kNew, kAsking, kWaiting, kCleaning, kDone };

  void Enter(State from, State to);
  [[nodiscard]] Command BeginRound(Instant now);
  [[nodiscard]] Command AskBatch(Instant now);
  [[nodiscard]] Command EndBatch(Instant now, Prng& jitter);
  [[nodiscard]] Command EndRound(Instant now, Prng& jitter);
  [[nodiscard]] Command NextCheck(Instant now);
  [[nodiscard]] Command Clean();
  [[nodiscard]] Command EndClean();
  [[nodiscard]] const probe::Batch& batch() const { return script_.batches.at(batch_); }
  [[nodiscard]] bool CanAsk(const probe::Batch& batch) const;
  [[nodiscard]] bool Lags() const;
  [[nodiscard]] probe::Sight See(const probe::Line& line, const Answer& answer) const;
  [[nodiscard]] ObjectKey Key(int number);
  [[nodiscard]] ProbeCheck& check() {
    return report_.checks.at(static_cast<std::size_t>(check_ - 1));
  }
  void NoteClock(const Answer& answer);
  void NoteRound(const probe::Finding& finding);
  [[nodiscard]] StoreProbeReport Conclude();

  Options options_;
  State state_ = State::kNew;
  StoreProbeReport report_;
  bool unreachable_ = false;

  int check_ = 1;
  Instant check_since_;
  int round_ = 0;
  int attempt_ = 0;
  int script_number_ = 0;  // Of all rounds so far; makes contents and keys unique.
  probe::Script script_;
  std::size_t batch_ = 0;
  std::size_t first_line_ = 0;  // Of the batch.
  std::size_t outstanding_ = 0;
  probe::Sights sights_;
  std::vector<ObjectVersion> versions_;  // By line.
  std::vector<ObjectKey> keys_;          // Of the round.
  std::vector<std::string> contents_;    // Of the round.
  std::optional<Instant> listing_since_;
  bool listing_lagged_ = false;

  std::vector<ObjectKey> used_;  // To be deleted at the end.
  std::vector<ObjectKey> left_;  // Deletes that failed.
  int cleanings_ = 0;
};

}  // namespace nstance
