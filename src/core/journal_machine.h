// JournalMachine: takes the journal over for one leadership and commits changes to it. Sans I/O.
//
// One machine serves one leadership, from the lease's acquisition to its loss; the next leadership
// has a new one. Events go in; each gives one JournalStep. One storage call is outstanding at a
// time.
//
// Guarantees, each held by a test:
//   - the first write is the take-over: epoch + 1 on what was just read; TookOver comes after it is
//     confirmed, and no change is written before
//   - group commit: everything submitted in one turn of the loop, or while a write is under way,
//     goes into one write
//   - closing (kLazy) forces no write: it rides with the next one, or 1 s later
//   - what is to be remembered rides with the next write, or goes by itself 1 s later; a count of
//     records above 0 only rides
//   - what does not fit waits, and is tried again with the next write, when 64 places were freed,
//     or 1 s after the last try if any was
//   - a change is answered only once the store has confirmed the write that holds it, or a
//     read-back has shown it; an ambiguous write is read back before anything else, and if it has
//     not landed the *same bytes* are sent again, so that at most one of them can land
//   - a journal that somebody else wrote ends the machine: Lost, and no write ever after
//   - no write starts when the lease leaves no time for it (Budget::kSpent)
//
//   state       | event                                  | next        | step
//   ------------+----------------------------------------+-------------+-------------------------
//   new         | Start                                  | taking over | Read
//   taking over | read: a journal                        | taking over | Write(epoch + 1)
//   taking over | read: none, no record carries an epoch | taking over | Write(epoch 1), new
//   taking over | read: none, but records do; corrupt;   | ended       | Refused
//               |   another cluster's or shard's         |             |
//   taking over | write: applied; read back: our write   | open        | TookOver
//   taking over | write: conflict or maybe done          | taking over | Read
//   taking over | read back: what the write was based on | taking over | Write(same bytes), later
//   taking over | read back: anything else               | taking over | Write(epoch + 1 of that)
//   open        | Submit                                 | open        | wake at end of turn
//   open        | OnTime: something is due               | open        | Write
//   open        | write: applied; read back: our write   | open        | answers
//   open        | write: conflict or maybe done          | open        | Read
//   open        | read back: what the write was based on | open        | Write(same bytes), later
//   open        | read back: older than that             | open        | Read, later; 10 s: Lost
//   open        | read back: anything else               | ended       | Lost
//   any         | not done, read failed, budget spent    | same        | the same again, later
//
// An answer that nobody asked for is our own mistake, and a CHECK.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/fault_point.h"
#include "base/result.h"
#include "base/time.h"
#include "core/journal.h"
#include "core/journal_table.h"

namespace nstance {

enum class JournalLoss : std::uint8_t {
  kHigherEpoch,  // A newer leader has taken over.
  kRival,        // Somebody writes under our epoch.
  kMissing,
  kCorrupt,
  kRolledBack,  // An older journal was put back.
};
[[nodiscard]] std::string_view JournalLossName(JournalLoss loss);

struct JournalStep {
  struct Nothing {};
  struct Read {};
  struct Write {
    std::string bytes;
    std::optional<std::string> expected_version;  // Empty: create-only.
    std::vector<Step> steps = {};                 // Of the changes in it.
  };
  struct TookOver {
    std::int64_t epoch = 0;
  };
  struct Refused {
    Error why;
  };
  struct Lost {
    JournalLoss loss = JournalLoss::kHigherEpoch;
  };
  // The answer to one Submit(): the intent's id, kNotFound (no such intent is open) or
  // kInvalidArgument (too large). After Lost and Refused nothing more is answered.
  struct Settled {
    std::uint64_t ticket = 0;
    Result<std::string> id;
  };

