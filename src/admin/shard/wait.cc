#include "admin/shard/wait.h"

#include <algorithm>

#include <fmt/format.h>

#include "admin/printable.h"
#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

constexpr Duration kBetweenLooks = Duration::Seconds(2);
constexpr Duration kWithoutEvents = Duration::Seconds(10);
constexpr Duration kOneLook = Duration::Seconds(15);

constexpr std::size_t kMostHolds = 5;

std::string HeldText(const std::vector<api::Hold>& holds, Timestamp now) {
  std::string text;
  for (std::size_t i = 0; i < std::min(holds.size(), kMostHolds); ++i) {
    text += "; held: " + HoldText(holds[i], now);
  }
  if (holds.size() > kMostHolds) text += fmt::format("; and {} more", holds.size() - kMostHolds);
  return text;
}

bool IsPassing(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kAborted;
}

}  // namespace

void AskHolds(ShardCaller& caller, Instant deadline, const std::string& group,
              WaitGoal::Held held) {
  caller.Call(api::kPlan, {.group = group}, deadline,
              [held = std::move(held)](Result<api::PlanResponse> plan) mutable {
                if (!plan) return held(Fail(plan.error()));
                held(std::move(plan->holds));
              });
}

Waiter::Waiter(Session& session, std::vector<WaitGoal> goals, Duration limit,
               std::move_only_function<void(WaitEnd end)> done)
    : session_(session), began_(session.loop().Now()), done_(std::move(done)) {
  session_.BeSilentAboutRetries();
  for (WaitGoal& goal : goals) {
    places_.push_back(std::make_unique<Place>(Place{.goal = std::move(goal)}));
  }
  limit_ = session_.loop().CallAfter(limit, [this] { OnTimeUp(); });
  for (const auto& place : places_) {
    Listen(*place);
    Look(*place);
  }
  if (session_.MayRedraw()) Tick();
}

Waiter::~Waiter() = default;

void Waiter::Listen(Place& place) {
  place.streams =
      session_.Streams(place.goal.server,
                       {{.path = api::kWatchEvents.path,
                         .request = RpcMessage::Of(place.goal.events),
                         .message = [this, &place](const RpcMessage&) { OnEvent(place); }}},
                       {.up = [this, &place] { OnEvent(place); },
                        .lost = [this, &place](const Error&) { OnEvent(place); },
                        .not_offered =
                            [this, &place](std::string_view) {
                              place.blind = true;
                              Schedule(place);
                            }});
}

void Waiter::OnEvent(Place& place) {
  place.wanted = true;
  Schedule(place);
}

void Waiter::Schedule(Place& place) {
  if (place.looking || time_up_ || place.progress.state != Progress::State::kGoing) return;
  const bool soon = place.wanted || place.blind;
  place.next = session_.loop().CallAt(place.last_look + (soon ? kBetweenLooks : kWithoutEvents),
                                      [this, &place] { Look(place); });
}

void Waiter::Look(Place& place) {
  place.looking = true;
  place.wanted = false;
  place.last_look = session_.loop().Now();
  place.chain = place.goal.look(
      session_.caller(place.goal.server), place.last_look + kOneLook,
      [this, &place](Result<Progress> progress) { OnLooked(place, std::move(progress)); });
}

void Waiter::OnLooked(Place& place, Result<Progress> progress) {
  place.looking = false;
  if (progress) {
    place.progress = *std::move(progress);
  } else if (!IsPassing(progress.error())) {
    place.progress.state = Progress::State::kFailed;
    place.progress.why = progress.error().message;
  } else {
    place.progress.text = "not reachable, trying again";
  }
  Show();
  if (place.progress.state != Progress::State::kGoing) return Settle();
  Schedule(place);
}

void Waiter::Settle() {
  const bool all = std::ranges::all_of(places_, [this](const auto& place) {
    return place->progress.state != Progress::State::kGoing || (time_up_ && place->holds_asked);
  });
  if (all) Finish();
}

