// `instance create`: CreateInstance with a request id of our own, then perhaps a wait.
#include <utility>

#include <fmt/format.h>

#include "admin/printable.h"
#include "admin/shard/api_json.h"
#include "admin/shard/instance_goals.h"
#include "admin/shard/run.h"
#include "admin/shard/wait.h"
#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

class InstanceCreateRun final : public ShardRun {
 public:
  InstanceCreateRun(Session& session, InstanceCreate command, Done done)
      : session_(session), command_(std::move(command)), tell_(std::move(done)) {}

  void Start() override {
    const api::CreateInstanceRequest request{
        .instance_id = command_.id,
        .config = api::InstanceConfig{.group = command_.group.text(),
                                      .template_name = command_.template_name,
                                      .instance_type = command_.instance_type,
                                      .subnet_pool = command_.subnet_pool,
                                      .vars = {command_.vars.begin(), command_.vars.end()}},
        .request_id = session_.NewRequestId()};
    running_ = AskAll(session_, api::kCreateInstance, request,
                      [this](const ShardAnswers<api::CreateInstanceResponse>& answers) {
                        OnCreated(answers.front());
                      });
  }
  [[nodiscard]] std::string StopNote() const override {
    return created_.instance_id.empty() ? "" : kChangeGoesOn;
  }

 private:
  void OnCreated(const ShardAnswer<api::CreateInstanceResponse>& answer) {
    server_ = answer.server;
    Outcomes outcomes(session_);
    if (!answer.answer) {
      outcomes.Failed(server_, answer.answer.error());
      return tell_(std::move(outcomes).End(""));
    }
    created_ = *answer.answer;
    if (!command_.wait) {
      outcomes.Succeeded();
      return tell_(std::move(outcomes).End(Text("")));
    }
    std::vector<WaitGoal> goals;
    goals.push_back(RegisteredGoal(session_, server_, created_.instance_id));
    running_ = std::make_unique<Waiter>(session_, std::move(goals), *command_.wait,
                                        [this](const WaitEnd& end) { OnWaited(end); });
  }

  void OnWaited(const WaitEnd& end) {
    const Progress& progress = end.goals.front().progress;
    const bool reached = progress.state == Progress::State::kReached;
    const std::string after =
        reached ? fmt::format("; {} after {}", progress.text, Age(end.elapsed)) : std::string();
    if (reached) created_.status = progress.text;
    tell_(EndOfWait(session_, Outcomes(session_), end, Text(after)));
  }

  [[nodiscard]] std::string Text(const std::string& after) const {
    if (session_.json()) {
      json::Value document = json::Value::Map({});
      SetText(document, "shard", session_.name(server_));
      SetText(document, "instance_id", created_.instance_id);
      SetText(document, "status", created_.status);
      return Document(document);
    }
    // Scripts want the id alone.
    if (session_.common().quiet) return Printable(created_.instance_id) + "\n";
    return fmt::format("{}: instance {} {}\n", session_.name(server_),
                       Printable(created_.instance_id),
                       after.empty() ? Printable(created_.status) : "created" + after);
  }

  Session& session_;
  InstanceCreate command_;
  Teller tell_;
  std::size_t server_ = 0;
  api::CreateInstanceResponse created_;
  std::unique_ptr<Running> running_;
};

}  // namespace

RunPtr MakeRun(Session& session, const InstanceCreate& command, Done done) {
  return std::make_unique<InstanceCreateRun>(session, command, std::move(done));
}

}  // namespace nstance::admin
