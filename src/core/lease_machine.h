// LeaseMachine: decides when to read, take, renew, give up and release a lease. Sans I/O.
//
// Events go in; each gives one LeaseStep: at most one storage call, when to call OnTime() next, and
// at most one word to the owner. Time and chance come with every event. The machine keeps no random
// generator, so a copy of it (a virtual machine restored from a saved state) never repeats a write
// id. One storage call is outstanding at a time.
//
// Guarantees, each held by a test:
//   - a follower acts on bytes that it has seen unchanged for max(own lease, the record's lease) on
//     its own clock; wall clocks are written, never compared
//   - a missing, corrupt or foreign record counts as expired after one full lease of unchanged
//     bytes; a missing one at once in a bucket that the owner knows to be new
//   - a released record may be taken at once; every acquisition waits 0 to renew/2 longer, by
//     chance
//   - a holder's deadline is (the moment *before* the last confirmed write was sent) + lease -
//     margin; at the deadline it steps down by itself, and a write without confirmation moves
//     nothing
//   - an ambiguous or refused write is followed by a read and by nothing else: our write id means
//     that it landed, our incarnation that we still hold, anything else that we do not
//   - the holder is id and incarnation: another process with the same id is a rival
//   - a process that could not use the lease (take-over failed, acquired too late, deadline missed
//     twice in a row) leaves it alone for 10 to 20 s, twice as long each further time up to 80 to
//     160 s, so that others get a turn; a leadership that has lasted four leases clears the count
//   - stopping releases by compare-and-swap; a record that vanished while it was surely ours is
//     written anew as released
//   - when the monotonic clock went back, or the boot id is another one than before, leadership
//     ends and a new incarnation begins: this memory is a restored one
//
// The machine settles ambiguous writes itself instead of using a generic layer: it must see the
// bytes in any case, to know who else wrote.
//
//   role      | event                                        | next      | step
//   ----------+----------------------------------------------+-----------+-------------------------
//   new       | Start                                        | standby   | Read
//   standby   | OnTime: poll due or lease run out            | standby   | Read
//   standby   | read: not yet free                           | standby   | wait
//   standby   | read: free, or ours of a term that we held   | standby   | Write(acquire)
//   standby   | write: applied and in time; read: our write  | holding   | Acquired
//   standby   | write: applied, but past its deadline        | standby   | Read, hold back
//   standby   | write: conflict or maybe done                | standby   | Read
//   standby   | Stop                                         | stopped   | Stopped (releasing if
//             |                                              |           | the record may be ours)
//   holding   | OnTime: renew due                            | holding   | Write(renew)
//   holding   | write: applied; read: our write              | holding   | deadline moves
//   holding   | write: conflict or maybe done                | holding   | Read
//   holding   | read: an earlier write of ours               | holding   | Write(renew) soon
//   holding   | read: another's, released, corrupt, missing  | standby   | Lost, Read
//   holding   | deadline reached                             | standby   | Lost, Read
//   holding   | TakeOver limit reached                       | releasing | Lost, Write(release)
//   holding   | StepDown                                     | releasing | Write(release)
//   holding   | Stop                                         | releasing | Write(release)
//   releasing | write: applied; read: released or not ours   | standby or stopped | Read or Stopped
//   releasing | write: conflict or maybe done                | releasing | Read
//   releasing | read: ours, or missing while surely ours     | releasing | Write(release)
//   releasing | its time is over                             | standby or stopped | Read or Stopped
//   any       | time went back, or another boot id           | standby   | Lost if holding; Read
//             |                                              |           | (its record: another's)
//
// An answer that nobody asked for is our own mistake, and a CHECK.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "core/lease.h"

