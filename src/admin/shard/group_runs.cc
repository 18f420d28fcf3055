// `group list` and `group status`.
#include <map>
#include <utility>

#include <fmt/format.h>

#include "admin/shard/api_json.h"
#include "admin/shard/instance_pages.h"
#include "admin/shard/run.h"
#include "admin/shard/views.h"

namespace nstance::admin {
namespace {

Ending PrintGroups(Session& session, Width width,
                   const ShardAnswers<api::ListGroupsResponse>& answers) {
  Outcomes outcomes(session);
  outcomes.Take(answers);
  if (session.json()) {
    return std::move(outcomes).End(Document(
        ShardsJson(session, answers, [](json::Value& object, const api::ListGroupsResponse& list) {
          object.Set("groups", ListToJson(list.groups));
        })));
  }
  GroupTable table(width, {.now = session.now(), .paint = session.paint()});
  bool any = false;
  for (const auto& [server, answer] : answers) {
    if (!answer) continue;
    any = true;
    for (const api::GroupStatus& status : answer->groups) table.Add(session.name(server), status);
  }
  return std::move(outcomes).End(any ? table.Text() : "");
}

// --- group status --------------------------------------------------------------------------------

using Explained = ShardAnswers<api::ExplainResponse>;
using Members = std::vector<api::Instance>;

// Explain, then the members of the group in the shards that have it.
class GroupShowRun final : public ShardRun {
 public:
  GroupShowRun(Session& session, GroupShow command, Done done)
      : session_(session), command_(std::move(command)), tell_(std::move(done)) {}

  void Start() override {
    const api::ExplainRequest request{.subject =
                                          api::ExplainRequest::Group{.key = command_.group.text()}};
    running_ = AskAll(session_, api::kExplain, request,
                      [this](Explained answers) { OnExplained(std::move(answers)); });
  }

 private:
  void OnExplained(Explained answers) {
    answers_ = std::move(answers);
    std::vector<std::size_t> having;
    for (auto& [server, answer] : answers_) {
      if (answer) {
        having.push_back(server);
      } else if (answer.error().code == Code::kNotFound) {
        answer.error().message += "; `nstance-admin group list` shows the groups of tenant " +
                                  session_.identity().tenant.text();
      }
    }
    if (having.empty()) return Finish();
    running_ = ListAll(session_, having, {.group = command_.group.text()},
                       [this](const ShardAnswers<Members>& members) { OnMembers(members); });
  }

  void OnMembers(const ShardAnswers<Members>& members) {
    for (const auto& [server, answer] : members) {
      if (answer) {
        members_[server] = *answer;
      } else {
        answers_.at(server).answer = Fail(answer.error());
      }
    }
    Finish();
  }

  void Finish() {
    Outcomes outcomes(session_);
    outcomes.Take(answers_);
    tell_(std::move(outcomes).End(session_.json() ? Json() : Text()));
  }

  [[nodiscard]] std::string Json() const {
    json::Array shards;
    for (const auto& [server, answer] : answers_) {
      if (!answer) continue;
      json::Value object = json::Value::Map({});
      SetText(object, "shard", session_.name(server));
      if (answer->status) object.Set("status", ToJson(*answer->status));
      SetText(object, "summary", answer->summary);
      object.Set("actions", ListToJson(answer->actions));
      object.Set("holds", ListToJson(answer->holds));
      SetTime(object, "replan_at", answer->replan_at);
      object.Set("instances", ListToJson(members_.at(server)));
      shards.push_back(std::move(object));
    }
    json::Value document = json::Value::Map({});
    document.Set("shards", json::Value::List(std::move(shards)));
    return Document(document);
  }

  [[nodiscard]] std::string Text() const {
    const Look look{.now = session_.now(), .paint = session_.paint()};
    std::string out;
    for (const auto& [server, answer] : answers_) {
      if (!answer) continue;
      if (!out.empty()) out += '\n';
      out += Toned(fmt::format("{} in {}", command_.group.text(), session_.name(server)),
                   Tone::kStrong, look.paint) +
             "\n";
      if (answer->status) out += FactsText(FactsOf(*answer->status));
      out += HoldsText(answer->holds, look);
      if (!answer->actions.empty()) out += "Next:\n" + ActionsText(answer->actions, look);
      if (members_.at(server).empty()) continue;
      InstanceTable table(Width::kNormal, look);
      for (const api::Instance& member : members_.at(server)) {
        table.Add(session_.name(server), member);
      }
      out += "Members:\n" + table.Text();
    }
    return out;
  }

  Session& session_;
  GroupShow command_;
  Teller tell_;
  Explained answers_;
  std::map<std::size_t, Members> members_;
  std::unique_ptr<Running> running_;
};

}  // namespace

RunPtr MakeRun(Session& session, const GroupList& command, Done done) {
  using Run = OneCallRun<api::Empty, api::ListGroupsResponse>;
  const Width width = command.wide ? Width::kWide : Width::kNormal;
  const auto print = [width](Session& of, const ShardAnswers<api::ListGroupsResponse>& answers) {
    return PrintGroups(of, width, answers);
  };
  return std::make_unique<Run>(
      session, Run::Parts{.method = api::kListGroups, .request = {}, .print = print},
      std::move(done));
}

RunPtr MakeRun(Session& session, const GroupShow& command, Done done) {
  return std::make_unique<GroupShowRun>(session, command, std::move(done));
}

}  // namespace nstance::admin
