#include "core/journal_machine.h"

#include <algorithm>

#include "base/check.h"
#include "base/fault_point.h"
#include "crypto/checksum.h"

namespace nstance {
namespace {

constexpr Duration kRetry = Duration::Milliseconds(250);
constexpr Duration kOlderLimit = Duration::Seconds(10);

bool NeedsReadBack(const Error& error) {
  return error.outcome == Outcome::kMaybeDone || error.code == Code::kAborted;
}

// Closing, replacing and updating come first: they make room for what is opened in the same write.
bool OpensIntent(const JournalChange& change) { return change.id.empty(); }

}  // namespace

std::string_view JournalLossName(JournalLoss loss) {
  switch (loss) {
    case JournalLoss::kHigherEpoch: return "higher-epoch";
    case JournalLoss::kRival: return "rival";
    case JournalLoss::kMissing: return "missing";
    case JournalLoss::kCorrupt: return "corrupt";
    case JournalLoss::kRolledBack: return "rolled-back";
  }
  return "unknown";
}

JournalStep JournalMachine::Start(const Input& in) {
  if (outstanding_ == Call::kWrite) return OnWrite(Fail(Unavailable("lost").MaybeDone()), in);
  if (outstanding_ == Call::kRead) return OnRead(Fail(Unavailable("lost")), in);
  if (state_ == State::kNew) {
    state_ = State::kTakingOver;
    not_before_ = in.now;
  }
  return OnTime(in);
}

JournalStep JournalMachine::OnTime(const Input& in) {
  JournalStep step;
  Issue(in, step);
  Wake(step);
  return step;
}

JournalStep JournalMachine::Submit(Submission submission, const Input& in) {
  JournalStep step;
  if (state_ == State::kEnded) return step;
  if (!submission.change.intent) ++freed_;
  waiting_.push_back({.submission = std::move(submission), .since = in.now});
  Wake(step);
  return step;
}

JournalStep JournalMachine::Remember(const JournalMemory& news, const Input& in) {
  JournalStep step;
  if (state_ == State::kEnded) return step;
  news_ = Merge(news_, news);
  // Nobody would be harmed by a count that is a little old, but for one that says that there are
  // records when the last one has gone.
  const bool forces = news.created_at || news.restarted || news.groups || news.records == 0;
  if (forces && !news_since_) news_since_ = in.now;
  Wake(step);
  return step;
}

void JournalMachine::SetBrake(std::string_view id, Brake brake) {
  if (!table_) return;
  table_->SetBrake(id, brake);
  if (draft_) draft_->table.SetBrake(id, brake);
  if (brake == Brake::kFree) ++freed_;
}

std::size_t JournalMachine::blocked() const {
  return static_cast<std::size_t>(std::ranges::count_if(waiting_, &Waiting::blocked));
}

JournalStep JournalMachine::OnWrite(const WriteAnswer& answer, const Input& in) {
  CHECK(outstanding_ == Call::kWrite, "outstanding {}", static_cast<int>(outstanding_));
  outstanding_ = Call::kNone;
  JournalStep step;
  if (answer) {
    Applied(*answer, step);
  } else if (NeedsReadBack(answer.error())) {
    in_doubt_ = true;
    Issue(in, step);
  } else {
    not_before_ = in.now + kRetry;
  }
  Wake(step);
  return step;
}

JournalStep JournalMachine::OnRead(const ReadAnswer& answer, const Input& in) {
  CHECK(outstanding_ == Call::kRead, "outstanding {}", static_cast<int>(outstanding_));
  outstanding_ = Call::kNone;
  JournalStep step;
  if (!answer) {
    not_before_ = in.now + kRetry;
  } else if (in_doubt_) {
    ReadBack(*answer, in, step);
  } else {
    ReadForTakeOver(*answer, in, step);
  }
  if (state_ == State::kTakingOver) Issue(in, step);
  Wake(step);
  return step;
}

void JournalMachine::ReadForTakeOver(const std::optional<Found>& found, const Input& in,
                                     JournalStep& step) {
  Result<Journal> next = found ? DecodeJournal(found->bytes, options_.identity)
                               : FirstJournal(options_.identity, options_.evidence, StampOf(in));
  if (!next) {
    state_ = State::kEnded;
    step.news = JournalStep::Refused{std::move(next).error()};
    return;
  }
  if (found) next = TakeOver(*std::move(next), StampOf(in));
  if (found && Planted(Plant::kTakesOverUnwritten)) {
    table_.emplace(*std::move(next), options_.limits);
    version_ = found->version;
    state_ = State::kOpen;
    step.news = JournalStep::TookOver{table_->journal().epoch};
    return;
  }
  std::string bytes = EncodeJournal(*next);
  draft_ = Draft{.table = JournalTable(*std::move(next), options_.limits),
                 .bytes = std::move(bytes),
                 .based_on = found ? std::optional(found->version) : std::nullopt,
                 .answers = {}};
}

void JournalMachine::ReadBack(const std::optional<Found>& found, const Input& in,
                              JournalStep& step) {
  const std::optional<std::string> version = found ? std::optional(found->version) : std::nullopt;
  if (version == draft_->based_on) {
    // Not landed, perhaps not yet. The same bytes again: whichever comes first, the other loses.
    in_doubt_ = false;
    older_since_.reset();
    not_before_ = in.now + kRetry;
    return;
  }
  Result<Journal> journal = Fail(NotFound("no journal"));
  if (found) journal = DecodeJournal(found->bytes, options_.identity);
  if (journal && journal->write_id == draft_->table.journal().write_id) {
    return Applied(*version, step);
  }
  if (state_ == State::kTakingOver) {
    in_doubt_ = false;
    draft_.reset();
    not_before_ = in.now;
    return ReadForTakeOver(found, in, step);
  }
  Judge(journal, in, step);
}

void JournalMachine::Judge(const Result<Journal>& journal, const Input& in, JournalStep& step) {
  if (!journal) {
    const bool missing = journal.error().code == Code::kNotFound;
    return End(missing ? JournalLoss::kMissing : JournalLoss::kCorrupt, step);
  }
  const Journal& ours = table_->journal();
  if (journal->epoch > ours.epoch) return End(JournalLoss::kHigherEpoch, step);
  if (journal->epoch == ours.epoch && journal->seq > ours.seq) {
    return End(JournalLoss::kRival, step);
  }
  // The store shows what was there before: a stale read, or somebody put it back.
  if (!older_since_) older_since_ = in.now;
  if (in.now - *older_since_ >= kOlderLimit) return End(JournalLoss::kRolledBack, step);
  not_before_ = in.now + kRetry;
}

void JournalMachine::End(JournalLoss loss, JournalStep& step) {
  state_ = State::kEnded;
  draft_.reset();
  waiting_.clear();
  step.news = JournalStep::Lost{loss};
}

void JournalMachine::Applied(std::string version, JournalStep& step) {
  version_ = std::move(version);
  table_ = std::move(draft_->table);
  for (JournalStep::Settled& answer : draft_->answers) step.settled.push_back(std::move(answer));
  draft_.reset();
  in_doubt_ = false;
  older_since_.reset();
  if (state_ == State::kTakingOver) {
    state_ = State::kOpen;
    step.news = JournalStep::TookOver{table_->journal().epoch};
  }
}

JournalStamp JournalMachine::StampOf(const Input& in) const {
  return {
      .holder = options_.holder, .write_id = crypto::WriteIdText(in.entropy), .at = in.wall_now};
}

Instant JournalMachine::DueAt() const {
  Instant due = news_since_ ? *news_since_ + kLazyDelay : Instant::Never();
  for (const Waiting& waiting : waiting_) {
    if (!waiting.blocked) {
      const bool lazy = waiting.submission.urgency == Urgency::kLazy;
      due = std::min(due, lazy ? waiting.since + kLazyDelay : waiting.since);
    } else if (freed_ > 0) {
      due = std::min(due, freed_ >= kRefillPlaces ? Instant() : planned_at_ + kRefillDelay);
    }
  }
  return due;
}

// What frees places comes before what needs them; otherwise in the order of arrival.
void JournalMachine::ClosingFirst(std::vector<Waiting>& waiting) {
  std::vector<Waiting> opening;
  std::size_t closing = 0;
  for (Waiting& each : waiting) {
    if (OpensIntent(each.submission.change)) {
      opening.push_back(std::move(each));
    } else {
      if (&each != &waiting[closing]) waiting[closing] = std::move(each);
      ++closing;
    }
  }
  std::ranges::move(opening, waiting.begin() + static_cast<std::ptrdiff_t>(closing));
}

// Everything that waits goes into one draft; what finds no room stays.
void JournalMachine::Plan(const Input& in, JournalStep& step) {
  ClosingFirst(waiting_);
  std::vector<JournalChange> changes;
  changes.reserve(waiting_.size());
  for (const Waiting& waiting : waiting_) changes.push_back(waiting.submission.change);
  JournalDraft plan = table_->Plan(changes, StampOf(in));
  planned_at_ = in.now;
  freed_ = 0;
  std::vector<Waiting> rest;
  std::vector<JournalStep::Settled> made;
  std::vector<Step> steps;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const std::uint64_t ticket = waiting_[i].submission.ticket;
    ChangeResult& result = plan.results[i];
    switch (result.fate) {
      case ChangeResult::Fate::kMade:
        made.push_back({.ticket = ticket, .id = std::move(result.id)});
        steps.push_back(waiting_[i].submission.change.step);
        break;
      case ChangeResult::Fate::kWaits:
        waiting_[i].blocked = true;
        rest.push_back(std::move(waiting_[i]));
        break;
      case ChangeResult::Fate::kUnknown:
        step.settled.push_back({.ticket = ticket, .id = Fail(NotFound("no such intent is open"))});
        break;
      case ChangeResult::Fate::kTooLarge:
        step.settled.push_back(
            {.ticket = ticket, .id = Fail(InvalidArgument("the intent is too large"))});
        break;
    }
  }
  waiting_ = std::move(rest);
  const bool news_due = news_since_ && *news_since_ + kLazyDelay <= in.now;
  if (made.empty() && !news_due) return;
  plan.table.Remember(std::exchange(news_, {}));
  news_since_.reset();
  std::string bytes = EncodeJournal(plan.table.journal());
  draft_ = Draft{.table = std::move(plan.table),
                 .bytes = std::move(bytes),
                 .based_on = version_,
                 .answers = std::move(made),
                 .steps = std::move(steps)};
}