  std::variant<Nothing, Read, Write> call = {};
  Instant wake_at = Instant::Never();
  std::variant<Nothing, TookOver, Refused, Lost> news = {};
  std::vector<Settled> settled = {};
};

class JournalMachine {
 public:
  struct Options {
    JournalIdentity identity;
    std::string holder;  // "id/incarnation".
    EpochEvidence evidence = EpochEvidence::kSome;
    JournalLimits limits = {};
  };
  // Whether the lease leaves time for one more storage call.
  enum class Budget : std::uint8_t { kOpen, kSpent };
  enum class Urgency : std::uint8_t { kNow, kLazy };
  using Entropy = std::array<std::uint8_t, 16>;
  struct Input {
    Instant now;
    Timestamp wall_now;
    Entropy entropy{};  // Fresh from SecureRandom for every event: the write id.
    Budget budget = Budget::kSpent;
  };
  struct Found {
    std::string bytes;
    std::string version;
  };
  using ReadAnswer = Result<std::optional<Found>>;
  using WriteAnswer = Result<std::string>;
  struct Submission {
    std::uint64_t ticket = 0;
    JournalChange change;
    Urgency urgency = Urgency::kNow;
  };

  static constexpr Duration kLazyDelay = Duration::Seconds(1);
  static constexpr Duration kRefillDelay = Duration::Seconds(1);
  static constexpr std::size_t kRefillPlaces = 64;

  explicit JournalMachine(Options options) : options_(std::move(options)) {}

  // Begins. On a machine that was copied in the middle of something: goes on, with whatever was
  // outstanding counted as lost.
  [[nodiscard]] JournalStep Start(const Input& in);
  [[nodiscard]] JournalStep OnRead(const ReadAnswer& answer, const Input& in);
  [[nodiscard]] JournalStep OnWrite(const WriteAnswer& answer, const Input& in);
  [[nodiscard]] JournalStep OnTime(const Input& in);
  // Harmless after the end: it is never answered.
  [[nodiscard]] JournalStep Submit(Submission submission, const Input& in);
  // The members that `news` has are remembered by the next write.
  [[nodiscard]] JournalStep Remember(const JournalMemory& news, const Input& in);
  void SetBrake(std::string_view id, Brake brake);

  [[nodiscard]] bool open() const { return state_ == State::kOpen; }
  [[nodiscard]] bool ended() const { return state_ == State::kEnded; }
  // What the store is known to hold. REQUIRES: open().
  [[nodiscard]] const JournalTable& table() const { return *table_; }
  // How many changes wait because the journal is full: hold `journal-full`.
  [[nodiscard]] std::size_t blocked() const;

 private:
  enum class State : std::uint8_t { kNew, kTakingOver, kOpen, kEnded };
  enum class Call : std::uint8_t { kNone, kRead, kWrite };

  struct Waiting {
    Submission submission;
    Instant since;
    bool blocked = false;
  };
  // The write that is under way or in doubt.
  struct Draft {
    JournalTable table;
    std::string bytes;
    std::optional<std::string> based_on;  // Version; empty: no journal.
    std::vector<JournalStep::Settled> answers;
    std::vector<Step> steps = {};
  };

  void ReadForTakeOver(const std::optional<Found>& found, const Input& in, JournalStep& step);
  void ReadBack(const std::optional<Found>& found, const Input& in, JournalStep& step);
  // An open journal is neither what we wrote nor what we wrote on.
  void Judge(const Result<Journal>& journal, const Input& in, JournalStep& step);
  void Applied(std::string version, JournalStep& step);
  void End(JournalLoss loss, JournalStep& step);
  static void ClosingFirst(std::vector<Waiting>& waiting);
  void Plan(const Input& in, JournalStep& step);
  [[nodiscard]] Instant DueAt() const;
  // Issues the call that is due, if any, and sets the time of waking.
  void Issue(const Input& in, JournalStep& step);
  void Wake(JournalStep& step) const;
  [[nodiscard]] JournalStamp StampOf(const Input& in) const;

  Options options_;
  State state_ = State::kNew;
  Call outstanding_ = Call::kNone;
  Instant not_before_;     // Back-off after a failure.
  bool in_doubt_ = false;  // The draft was sent and may have landed: read before anything else.
  std::optional<Instant> older_since_;

  std::optional<JournalTable> table_;
  std::optional<std::string> version_;
  std::optional<Draft> draft_;
  std::vector<Waiting> waiting_;       // In order of arrival.
  JournalMemory news_;                 // To be remembered by the next write.
  std::optional<Instant> news_since_;  // When the first of it came that forces a write.
  std::size_t freed_ = 0;              // Places since the last plan.
  Instant planned_at_;
};

}  // namespace nstance
