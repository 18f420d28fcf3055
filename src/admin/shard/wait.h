// Waiter: waits until goals in one or more shards are reached, and shows how far they are.
//
// It listens to the events of its subject and looks after each, at most every 2 s; without any
// event it looks every 10 s, and every 2 s where the server offers no events. A failover is no
// failure: it goes on looking. On a terminal one line per goal is kept up to date; elsewhere a line
// is written per change; nothing with --quiet or --json.
//
// The end comes when every goal is reached, has failed or is stuck, or when the time is up: then
// the holds that are in the way are asked for.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "admin/shard/fan.h"
#include "admin/shard/progress.h"
#include "admin/shard/session.h"
#include "ports/api/events.h"
#include "ports/api/plan.h"

namespace nstance::admin {

struct WaitGoal {
  std::size_t server = 0;
  std::string title = {};
  api::WatchEventsRequest events = {};  // What it is about.

  using Looked = std::move_only_function<void(Result<Progress> progress)>;
  // One look, with the caller of its server; what it returns is kept meanwhile.
  std::function<std::shared_ptr<Running>(ShardCaller& caller, Instant deadline, Looked looked)>
      look = {};

  using Held = std::move_only_function<void(Result<std::vector<api::Hold>> holds)>;
  std::function<void(ShardCaller& caller, Instant deadline, Held held)> holds = {};
};

struct WaitEnd {
  struct Goal {
    std::size_t server = 0;
    std::string title = {};
    Progress progress = {};
    std::vector<api::Hold> holds = {};  // Only of those that are still going.
    std::string not_asked = {};         // Why the holds are not known.
  };
  std::vector<Goal> goals = {};
  Duration elapsed = {};
};

// Holds of a group, or of all; by Plan().
void AskHolds(ShardCaller& caller, Instant deadline, const std::string& group, WaitGoal::Held held);

class Waiter final : public Running {
 public:
  // REQUIRES: goals of one server do not look at the same time: one goal per server.
  Waiter(Session& session, std::vector<WaitGoal> goals, Duration limit,
         std::move_only_function<void(WaitEnd end)> done);
  ~Waiter() override;

 private:
  struct Place {
    WaitGoal goal;
    Progress progress = {};
    bool looking = false;
    bool wanted = true;  // Something has happened since the last look.
    bool blind = false;  // No events come.
    Instant last_look = {};
    std::shared_ptr<Running> chain = {};
    Pending next = {};
    std::unique_ptr<ShardStreams> streams = {};
    bool holds_asked = false;
    std::vector<api::Hold> holds = {};
    std::string not_asked = {};
    std::string shown = {};
  };

  void Listen(Place& place);
  void OnEvent(Place& place);
  void Schedule(Place& place);
  void Look(Place& place);
  void OnLooked(Place& place, Result<Progress> progress);
  void Settle();
  void OnTimeUp();
  void OnHolds(Place& place, Result<std::vector<api::Hold>> holds);
  void Finish();
  void Tick();
  void Show();
  void ShowLines();
  void ShowScreen();

  Session& session_;
  std::vector<std::unique_ptr<Place>> places_;
  Instant began_;
  std::move_only_function<void(WaitEnd end)> done_;
  bool time_up_ = false;
  std::size_t drawn_ = 0;  // Lines on the terminal.
  Pending limit_;
  Pending tick_;
};

struct WaitOrder {
  std::vector<WaitGoal> goals = {};
  Duration limit = {};
  // What the command has to say anyway; without a wait nothing is in the end.
  std::function<std::string(const WaitEnd& end)> text = {};
};

// How a command ends after its wait; `out` is what it has to say anyway.
[[nodiscard]] Ending EndOfWait(const Session& session, Outcomes outcomes, const WaitEnd& end,
                               std::string out);

// The end of a command that has asked for a change in several shards: it waits for the goals of
// those that took it, if there are any, and tells what failed in `answers` besides. `answers` and
// `tell` outlive what is returned; null: there was nothing to wait for, and the ending is told.
template <class T>
[[nodiscard]] std::unique_ptr<Running> WaitAndTell(Session& session, const ShardAnswers<T>& answers,
                                                   WaitOrder order, Teller& tell) {
  if (order.goals.empty()) {
    Outcomes outcomes(session);
    outcomes.Take(answers);
    tell(std::move(outcomes).End(order.text({})));
    return nullptr;
  }
  return std::make_unique<Waiter>(
      session, std::move(order.goals), order.limit,
      [&session, &answers, &tell, text = std::move(order.text)](const WaitEnd& end) {
        Outcomes outcomes(session);
        for (const auto& [server, answer] : answers) {
          if (!answer) outcomes.Failed(server, answer.error());
        }
        tell(EndOfWait(session, std::move(outcomes), end, text(end)));
      });
}

}  // namespace nstance::admin
