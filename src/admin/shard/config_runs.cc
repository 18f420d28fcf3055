// `config status` and `config refresh`.
#include <utility>

#include <fmt/format.h>

#include "admin/shard/api_json.h"
#include "admin/shard/run.h"
#include "admin/shard/wait.h"
#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

Ending PrintStatus(Session& session, const ShardAnswers<api::ConfigStatusResponse>& answers) {
  Outcomes outcomes(session);
  outcomes.Take(answers);
  if (session.json()) {
    return std::move(outcomes).End(Document(ShardsJson(
        session, answers, [](json::Value& object, const api::ConfigStatusResponse& status) {
          SetText(object, "etag", status.etag);
          SetTime(object, "last_modified", status.last_modified);
          SetNumber(object, "size", status.size);
        })));
  }
  Table table({{"SHARD"}, {"ETAG"}, {"LAST_MODIFIED"}, {"SIZE", Align::kRight}});
  for (const auto& [server, answer] : answers) {
    if (!answer) continue;
    const auto& modified = answer->last_modified;
    table.Add({session.name(server), answer->etag,
               modified ? FormatTimestamp(modified->TruncatedToSecond()) : std::string(),
               std::to_string(answer->size)});
  }
  return std::move(outcomes).End(table.empty() ? "" : table.Text(session.paint()));
}

// --- config refresh ------------------------------------------------------------------------------

using Refreshed = ShardAnswers<api::RefreshConfigResponse>;

std::string RefreshText(const Session& session, const Refreshed& answers) {
  if (session.json()) {
    return Document(ShardsJson(
        session, answers, [](json::Value& object, const api::RefreshConfigResponse& refreshed) {
          object.Set("updated", json::Value::Bool(refreshed.updated));
          SetText(object, "prev_etag", refreshed.prev_etag);
          SetText(object, "etag", refreshed.etag);
        }));
  }
  Table table({{"SHARD"}, {"UPDATED"}, {"ETAG"}});
  for (const auto& [server, answer] : answers) {
    if (!answer) continue;
    table.Add({session.name(server), answer->updated ? std::string("yes") : std::string("no"),
               answer->etag});
  }
  return table.empty() ? "" : table.Text(session.paint());
}

Progress ProgressOfPlan(const api::PlanResponse& plan) {
  Progress progress{.text = Count(plan.actions.size(), "action") + " left"};
  if (plan.actions.empty()) progress.state = Progress::State::kReached;
  return progress;
}

WaitGoal QuietGoal(const Session& session, std::size_t server) {
  return {.server = server,
          .title = "all groups@" + session.name(server),
          .look =
              [](ShardCaller& caller, Instant deadline, WaitGoal::Looked looked) {
                caller.Call(
                    api::kPlan, {}, deadline,
                    [looked = std::move(looked)](const Result<api::PlanResponse>& plan) mutable {
                      if (!plan) return looked(Fail(plan.error()));
                      looked(ProgressOfPlan(*plan));
                    });
                return std::shared_ptr<Running>();
              },
          .holds = [](ShardCaller& caller, Instant deadline,
                      WaitGoal::Held held) { AskHolds(caller, deadline, "", std::move(held)); }};
}

class RefreshRun final : public ShardRun {
 public:
  RefreshRun(Session& session, const ConfigRefresh& command, Done done)
      : session_(session), command_(command), tell_(std::move(done)) {}

  void Start() override {
    running_ = AskAll(session_, api::kRefreshConfig, {},
                      [this](Refreshed answers) { OnRefreshed(std::move(answers)); });
  }
  [[nodiscard]] std::string StopNote() const override { return waiting_ ? kChangeGoesOn : ""; }

 private:
  void OnRefreshed(Refreshed answers) {
    answers_ = std::move(answers);
    std::vector<WaitGoal> goals;
    for (const auto& [server, answer] : answers_) {
      if (answer && command_.wait) goals.push_back(QuietGoal(session_, server));
    }
    waiting_ = !goals.empty();
    running_ =
        WaitAndTell(session_, answers_,
                    {.goals = std::move(goals),
                     .limit = command_.wait.value_or(Duration()),
                     .text = [this](const WaitEnd&) { return RefreshText(session_, answers_); }},
                    tell_);
  }

  Session& session_;
  ConfigRefresh command_;
  Teller tell_;
  Refreshed answers_;
  bool waiting_ = false;
  std::unique_ptr<Running> running_;
};

}  // namespace

RunPtr MakeRun(Session& session, const ConfigStatus& /*command*/, Done done) {
  using Run = OneCallRun<api::Empty, api::ConfigStatusResponse>;
  return std::make_unique<Run>(
      session, Run::Parts{.method = api::kGetConfigStatus, .request = {}, .print = PrintStatus},
      std::move(done));
}

RunPtr MakeRun(Session& session, const ConfigRefresh& command, Done done) {
  return std::make_unique<RefreshRun>(session, command, std::move(done));
}

}  // namespace nstance::admin