namespace nstance {

enum class LeaseLoss : std::uint8_t {
  kDeadline,        // No renewal was confirmed in time.
  kTaken,           // Another holder's record stands.
  kVanished,        // The record is gone.
  kCorrupted,       // The record is no longer ours to read.
  kTakeOverFailed,  // The owner did not take over in time.
  kRestored,        // The clock went back, or the boot id is another one.
};
[[nodiscard]] std::string_view LeaseLossName(LeaseLoss loss);

enum class LeaseAlarm : std::uint8_t {
  kMissing,  // There was a record and it is gone.
  kCorrupt,
  kForeign,
};
[[nodiscard]] std::string_view LeaseAlarmName(LeaseAlarm alarm);

// What the owner knows about the bucket when the machine starts.
enum class BucketAge : std::uint8_t {
  kUsed,
  // No journal: nobody has ever led here. Believed for one lease, and only until a record was seen.
  kNew,
};

struct LeaseStep {
  struct Nothing {};
  struct Read {};
  struct Write {
    std::string bytes;
    std::optional<std::string> expected_version;  // Empty: create-only.
  };
  struct Acquired {
    std::int64_t term = 0;
  };
  struct Lost {
    LeaseLoss loss = LeaseLoss::kDeadline;
  };
  struct Stopped {};

  std::variant<Nothing, Read, Write> call = {};
  // Call OnTime() then, instead of whenever the step before said.
  Instant wake_at = Instant::Never();
  std::variant<Nothing, Acquired, Lost, Stopped> news = {};
  std::optional<LeaseAlarm> alarm = std::nullopt;
};

class LeaseMachine {
 public:
  struct Options {
    std::string leader_id;
    std::string leader_addr;
    LeaseTimings timings;
    BucketAge bucket = BucketAge::kUsed;
  };
  // Fresh from SecureRandom for every event: write id, incarnation, jitter.
  using Entropy = std::array<std::uint8_t, 32>;
  struct Input {
    Instant now;
    Timestamp wall_now;
    Entropy entropy{};
    std::string boot_id =
        {};  // Of the machine that this runs on; empty: not known, and no evidence.
  };
  struct Found {
    std::string bytes;
    std::string version;
  };
  // Empty: the store says that there is no such object.
  using ReadAnswer = Result<std::optional<Found>>;
  using WriteAnswer = Result<std::string>;  // The new version.

  explicit LeaseMachine(Options options) : options_(std::move(options)) {}

  // Begins. On a machine that was copied in the middle of something: goes on, with whatever was
  // outstanding counted as lost.
  [[nodiscard]] LeaseStep Start(const Input& in);
  [[nodiscard]] LeaseStep OnRead(const ReadAnswer& answer, const Input& in);
  [[nodiscard]] LeaseStep OnWrite(const WriteAnswer& answer, const Input& in);
  [[nodiscard]] LeaseStep OnTime(const Input& in);

  // The owner acts. Until then the take-over limit runs.
  void TakenOver() { take_over_by_ = Instant::Never(); }
  // The owner gives leadership up (take-over failed, higher epoch seen, store refused), has stopped
  // its effects, and wants others to have a turn. Harmless when not holding.
  [[nodiscard]] LeaseStep StepDown(const Input& in);
  // Ends with Stopped, at the latest at the first OnTime() after `release_by`.
  [[nodiscard]] LeaseStep Stop(Instant release_by, const Input& in);

  [[nodiscard]] bool Leads(Instant now) const { return MayStart(now, Duration()); }
  // Whether an effect of at most `bound` may start now.
  [[nodiscard]] bool MayStart(Instant now, Duration bound) const {
    return role_ == Role::kHolding && now >= last_now_ && nstance::MayStart(now, bound, deadline_);
  }
  // Whether this is not the boot of the last event: this memory and its clock are a saved state's.
  [[nodiscard]] bool IsOtherBoot(std::string_view boot_id) const {
    return !boot_id.empty() && !boot_id_.empty() && boot_id != boot_id_;
  }
  // Holding or trying to tell the store that it no longer does.
  [[nodiscard]] bool holding() const { return role_ == Role::kHolding; }
  [[nodiscard]] bool releasing() const { return role_ == Role::kReleasing; }
  [[nodiscard]] bool stopped() const { return role_ == Role::kStopped; }
  [[nodiscard]] Instant deadline() const { return deadline_; }
  [[nodiscard]] Instant last_now() const { return last_now_; }
  [[nodiscard]] std::int64_t term() const { return term_; }
  // The record of this holder with that time. REQUIRES: Leads().
  [[nodiscard]] LeaseRecord RecordAt(Timestamp wall_now) const;
  [[nodiscard]] const std::string& incarnation() const { return incarnation_; }

