// `instance delete`.
//
// Step   | Next
// -------+---------------------------------------------------------------------------------------
// find   | each instance in all shards, one after the other; one that is nowhere ends the command
//        | before anything is changed
// ask    | on a terminal, without --yes
// delete | DeleteInstance where each is, shards beside each other
// wait   | --wait: until they are gone
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "admin/printable.h"
#include "admin/shard/api_json.h"
#include "admin/shard/find_instance.h"
#include "admin/shard/instance_goals.h"
#include "admin/shard/question.h"
#include "admin/shard/run.h"
#include "admin/shard/wait.h"
#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

// What one shard answered for its instances, in their order, as far as it came.
struct Statuses {
  std::vector<std::string> texts = {};
  std::optional<Error> ended = std::nullopt;  // Why it did not come to the end.
};

// DeleteInstance for one after the other, up to the first error.
class DeleteChain final : public Running {
 public:
  using Told = std::move_only_function<void(Result<Statuses> statuses)>;
  struct Work {
    std::vector<std::string> ids = {};
    bool drain = false;
    std::optional<Duration> drain_timeout = std::nullopt;
  };

  DeleteChain(ShardCaller& caller, Instant deadline, Work work, Told told)
      : caller_(caller), deadline_(deadline), work_(std::move(work)), told_(std::move(told)) {
    Ask();
  }

 private:
  void Ask() {
    caller_.Call(api::kDeleteInstance,
                 {.instance_id = work_.ids[statuses_.texts.size()],
                  .drain = work_.drain,
                  .drain_timeout = work_.drain_timeout},
                 deadline_,
                 [this](const Result<api::DeleteInstanceResponse>& answer) { OnAnswer(answer); });
  }

  void OnAnswer(const Result<api::DeleteInstanceResponse>& answer) {
    if (answer) {
      statuses_.texts.push_back(answer->status);
    } else {
      statuses_.ended = answer.error().Under(work_.ids[statuses_.texts.size()]);
    }
    if (answer && statuses_.texts.size() < work_.ids.size()) return Ask();
    auto told = std::move(told_);
    told(std::move(statuses_));
  }

  ShardCaller& caller_;
  Instant deadline_;
  Work work_;
  Told told_;
  Statuses statuses_;
};

class InstanceDeleteRun final : public ShardRun {
 public:
  InstanceDeleteRun(Session& session, InstanceDelete command, Done done)
      : session_(session), command_(std::move(command)), tell_(std::move(done)) {}

  void Start() override { FindNext(); }
  [[nodiscard]] std::string StopNote() const override { return changed_ ? kChangeGoesOn : ""; }

 private:
  void FindNext() {
    if (found_ == command_.ids.size()) return Confirm();
    running_ = AskAll(
        session_, api::kGetInstanceStatus, {.instance_id = command_.ids[found_]},
        [this](const ShardAnswers<api::InstanceStatusResponse>& answers) { OnStatus(answers); });
  }

  void OnStatus(const ShardAnswers<api::InstanceStatusResponse>& answers) {
    const std::string& id = command_.ids[found_];
    const auto found = PickFound(session_, id, answers);
    if (!found) return tell_(NotThere(session_, found.error()));
    places_[found->server].push_back(id);
    ++found_;
    FindNext();
  }

  void Confirm() {
    if (command_.yes) return Delete();
    if (!session_.terminal().MayAsk()) return tell_(NobodyToAsk(session_));
    const std::string what =
        command_.ids.size() == 1 ? command_.ids.front() : Count(command_.ids.size(), "instance");
    question_ = AskYesNo(session_, fmt::format("Delete {}?", what),
                         [this](bool yes) { yes ? Delete() : tell_(NotConfirmed()); });
  }

  void Delete() {
    changed_ = true;
    std::vector<std::size_t> servers;
    servers.reserve(places_.size());
    for (const auto& [server, ids] : places_) servers.push_back(server);
    auto fan = std::make_unique<Fan<Statuses>>(
        std::move(servers),
        [this](std::size_t server, DeleteChain::Told told) {
          return std::make_shared<DeleteChain>(
              session_.caller(server), session_.Deadline(server),
              DeleteChain::Work{.ids = places_.at(server),
                                .drain = command_.drain,
                                .drain_timeout = command_.drain_timeout},
              std::move(told));
        },
        [this](const ShardAnswers<Statuses>& answers) { OnDeleted(answers); });
    Fan<Statuses>& started = *fan;
    running_ = std::move(fan);
    started.Start();
  }

  // Where it broke off in the middle, those that were taken before are told as well, and waited
  // for: they go.
  void OnDeleted(const ShardAnswers<Statuses>& answers) {
    std::vector<WaitGoal> goals;
    for (const auto& [server, answer] : answers) {
      if (!answer) continue;  // A chain always tells.
      std::vector<std::string>& ids = places_.at(server);
      ids.resize(answer->texts.size());
      taken_[server] = answer->texts;
      if (answer->ended) {
        answers_.push_back({.server = server, .answer = Fail(*answer->ended)});
      } else {
        answers_.push_back({.server = server, .answer = {}});
      }
      if (!ids.empty() && command_.wait) goals.push_back(InstancesGoneGoal(session_, server, ids));
    }
    running_ = WaitAndTell(session_, answers_,
                           {.goals = std::move(goals),
                            .limit = command_.wait.value_or(Duration()),
                            .text = [this](const WaitEnd& end) { return Text(end); }},
                           tell_);
  }

  [[nodiscard]] std::string Text(const WaitEnd& end) const {
    std::map<std::size_t, bool> gone;
    for (const WaitEnd::Goal& goal : end.goals) {
      gone[goal.server] = goal.progress.state == Progress::State::kReached;
    }
    json::Array results;
    std::string out;
    for (const auto& [server, texts] : taken_) {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::string& id = places_.at(server)[i];
        const auto reached = gone.find(server);
        const std::string status = reached != gone.end() && reached->second ? "gone" : texts[i];
        out += fmt::format("{}: instance {} {}\n", session_.name(server), id, Printable(status));
        json::Value object = json::Value::Map({});
        SetText(object, "shard", session_.name(server));
        SetText(object, "instance_id", id);
        SetText(object, "status", status);
        results.push_back(std::move(object));
      }
    }
    if (!session_.json()) return session_.common().quiet ? "" : out;
    json::Value document = json::Value::Map({});
    document.Set("results", json::Value::List(std::move(results)));
    return Document(document);
  }

  Session& session_;
  InstanceDelete command_;
  Teller tell_;
  std::size_t found_ = 0;
  std::map<std::size_t, std::vector<std::string>> places_;  // Ids by shard.
  ShardAnswers<void> answers_;
  std::map<std::size_t, std::vector<std::string>> taken_;  // What was answered, by shard.
  bool changed_ = false;
  Pending question_;
  std::unique_ptr<Running> running_;
};

}  // namespace

RunPtr MakeRun(Session& session, const InstanceDelete& command, Done done) {
  return std::make_unique<InstanceDeleteRun>(session, command, std::move(done));
}

}  // namespace nstance::admin