void JournalMachine::Issue(const Input& in, JournalStep& step) {
  const bool idle = outstanding_ == Call::kNone && state_ != State::kNew && state_ != State::kEnded;
  if (!idle || in.now < not_before_) return;
  if (in_doubt_ || (state_ == State::kTakingOver && !draft_)) {
    outstanding_ = Call::kRead;
    step.call = JournalStep::Read{};
    return;
  }
  if (!draft_ && DueAt() > in.now) return;
  if (in.budget == Budget::kSpent) {
    not_before_ = in.now + kRetry;
    return;
  }
  if (!draft_) Plan(in, step);
  if (!draft_) return;
  outstanding_ = Call::kWrite;
  step.call = JournalStep::Write{
      .bytes = draft_->bytes, .expected_version = draft_->based_on, .steps = draft_->steps};
}

void JournalMachine::Wake(JournalStep& step) const {
  const bool idle = outstanding_ == Call::kNone && state_ != State::kNew && state_ != State::kEnded;
  if (!idle) return;
  const bool due = in_doubt_ || draft_ || state_ == State::kTakingOver;
  step.wake_at = due ? not_before_ : DueAt();
  if (step.wake_at != Instant::Never()) step.wake_at = std::max(step.wake_at, not_before_);
}

}  // namespace nstance
