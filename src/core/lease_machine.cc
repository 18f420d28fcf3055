#include "core/lease_machine.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/text.h"
#include "crypto/checksum.h"

namespace nstance {
namespace {

constexpr Duration kShortestHoldBack = Duration::Seconds(10);
constexpr int kMostDoublings = 3;
constexpr int kLeasesThatClear = 4;

// After both of these only a read tells what stands.
bool NeedsReadBack(const Error& error) {
  return error.outcome == Outcome::kMaybeDone || error.code == Code::kAborted;
}

Duration MarginOf(const LeaseTimings& timings) {
  return Planted(Plant::kNoMargin) ? Duration() : timings.margin;
}

std::string WriteIdOf(const LeaseMachine::Entropy& entropy) {
  return crypto::WriteIdText(std::span(entropy).first<16>());
}

std::string IncarnationOf(const LeaseMachine::Entropy& entropy) {
  return HexEncode(std::span(entropy).subspan<16, 8>());
}

// 0 up to and including `limit`.
Duration JitterOf(const LeaseMachine::Entropy& entropy, Duration limit) {
  std::uint64_t number = 0;
  for (const std::uint8_t byte : std::span(entropy).last<8>()) number = (number << 8U) | byte;
  const auto range = static_cast<std::uint64_t>(limit.nanoseconds()) + 1;
  return Duration::Nanoseconds(static_cast<std::int64_t>(number % range));
}

}  // namespace

std::string_view LeaseLossName(LeaseLoss loss) {
  switch (loss) {
    case LeaseLoss::kDeadline: return "deadline";
    case LeaseLoss::kTaken: return "taken";
    case LeaseLoss::kVanished: return "vanished";
    case LeaseLoss::kCorrupted: return "corrupted";
    case LeaseLoss::kTakeOverFailed: return "take-over-failed";
    case LeaseLoss::kRestored: return "restored";
  }
  return "unknown";
}

std::string_view LeaseAlarmName(LeaseAlarm alarm) {
  switch (alarm) {
    case LeaseAlarm::kMissing: return "lease_missing";
    case LeaseAlarm::kCorrupt: return "lease_corrupt";
    case LeaseAlarm::kForeign: return "lease_foreign";
  }
  return "unknown";
}

LeaseStep LeaseMachine::Start(const Input& in) {
  if (role_ != Role::kNew) {
    if (outstanding_ == Call::kWrite) return OnWrite(Fail(Unavailable("lost").MaybeDone()), in);
    if (outstanding_ == Call::kRead) return OnRead(Fail(Unavailable("lost")), in);
    return OnTime(in);
  }
  role_ = Role::kStandby;
  incarnation_ = IncarnationOf(in.entropy);
  boot_id_ = in.boot_id;
  last_now_ = in.now;
  started_at_ = in.now;
  Schedule(Call::kRead, in.now);
  LeaseStep step;
  End(in, step);
  return step;
}

LeaseStep LeaseMachine::OnTime(const Input& in) {
  LeaseStep step;
  Begin(in, step);
  End(in, step);
  return step;
}

LeaseStep LeaseMachine::OnRead(const ReadAnswer& answer, const Input& in) {
  CHECK(outstanding_ == Call::kRead, "outstanding {}", static_cast<int>(outstanding_));
  outstanding_ = Call::kNone;
  LeaseStep step;
  Begin(in, step);
  switch (role_) {
    case Role::kStandby: ReadInStandby(answer, in, step); break;
    case Role::kHolding: ReadWhileHolding(answer, in, step); break;
    case Role::kReleasing: ReadWhileReleasing(answer, in, step); break;
    case Role::kNew:
    case Role::kStopped: break;
  }
  End(in, step);
  return step;
}

LeaseStep LeaseMachine::OnWrite(const WriteAnswer& answer, const Input& in) {
  CHECK(outstanding_ == Call::kWrite, "outstanding {}", static_cast<int>(outstanding_));
  outstanding_ = Call::kNone;
  LeaseStep step;
  Begin(in, step);
  switch (role_) {
    case Role::kStandby: WrittenInStandby(answer, in, step); break;
    case Role::kHolding: WrittenWhileHolding(answer, in); break;
    case Role::kReleasing: WrittenWhileReleasing(answer, in, step); break;
    case Role::kNew:
    case Role::kStopped: break;
  }
  End(in, step);
  return step;
}

LeaseStep LeaseMachine::StepDown(const Input& in) {
  LeaseStep step;
  Begin(in, step);
  if (role_ == Role::kHolding) {
    HoldBack(in);
    BeginRelease(Role::kStandby, in.now + options_.timings.lease, in);
  }
  End(in, step);
  return step;
}

LeaseStep LeaseMachine::Stop(Instant release_by, const Input& in) {
  LeaseStep step;
  Begin(in, step);
  if (role_ == Role::kHolding || role_ == Role::kReleasing || may_be_ours_) {
    BeginRelease(Role::kStopped, release_by, in);
  } else if (role_ != Role::kStopped) {
    after_release_ = Role::kStopped;
    FinishRelease(in, step);
  }
  End(in, step);
  return step;
}

void LeaseMachine::Begin(const Input& in, LeaseStep& step) {
  const bool went_back = in.now < last_now_ && !Planted(Plant::kIgnoresClockGoneBack);
  if (went_back || IsOtherBoot(in.boot_id)) BeginAgain(in, step);
  last_now_ = in.now;
  if (!in.boot_id.empty()) boot_id_ = in.boot_id;
  if (role_ == Role::kHolding) {
    if (in.now >= deadline_) {
      Lose(LeaseLoss::kDeadline, in, step);
    } else if (in.now >= take_over_by_) {
      HoldBack(in);
      BeginRelease(Role::kStandby, in.now + options_.timings.lease, in);
      step.news = LeaseStep::Lost{LeaseLoss::kTakeOverFailed};
    }
  } else if (role_ == Role::kReleasing && in.now >= release_by_) {
    FinishRelease(in, step);
  }
}

// Every moment that was remembered belongs to a clock that no longer runs.
void LeaseMachine::BeginAgain(const Input& in, LeaseStep& step) {
  last_now_ = in.now;
  if (role_ == Role::kNew || role_ == Role::kStopped) return;
  if (role_ == Role::kHolding) step.news = LeaseStep::Lost{LeaseLoss::kRestored};
  incarnation_ = IncarnationOf(in.entropy);
  hold_back_until_ = in.now;
  if (role_ == Role::kReleasing && after_release_ == Role::kStopped) {
    release_by_ = std::min(release_by_, in.now + options_.timings.lease);
  } else {
    role_ = Role::kStandby;
  }
  seen_.reset();
  may_be_ours_ = false;  // It is another incarnation's.
  written_.purpose = Purpose::kAbandoned;
  deadline_ = Instant();
  Schedule(Call::kRead, in.now);
}

void LeaseMachine::End(const Input& in, LeaseStep& step) {
  if (role_ == Role::kNew || role_ == Role::kStopped) return;
  if (outstanding_ == Call::kNone && in.now >= act_at_) {
    if (next_ == Call::kRead) {
      read_sent_at_ = in.now;
      step.call = LeaseStep::Read{};
    } else {
      step.call = MakeWrite(in);
    }
    outstanding_ = next_;
  }
  if (outstanding_ == Call::kNone) step.wake_at = act_at_;
  if (role_ == Role::kHolding) step.wake_at = std::min({step.wake_at, deadline_, take_over_by_});
  if (role_ == Role::kReleasing) step.wake_at = std::min(step.wake_at, release_by_);
}

LeaseStep::Write LeaseMachine::MakeWrite(const Input& in) {
  written_ = {.purpose = Purpose::kRenew, .write_id = WriteIdOf(in.entropy), .sent_at = in.now};
  if (role_ == Role::kStandby) {
    written_.purpose = Purpose::kAcquire;
    version_ = seen_->version;
    term_ = highest_term_ + 1;
    // A creation may land at any later time: no other attempt has its term.
    if (!version_) highest_term_ = term_;
    may_be_ours_ = true;
  } else if (role_ == Role::kReleasing) {
    written_.purpose = Purpose::kRelease;
  }
  LeaseRecord record = RecordAt(in.wall_now);
  if (written_.purpose == Purpose::kRelease) {
    record.last_updated = Timestamp::GoZero();
    record.released = true;
  }
  return {.bytes = EncodeLease(record), .expected_version = version_};
}

LeaseRecord LeaseMachine::RecordAt(Timestamp wall_now) const {
  return {.leader_id = options_.leader_id,
          .leader_addr = options_.leader_addr,
          .last_updated = wall_now,
          .incarnation = incarnation_,
          .term = term_,
          .lease = options_.timings.lease,
          .released = false,
          .write_id = written_.write_id,
          .unknown = unknown_};
}

Duration LeaseMachine::WaitFor(Sight sight, const LeaseRecord& record, const Input& in) const {
  const LeaseTimings& timings = options_.timings;
  const Duration jitter = JitterOf(in.entropy, timings.renew / 2);
  switch (sight) {
    case Sight::kOurs:
      // A leadership of ours that we may go on with; or an acquisition that we had given up and
      // that landed after all, perhaps while somebody leads whose record was deleted.
      return record.term == held_term_ ? Duration() : timings.lease + jitter;
    case Sight::kReleased: return jitter;
    case Sight::kHeld:
      if (Planted(Plant::kTakesLeaseEarly)) return timings.lease / 2;
      if (Planted(Plant::kTakesLeaseLate)) return timings.lease * 4;
      return std::max(timings.lease, record.lease) + jitter;
    case Sight::kUnreadable: return timings.lease + jitter;
    case Sight::kMissing: break;
  }
  const bool never_led = options_.bucket == BucketAge::kNew && !record_was_seen_ &&
                         in.now - started_at_ < timings.lease;
  return never_led ? jitter : timings.lease + jitter;
}

void LeaseMachine::Observe(const std::optional<Found>& found, const Input& in, LeaseStep& step) {
  const std::optional<std::string> version = found ? std::optional(found->version) : std::nullopt;
  if (seen_ && seen_->version == version) {
    // Unchanged: its time runs on. But nothing at all, or rubbish, looks the same after somebody
    // else has led in between; only what was watched without a gap counts. How long to wait is
    // asked anew too: what was believed of a new bucket may no longer be.
    const bool may_return = seen_->sight == Sight::kMissing || seen_->sight == Sight::kUnreadable;
    const bool gap = in.now - seen_->looked_at > options_.timings.lease / 2;
    if (may_return && gap) {
      seen_->since = in.now;
      seen_->wait = WaitFor(seen_->sight, {}, in);
    }
    seen_->looked_at = read_sent_at_;
    return;
  }
  Seen seen{.version = version, .since = in.now, .looked_at = read_sent_at_};
  LeaseRecord record;
  if (!found) {
    if (record_was_seen_) step.alarm = LeaseAlarm::kMissing;
  } else {
    DecodedLease decoded = DecodeLease(found->bytes);
    record = std::move(decoded.record);
    if (decoded.form != LeaseForm::kValid) {
      const bool foreign = decoded.form == LeaseForm::kForeign;
      step.alarm = foreign ? LeaseAlarm::kForeign : LeaseAlarm::kCorrupt;
      seen.sight = Sight::kUnreadable;
    } else if (record.leader_id == options_.leader_id && record.incarnation == incarnation_) {
      seen.sight = Sight::kOurs;
      // A restored memory may not have come to it yet.
      term_ = std::max(term_, record.term);
    } else {
      seen.sight = record.released ? Sight::kReleased : Sight::kHeld;
    }
  }
  seen.wait = WaitFor(seen.sight, record, in);
  if (Planted(Plant::kLeaseByWallClock) && seen.sight == Sight::kHeld) {
    seen.wait = std::max(record.last_updated + record.lease - in.wall_now, Duration());
  }
  seen.write_id = std::move(record.write_id);
  seen.released = record.released;
  may_be_ours_ = seen.sight == Sight::kOurs && !seen.released;
  highest_term_ = std::max(highest_term_, record.term);
  unknown_ = std::move(record.unknown);
  record_was_seen_ = record_was_seen_ || found;
  seen_ = std::move(seen);
}

void LeaseMachine::ReadInStandby(const ReadAnswer& answer, const Input& in, LeaseStep& step) {
  const LeaseTimings& timings = options_.timings;
  const Instant next_poll = std::max(in.now, read_sent_at_ + timings.renew);
  if (!answer) return Schedule(Call::kRead, next_poll);
  Observe(*answer, in, step);
  const bool landed = seen_->sight == Sight::kOurs && written_.purpose == Purpose::kAcquire &&
                      seen_->write_id == written_.write_id;
  if (landed) return Acquire(*seen_->version, in, step);
  const Instant free_at = std::max(seen_->since + seen_->wait, hold_back_until_);
  if (in.now >= free_at) return Schedule(Call::kWrite, in.now);
  Schedule(Call::kRead, std::min(next_poll, free_at));
}

void LeaseMachine::WrittenInStandby(const WriteAnswer& answer, const Input& in, LeaseStep& step) {
  if (answer && written_.purpose == Purpose::kAcquire) return Acquire(*answer, in, step);
  hold_back_until_ = std::max(hold_back_until_, in.now + Retry());
  const bool read_now = answer || NeedsReadBack(answer.error());
  Schedule(Call::kRead, read_now ? in.now : in.now + Retry());
}

void LeaseMachine::Acquire(std::string version, const Input& in, LeaseStep& step) {
  const LeaseTimings& timings = options_.timings;
  const Instant deadline = written_.sent_at + timings.lease - MarginOf(timings);
  written_.purpose = Purpose::kAbandoned;
  record_was_seen_ = true;
  highest_term_ = std::max(highest_term_, term_);
  if (in.now >= deadline) {
    HoldBack(in);
    seen_.reset();
    return Schedule(Call::kRead, in.now);
  }
  role_ = Role::kHolding;
  held_term_ = term_;
  version_ = std::move(version);
  deadline_ = deadline;
  acquired_at_ = in.now;
  take_over_by_ = in.now + timings.take_over_limit;
  Schedule(Call::kWrite, written_.sent_at + timings.renew);
  step.news = LeaseStep::Acquired{term_};
}

void LeaseMachine::Confirm(std::string version) {
  const LeaseTimings& timings = options_.timings;
  version_ = std::move(version);
  deadline_ = written_.sent_at + timings.lease - MarginOf(timings);
  const bool lasts = take_over_by_ == Instant::Never() &&
                     written_.sent_at - acquired_at_ >= timings.lease * kLeasesThatClear;
  if (lasts) failures_ = 0;
  Schedule(Call::kWrite, written_.sent_at + timings.renew);
}

void LeaseMachine::WrittenWhileHolding(const WriteAnswer& answer, const Input& in) {
  if (Planted(Plant::kDeadlineFromAnswer)) written_.sent_at = in.now;
  if (answer) return Confirm(*answer);
  const bool doubt = answer.error().outcome == Outcome::kMaybeDone;
  if (doubt && version_ && Planted(Plant::kDoubtfulRenewCounts)) return Confirm(*version_);
  if (NeedsReadBack(answer.error())) return Schedule(Call::kRead, in.now);
  Schedule(Call::kWrite, in.now + Retry());
}

void LeaseMachine::ReadWhileHolding(const ReadAnswer& answer, const Input& in, LeaseStep& step) {
  if (!answer) return Schedule(Call::kRead, in.now + Retry());
  Observe(*answer, in, step);
  switch (seen_->sight) {
    case Sight::kOurs:
      if (seen_->released) return Lose(LeaseLoss::kTaken, in, step);
      if (seen_->write_id == written_.write_id) return Confirm(*seen_->version);
      // An earlier write of ours stands, perhaps one that came late: go on from there.
      version_ = seen_->version;
      return Schedule(Call::kWrite, in.now + Retry());
    case Sight::kMissing: return Lose(LeaseLoss::kVanished, in, step);
    case Sight::kUnreadable: return Lose(LeaseLoss::kCorrupted, in, step);
    case Sight::kHeld:
    case Sight::kReleased: return Lose(LeaseLoss::kTaken, in, step);
  }
}

void LeaseMachine::Lose(LeaseLoss loss, const Input& in, LeaseStep& step) {
  // Once is an accident, and the record is probably still ours to go on with.
  if (loss == LeaseLoss::kDeadline && ++failures_ > 1) {
    --failures_;
    HoldBack(in);
  }
  role_ = Role::kStandby;
  written_.purpose = Purpose::kAbandoned;
  seen_.reset();
  deadline_ = Instant();
  Schedule(Call::kRead, in.now);
  step.news = LeaseStep::Lost{loss};
}

void LeaseMachine::HoldBack(const Input& in) {
  Duration length = kShortestHoldBack;
  for (int i = 0; i < std::min(failures_, kMostDoublings); ++i) length = length * 2;
  ++failures_;
  hold_back_until_ = in.now + length + JitterOf(in.entropy, length);
}

void LeaseMachine::BeginRelease(Role after, Instant release_by, const Input& in) {
  role_ = Role::kReleasing;
  after_release_ = after;
  release_by_ = std::min(release_by, release_by_);
  Schedule(next_, in.now);  // A read that was due is still due first: a write may be unsettled.
}

void LeaseMachine::WrittenWhileReleasing(const WriteAnswer& answer, const Input& in,
                                         LeaseStep& step) {
  const bool release = written_.purpose == Purpose::kRelease;
  if (answer) {
    if (release) return FinishRelease(in, step);
    version_ = *answer;
    return Schedule(Call::kWrite, in.now);
  }
  const bool read = NeedsReadBack(answer.error()) || written_.purpose == Purpose::kAbandoned;
  if (read) return Schedule(Call::kRead, in.now);
  if (written_.purpose == Purpose::kAcquire) return FinishRelease(in, step);
  Schedule(Call::kWrite, release ? in.now + Retry() : in.now);
}

void LeaseMachine::ReadWhileReleasing(const ReadAnswer& answer, const Input& in, LeaseStep& step) {
  if (!answer) return Schedule(Call::kRead, in.now + Retry());
  Observe(*answer, in, step);
  const bool ours = seen_->sight == Sight::kOurs && !seen_->released;
  // Nobody else can have taken and lost it before our own lease has run out.
  const bool surely_ours = seen_->sight == Sight::kMissing && in.now < deadline_;
  if (!ours && !surely_ours) return FinishRelease(in, step);
  version_ = seen_->version;
  const bool tried = written_.purpose == Purpose::kRelease;
  Schedule(Call::kWrite, tried ? in.now + Retry() : in.now);
}

void LeaseMachine::FinishRelease(const Input& in, LeaseStep& step) {
  role_ = after_release_;
  release_by_ = Instant::Never();
  written_.purpose = Purpose::kAbandoned;
  may_be_ours_ = false;
  seen_.reset();
  deadline_ = Instant();
  if (role_ == Role::kStopped) {
    outstanding_ = Call::kNone;
    step.news = LeaseStep::Stopped{};
  } else {
    Schedule(Call::kRead, in.now);
  }
}

}  // namespace nstance