void Waiter::OnTimeUp() {
  time_up_ = true;
  for (const auto& place : places_) {
    if (place->progress.state != Progress::State::kGoing) continue;
    place->next = {};
    ShardCaller& caller = session_.caller(place->goal.server);
    caller.Cancel();
    place->chain = nullptr;
    place->goal.holds(caller, session_.loop().Now() + kOneLook,
                      [this, at = place.get()](Result<std::vector<api::Hold>> holds) {
                        OnHolds(*at, std::move(holds));
                      });
  }
}

void Waiter::OnHolds(Place& place, Result<std::vector<api::Hold>> holds) {
  place.holds_asked = true;
  if (holds) {
    place.holds = *std::move(holds);
  } else {
    place.not_asked = holds.error().message;
  }
  Settle();
}

void Waiter::Finish() {
  WaitEnd end{.elapsed = session_.loop().Now() - began_};
  for (const auto& place : places_) {
    end.goals.push_back({.server = place->goal.server,
                         .title = place->goal.title,
                         .progress = place->progress,
                         .holds = place->holds,
                         .not_asked = place->not_asked});
  }
  auto tell = std::move(done_);
  tell(std::move(end));
}

// --- Showing -------------------------------------------------------------------------------------

void Waiter::Tick() {
  tick_ = session_.loop().CallAfter(Duration::Seconds(1), [this] { Tick(); });
  ShowScreen();
}

void Waiter::Show() {
  if (session_.MayRedraw()) return ShowScreen();
  ShowLines();
}

void Waiter::ShowLines() {
  for (const auto& place : places_) {
    if (place->progress.text.empty() || place->progress.text == place->shown) continue;
    place->shown = place->progress.text;
    session_.Note(ProgressLine(
        place->progress,
        {.title = place->goal.title, .elapsed = session_.loop().Now() - began_, .columns = 1'000}));
  }
}

// Over the lines of the last time. More goals than fit on the screen: the first ones that still go.
void Waiter::ShowScreen() {
  if (session_.common().quiet || session_.json()) return;
  const ScreenSize size = session_.terminal().size();
  const auto most = static_cast<std::size_t>(std::max(1, size.rows - 1));
  std::string out;
  if (drawn_ > 0) out += fmt::format("\x1b[{}A", drawn_);
  std::size_t drawn = 0;
  for (const auto& place : places_) {
    const bool skip = places_.size() > most && place->progress.state != Progress::State::kGoing;
    if (skip || drawn == most) continue;
    out += "\r" +
           ProgressLine(place->progress,
                        {.title = place->goal.title,
                         .elapsed = session_.loop().Now() - began_,
                         .columns = static_cast<std::size_t>(std::max(1, size.columns - 1)),
                         .paint = session_.paint(Terminal::Stream::kErr)}) +
           "\x1b[K\n";
    ++drawn;
  }
  out += "\x1b[J";
  drawn_ = drawn;
  session_.terminal().Write(Terminal::Stream::kErr, out);
}

// --- The end -------------------------------------------------------------------------------------

Ending EndOfWait(const Session& session, Outcomes outcomes, const WaitEnd& end, std::string out) {
  for (const WaitEnd::Goal& goal : end.goals) {
    if (goal.progress.state == Progress::State::kReached) {
      outcomes.Succeeded();
    } else if (goal.progress.state == Progress::State::kFailed) {
      outcomes.Failed(goal.server,
                      FailedPrecondition(fmt::format("{}: {}", goal.title, goal.progress.why)));
    } else if (goal.progress.state == Progress::State::kStuck) {
      // More time would not help: an error, not the end of the time.
      outcomes.Failed(goal.server, FailedPrecondition(fmt::format("{} does not get there ({}): {}",
                                                                  goal.title, goal.progress.text,
                                                                  Printable(goal.progress.why))));
    } else {
      std::string message =
          fmt::format("{} is not there after {}: {}", goal.title, Age(end.elapsed),
                      goal.progress.text.empty() ? "nothing was seen" : goal.progress.text);
      if (!goal.not_asked.empty()) {
        message += "; what holds it could not be asked: " + Printable(goal.not_asked);
      } else if (goal.holds.empty()) {
        message += "; nothing holds it, it may need more --wait";
      }
      message += HeldText(goal.holds, session.now());
      outcomes.TimedOut(goal.server, message);
    }
  }
  return std::move(outcomes).End(std::move(out));
}

}  // namespace nstance::admin
