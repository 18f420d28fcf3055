#include "core/store_probe.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"

namespace nstance {
namespace {

using probe::Finding;
using probe::Method;
using probe::Sight;

constexpr int kClockCheck = 8;
constexpr int kListingCheck = 7;
constexpr int kDeleteCheck = 9;
constexpr Duration kClockLimit = Duration::Seconds(60);
constexpr Duration kListingPause = Duration::Milliseconds(250);
constexpr Duration kBackOff = Duration::Seconds(1);

Duration Absolute(Duration length) { return length < Duration() ? Duration() - length : length; }

}  // namespace

std::string_view ProbeStatusName(ProbeStatus status) {
  switch (status) {
    case ProbeStatus::kPassed: return "passed";
    case ProbeStatus::kFailed: return "failed";
    case ProbeStatus::kWarning: return "warning";
    case ProbeStatus::kReported: return "reported";
    case ProbeStatus::kNotRun: return "not run";
  }
  return "";
}

StoreProbe::StoreProbe(Options options) : options_(std::move(options)) {
  CHECK(options_.endpoints > 0 && options_.writers > 0 && options_.rounds > 0, "nothing to probe");
  for (int number = 1; number <= probe::kChecks; ++number) {
    report_.checks.push_back({.number = number, .name = probe::RuleInWords(number)});
  }
}

void StoreProbe::Enter(State from, State to) {
  CHECK(state_ == from, "in state {}", static_cast<int>(state_));
  state_ = to;
}

StoreProbe::Command StoreProbe::Start(Instant now) {
  Enter(State::kNew, State::kAsking);
  check_since_ = now;
  return BeginRound(now);
}

StoreProbe::Command StoreProbe::BeginRound(Instant now) {
  script_ =
      probe::MakeScript(check_, {.endpoints = options_.endpoints, .writers = options_.writers});
  ++script_number_;
  batch_ = 0;
  first_line_ = 0;
  keys_.clear();
  contents_.clear();
  std::size_t lines = 0;
  int keys = 0;
  int contents = 0;
  for (const probe::Batch& batch : script_.batches) {
    lines += batch.size();
    for (const probe::Line& line : batch) {
      keys = std::max(keys, line.key + 1);
      contents = std::max(contents, line.content + 1);
    }
  }
  // Unique over all rounds, so that a late write of an earlier one is never taken for this one's.
  for (int number = 0; number < contents; ++number) {
    contents_.push_back(
        fmt::format("store probe {} round {} write {}\n", options_.random, script_number_, number));
  }
  for (int key = 0; key < keys; ++key) keys_.push_back(Key(key));
  sights_.assign(lines, std::nullopt);
  versions_.assign(lines, ObjectVersion());
  return AskBatch(now);
}

ObjectKey StoreProbe::Key(int number) {
  auto key = ObjectKey::Parse(
      fmt::format("probe/{}/{}-{}", options_.shard, options_.random, used_.size()));
  CHECK(key.has_value(), "shard {} key {}", options_.shard, number);
  used_.push_back(*key);
  return *std::move(key);
}

bool StoreProbe::CanAsk(const probe::Batch& batch) const {
  return std::ranges::all_of(batch, [this](const probe::Line& line) {
    return line.version_of < 0 ||
           !versions_.at(static_cast<std::size_t>(line.version_of)).text.empty();
  });
}

StoreProbe::Command StoreProbe::AskBatch(Instant now) {
  Ask ask;
  for (const probe::Line& line : batch()) {
    Request request{.method = line.method,
                    .endpoint = line.endpoint,
                    .key = keys_.at(static_cast<std::size_t>(line.key)),
                    .bytes = {},
                    .version = {}};
    if (line.content >= 0) request.bytes = contents_.at(static_cast<std::size_t>(line.content));
    if (line.version_of >= 0) {
      request.version = versions_.at(static_cast<std::size_t>(line.version_of));
    }
    if (line.until_listed && !listing_since_) listing_since_ = now;
    ask.requests.push_back(std::move(request));
  }
  outstanding_ = ask.requests.size();
  return ask;
}

Sight StoreProbe::See(const probe::Line& line, const Answer& answer) const {
  using What = Sight::What;
  if (answer.error) {
    const Error& error = *answer.error;
    const std::string& message = error.message;
    if (line.method == Method::kGet && error.code == Code::kNotFound)
      return {.what = What::kAbsent};
    if (line.method == Method::kGet || line.method == Method::kList) {
      return {.what = What::kFailed, .message = message};
    }
    if (error.outcome == Outcome::kMaybeDone) return {.what = What::kMaybeDone, .message = message};
    if (error.code == Code::kAborted) return {.what = What::kRefused, .message = message};
    if (error.code == Code::kUnimplemented) {
      return {.what = What::kUnsupported, .message = message};
    }
    return {.what = What::kFailed, .message = message};
  }
  if (line.method == Method::kList) {
    return {.what = answer.listed ? What::kListed : What::kUnlisted};
  }
  if (line.method != Method::kGet) return {.what = What::kApplied};
  const auto at = std::ranges::find(contents_, answer.bytes);
  const bool ours = at != contents_.end();
  return {.what = What::kContent, .content = ours ? static_cast<int>(at - contents_.begin()) : -1};
}

void StoreProbe::NoteClock(const Answer& answer) {
  if (!answer.store_time) return;
  const Duration offset = *answer.store_time - answer.wall;
  // The answer takes time, so the smallest difference seen is the nearest to the truth.
  if (!report_.clock_offset || Absolute(offset) < Absolute(*report_.clock_offset)) {
    report_.clock_offset = offset;
  }
}

StoreProbe::Command StoreProbe::On(Answer answer, Instant now, Prng& jitter) {
  CHECK(state_ == State::kAsking || state_ == State::kCleaning, "in state {}",
        static_cast<int>(state_));
  CHECK(outstanding_ > 0, "an answer that nobody waits for");
  --outstanding_;
  if (state_ == State::kCleaning) {
    if (answer.error) left_.push_back(used_.at(answer.number));
    return outstanding_ > 0 ? Command(Nothing{}) : EndClean();
  }
  const std::size_t line = first_line_ + answer.number;
  NoteClock(answer);
  sights_.at(line) = See(batch().at(answer.number), answer);
  versions_.at(line) = std::move(answer.version);
  return outstanding_ > 0 ? Command(Nothing{}) : EndBatch(now, jitter);
}

// The listing does not show yet what the script waits for.
bool StoreProbe::Lags() const {
  const probe::Line& line = batch().front();
  const auto& seen = sights_.at(first_line_);
  if (!line.until_listed || !seen) return false;
  return seen->what == (*line.until_listed ? Sight::What::kUnlisted : Sight::What::kListed);
}

StoreProbe::Command StoreProbe::EndBatch(Instant now, Prng& jitter) {
  if (listing_since_) {
    const Duration lag = now - *listing_since_;
    if (Lags() && lag < options_.listing_limit) {
      listing_lagged_ = true;
      Enter(State::kAsking, State::kWaiting);
      return Wait{kListingPause};
    }
    if (std::exchange(listing_lagged_, false)) {
      report_.listing_lag = std::max(report_.listing_lag, Lags() ? options_.listing_limit : lag);
    }
    listing_since_.reset();
  }
  first_line_ += batch().size();
  ++batch_;
  if (batch_ < script_.batches.size() && CanAsk(batch())) return AskBatch(now);
  return EndRound(now, jitter);
}

StoreProbe::Command StoreProbe::On(Woke /*woke*/, Instant now) {
  Enter(State::kWaiting, State::kAsking);
  return listing_since_ ? AskBatch(now) : BeginRound(now);
}

StoreProbe::Command StoreProbe::EndRound(Instant now, Prng& jitter) {
  Finding finding = probe::Judge(script_, sights_);
  const bool unclear =
      finding.what == Finding::What::kInconclusive || finding.what == Finding::What::kStubborn;
  if (unclear && ++attempt_ < options_.attempts) {
    Enter(State::kAsking, State::kWaiting);
    const Duration length = kBackOff * (std::int64_t{1} << (attempt_ - 1));
    return Wait{length + jitter.UpTo(length / 4)};
  }
  attempt_ = 0;
  if (finding.what == Finding::What::kStubborn) finding.what = Finding::What::kBroken;
  NoteRound(finding);
  check().took = now - check_since_;
  if (finding.what == Finding::What::kInconclusive && check_ <= probe::kLastRule) {
    unreachable_ = true;
    return Clean();
  }
  const int rounds = check_ <= 2 ? options_.rounds : 1;
  if (finding.what == Finding::What::kHolds && ++round_ < rounds) return BeginRound(now);
  return NextCheck(now);
}

void StoreProbe::NoteRound(const Finding& finding) {
  check().detail = finding.detail;
  if (check_ <= probe::kLastRule) {
    switch (finding.what) {
      case Finding::What::kHolds: check().status = ProbeStatus::kPassed; break;
      case Finding::What::kInconclusive: check().status = ProbeStatus::kNotRun; break;
      default: check().status = ProbeStatus::kFailed;
    }
    return;
  }
  if (finding.what == Finding::What::kInconclusive) {
    check().status = ProbeStatus::kWarning;
    check().detail = "could not be found out: " + finding.detail;
  } else if (check_ == kListingCheck) {
    const Duration lag = report_.listing_lag;
    check().status = lag > Duration() ? ProbeStatus::kWarning : ProbeStatus::kReported;
    check().detail = lag == options_.listing_limit
                         ? fmt::format("still wrong after {}", FormatDuration(lag))
                     : lag > Duration() ? fmt::format("lags {}", FormatDuration(lag))
                                        : "no lag";
  } else if (check_ == kDeleteCheck) {
    report_.conditional_delete = finding.what == Finding::What::kHolds;
    check().status = ProbeStatus::kReported;
    check().detail = report_.conditional_delete ? "honoured" : "ignored: " + finding.detail;
  }
}

StoreProbe::Command StoreProbe::NextCheck(Instant now) {
  round_ = 0;
  ++check_;
  check_since_ = now;
  // The clock is watched all the time.
  if (check_ == kClockCheck) ++check_;
  return check_ > probe::kChecks ? Clean() : BeginRound(now);
}

StoreProbe::Command StoreProbe::Clean() {
  Enter(State::kAsking, State::kCleaning);
  Ask ask;
  for (const ObjectKey& key : used_) {
    ask.requests.push_back(
        {.method = Method::kDelete, .endpoint = 0, .key = key, .bytes = {}, .version = {}});
  }
  outstanding_ = ask.requests.size();
  return ask;
}

StoreProbe::Command StoreProbe::EndClean() {
  used_ = std::exchange(left_, {});
  if (!used_.empty() && ++cleanings_ < 2) {
    state_ = State::kAsking;
    return Clean();
  }
  Enter(State::kCleaning, State::kDone);
  return Finish{Conclude()};
}

StoreProbeReport StoreProbe::Conclude() {
  ProbeCheck& clock = report_.checks.at(kClockCheck - 1);
  if (!report_.clock_offset) {
    clock.status = ProbeStatus::kReported;
    clock.detail = "the store tells no time";
  } else {
    const Duration offset = *report_.clock_offset;
    clock.status = Absolute(offset) > kClockLimit ? ProbeStatus::kWarning : ProbeStatus::kReported;
    clock.detail = fmt::format("differs by {}", FormatDuration(offset));
  }
  const auto failed = std::ranges::find(report_.checks, ProbeStatus::kFailed, &ProbeCheck::status);
  if (failed != report_.checks.end()) {
    report_.verdict = ProbeVerdict::kRefused;
    report_.message = fmt::format("the store breaks rule {} ({}): {}", failed->number, failed->name,
                                  failed->detail);
  } else if (unreachable_) {
    report_.verdict = ProbeVerdict::kUnreachable;
    report_.message = fmt::format("the store could not be probed: {}", check().detail);
  } else {
    report_.verdict = ProbeVerdict::kAccepted;
    report_.message = "the store honours conditional writes";
  }
  return std::move(report_);
}

}  // namespace nstance