 private:
  enum class Role : std::uint8_t { kNew, kStandby, kHolding, kReleasing, kStopped };
  enum class Call : std::uint8_t { kNone, kRead, kWrite };
  enum class Purpose : std::uint8_t { kAbandoned, kAcquire, kRenew, kRelease };
  enum class Sight : std::uint8_t { kMissing, kUnreadable, kHeld, kReleased, kOurs };

  // What was seen last, and since when.
  struct Seen {
    Sight sight = Sight::kMissing;
    std::optional<std::string> version = {};  // Empty: missing.
    std::string write_id = {};
    bool released = false;
    Instant since = {};
    Instant looked_at = {};  // When the last question was sent.
    Duration wait = {};      // Until it counts as free, jitter included.
  };
  struct Written {
    Purpose purpose = Purpose::kAbandoned;
    std::string write_id;
    Instant sent_at;
  };

  // What time alone has changed comes before every event.
  void Begin(const Input& in, LeaseStep& step);
  void BeginAgain(const Input& in, LeaseStep& step);
  // Issues the call that is due, if any, and sets the time of waking.
  void End(const Input& in, LeaseStep& step);

  void ReadInStandby(const ReadAnswer& answer, const Input& in, LeaseStep& step);
  void ReadWhileHolding(const ReadAnswer& answer, const Input& in, LeaseStep& step);
  void ReadWhileReleasing(const ReadAnswer& answer, const Input& in, LeaseStep& step);
  void WrittenInStandby(const WriteAnswer& answer, const Input& in, LeaseStep& step);
  void WrittenWhileHolding(const WriteAnswer& answer, const Input& in);
  void WrittenWhileReleasing(const WriteAnswer& answer, const Input& in, LeaseStep& step);

  void Observe(const std::optional<Found>& found, const Input& in, LeaseStep& step);
  [[nodiscard]] Duration WaitFor(Sight sight, const LeaseRecord& record, const Input& in) const;
  void Acquire(std::string version, const Input& in, LeaseStep& step);
  void Confirm(std::string version);
  void Lose(LeaseLoss loss, const Input& in, LeaseStep& step);
  void HoldBack(const Input& in);
  void BeginRelease(Role after, Instant release_by, const Input& in);
  void FinishRelease(const Input& in, LeaseStep& step);
  void Schedule(Call call, Instant at) {
    next_ = call;
    act_at_ = at;
  }
  [[nodiscard]] LeaseStep::Write MakeWrite(const Input& in);
  [[nodiscard]] Duration Retry() const { return options_.timings.renew / 4; }

  Options options_;
  Role role_ = Role::kNew;
  Call outstanding_ = Call::kNone;
  Call next_ = Call::kNone;  // What to ask for at act_at_ when nothing is outstanding.
  Instant act_at_;
  Instant last_now_;
  Instant started_at_;
  std::string incarnation_;
  std::string boot_id_;   // The last that was known.
  json::Object unknown_;  // Of the record that we took over.

  Instant read_sent_at_;
  std::optional<Seen> seen_;
  bool record_was_seen_ = false;
  std::int64_t highest_term_ = 0;
  std::int64_t held_term_ = 0;  // The last term that we really had.

  Written written_;
  std::optional<std::string> version_;  // Of our own record; empty: none, or it vanished.
  bool may_be_ours_ = false;            // A write of ours may stand, released by nobody.
  std::int64_t term_ = 0;
  Instant deadline_;
  Instant acquired_at_;
  Instant take_over_by_ = Instant::Never();

  int failures_ = 0;
  Instant hold_back_until_;

  Role after_release_ = Role::kStandby;
  Instant release_by_ = Instant::Never();
};

}  // namespace nstance
