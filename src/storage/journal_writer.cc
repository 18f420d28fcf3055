#include "storage/journal_writer.h"

#include <optional>
#include <variant>

#include "base/fault_point.h"
#include "base/metric_families.h"
#include "base/overloaded.h"

namespace nstance {
namespace {

JournalMachine::ReadAnswer ToAnswer(Result<Object> result) {
  if (result) {
    return JournalMachine::Found{.bytes = std::move(result->bytes),
                                 .version = std::move(result->version.text)};
  }
  if (result.error().code == Code::kNotFound) return std::nullopt;
  return Fail(std::move(result).error());
}

JournalMachine::WriteAnswer ToAnswer(Result<ObjectVersion> result) {
  if (!result) return Fail(std::move(result).error());
  // Applied, but the store did not tell the version: read it.
  if (result->text.empty()) return Fail(Unavailable("no version").MaybeDone());
  return std::move(result->text);
}

const metrics::Family& Commits() {
  static const metrics::Family kFamily = {.name = "journal_commits_total",
                                          .help = "Writes of the journal that the store took.",
                                          .labels = {},
                                          .buckets = {}};
  return kFamily;
}

const metrics::Family& CommitSeconds() {
  static const metrics::Family kFamily = {
      .name = "journal_commit_seconds",
      .help = "Time of one write of the journal.",
      .labels = {},
      .buckets = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}};
  return kFamily;
}

const metrics::Family& JournalBytes() {
  static const metrics::Family kFamily = {.name = "journal_bytes",
                                          .help = "Size of the journal as last written.",
                                          .labels = {},
                                          .buckets = {}};
  return kFamily;
}

}  // namespace

void JournalWriter::Declare(metrics::Snapshot& page) {
  nstance::Declare(page, Commits(), metrics::Kind::kCounter);
  nstance::Declare(page, CommitSeconds(), metrics::Kind::kHistogram);
  nstance::Declare(page, JournalBytes(), metrics::Kind::kGauge);
}

void JournalWriter::Count(std::size_t bytes, Instant begun) {
  if (deps_.metrics == nullptr) return;
  deps_.metrics->Counter(Commits(), {}).Add();
  deps_.metrics->Histogram(CommitSeconds(), {}).Observe(InSeconds(deps_.loop.Now() - begun));
  deps_.metrics->Gauge(JournalBytes(), {}).Set(static_cast<double>(bytes));
}

JournalMachine::Input JournalWriter::Input() {
  const bool open = owner_.may_start(options_.store_timeout);
  return {.now = deps_.loop.Now(),
          .wall_now = deps_.loop.WallNow(),
          .entropy = deps_.random.Array<std::tuple_size_v<JournalMachine::Entropy>>(),
          .budget = open ? JournalMachine::Budget::kOpen : JournalMachine::Budget::kSpent};
}

void JournalWriter::Submit(JournalChange change, JournalMachine::Urgency urgency, Done done) {
  const std::uint64_t ticket = next_ticket_++;
  done_.emplace(ticket, std::move(done));
  Do(machine_.Submit({.ticket = ticket, .change = std::move(change), .urgency = urgency}, Input()));
}

void JournalWriter::Read() {
  if (!machine_.open()) AtStep(Step::kL4);
  call_ = deps_.store.Get(options_.key, [this](Result<Object> result) {
    Do(machine_.OnRead(ToAnswer(std::move(result)), Input()));
  });
}

void JournalWriter::Write(JournalStep::Write& write) {
  PutRequest request{.key = options_.key, .bytes = std::move(write.bytes), .condition = IfAbsent{}};
  if (write.expected_version) {
    request.condition = IfVersion{ObjectVersion{std::move(*write.expected_version)}};
  }
  const std::size_t bytes = request.bytes.size();
  const Instant begun = deps_.loop.Now();
  if (!machine_.open()) AtStep(Step::kL4);
  for (const Step step : write.steps) AtStep(step);
  call_ = deps_.store.Put(std::move(request), [this, bytes, begun](Result<ObjectVersion> result) {
    if (result.has_value()) Count(bytes, begun);
    Do(machine_.OnWrite(ToAnswer(std::move(result)), Input()));
  });
}

void JournalWriter::Do(JournalStep step) {
  timer_ = Pending();
  if (step.wake_at != Instant::Never()) {
    timer_ = deps_.loop.CallAt(step.wake_at, [this] { Do(machine_.OnTime(Input())); });
  }
  std::visit(Overloaded{
                 [](JournalStep::Nothing) {},
                 [this](JournalStep::Read) { Read(); },
                 [this](JournalStep::Write& write) { Write(write); },
             },
             step.call);
  Tell(step);
}

// Answers first: they may submit more, which the machine is ready for. The owner's word is the last
// thing, since it may destroy us. Loss and refusal come with no answers.
void JournalWriter::Tell(JournalStep& step) {
  for (JournalStep::Settled& settled : step.settled) {
    auto done = done_.extract(settled.ticket);
    if (!done.empty()) done.mapped()(std::move(settled.id));
  }
  std::visit(Overloaded{
                 [](JournalStep::Nothing) {},
                 [this](const JournalStep::TookOver& news) {
                   auto tell = std::move(owner_.took_over);
                   tell(news.epoch);
                 },
                 [this](JournalStep::Refused& news) {
                   auto tell = std::move(owner_.refused);
                   tell(std::move(news.why));
                 },
                 [this](const JournalStep::Lost& news) {
                   auto tell = std::move(owner_.lost);
                   tell(news.loss);
                 },
             },
             step.news);
}

}  // namespace nstance
