// `plan` and `why`.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "admin/printable.h"
#include "admin/shard/api_json.h"
#include "admin/shard/find_instance.h"
#include "admin/shard/run.h"
#include "admin/shard/views.h"
#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

Ending PrintPlans(Session& session, const ShardAnswers<api::PlanResponse>& answers) {
  Outcomes outcomes(session);
  outcomes.Take(answers);
  if (session.json()) {
    return std::move(outcomes).End(Document(
        ShardsJson(session, answers, [](json::Value& object, const api::PlanResponse& plan) {
          object.Set("actions", ListToJson(plan.actions));
          object.Set("holds", ListToJson(plan.holds));
          SetTime(object, "replan_at", plan.replan_at);
        })));
  }
  const Look look{.now = session.now(), .paint = session.paint()};
  std::string out;
  for (const auto& [server, answer] : answers) {
    if (!answer) continue;
    if (answers.size() > 1) out += (out.empty() ? "" : "\n") + session.name(server) + ":\n";
    out += PlanText(*answer, look);
  }
  return std::move(outcomes).End(std::move(out));
}

// --- why -----------------------------------------------------------------------------------------

using Explained = ShardAnswers<api::ExplainResponse>;

void Fill(json::Value& object, const api::ExplainResponse& about) {
  SetText(object, "summary", about.summary);
  if (about.instance) object.Set("instance", ToJson(*about.instance));
  if (about.status) object.Set("status", ToJson(*about.status));
  object.Set("actions", ListToJson(about.actions));
  object.Set("holds", ListToJson(about.holds));
  SetTime(object, "replan_at", about.replan_at);
  object.Set("history", ListToJson(about.history));
}

std::string WhyText(const api::ExplainResponse& about, const Look& look) {
  std::string out = Printable(about.summary) + "\n";
  if (about.instance) out += FactsText(FactsOf(*about.instance, look.now));
  if (about.status) out += FactsText(FactsOf(*about.status));
  out += HoldsText(about.holds, look);
  if (!about.actions.empty()) out += "Next:\n" + ActionsText(about.actions, look);
  return out + HistoryText(about.history, look);
}

// Of a subject that one shard has and others do not, those others are no failure.
Ending PrintWhy(Session& session, const Why& command, Explained answers) {
  const auto unknown = [](const auto& answer) {
    return !answer.answer && answer.answer.error().code == Code::kNotFound;
  };
  const bool anywhere =
      std::ranges::any_of(answers, [](const auto& answer) { return answer.answer.has_value(); });
  if (anywhere) {
    std::erase_if(answers, unknown);
  } else if (std::ranges::all_of(answers, unknown)) {
    return NotThere(
        session, NotFound(fmt::format("tenant {} has no {} {}; `nstance-admin {} list` shows those "
                                      "there are",
                                      session.identity().tenant.text(),
                                      command.is_instance ? "instance" : "group", command.subject,
                                      command.is_instance ? "instance" : "group")));
  }
  Outcomes outcomes(session);
  outcomes.Take(answers);
  if (session.json()) return std::move(outcomes).End(Document(ShardsJson(session, answers, Fill)));
  const Look look{.now = session.now(), .paint = session.paint()};
  std::string out;
  for (const auto& [server, answer] : answers) {
    if (!answer) continue;
    if (answers.size() > 1) out += (out.empty() ? "" : "\n") + session.name(server) + ":\n";
    out += WhyText(*answer, look);
  }
  return std::move(outcomes).End(std::move(out));
}

}  // namespace

RunPtr MakeRun(Session& session, const ShowPlan& command, Done done) {
  using Run = OneCallRun<api::PlanRequest, api::PlanResponse>;
  api::PlanRequest request{.group = command.group};
  if (command.size || !command.vars.empty()) {
    request.what_if = api::UpsertGroupRequest{
        .key = command.group,
        .config = api::GroupConfig{.size = command.size.value_or(0),
                                   .vars = {command.vars.begin(), command.vars.end()}},
        .size_unset = !command.size.has_value()};
  }
  return std::make_unique<Run>(
      session, Run::Parts{.method = api::kPlan, .request = request, .print = PrintPlans},
      std::move(done));
}

RunPtr MakeRun(Session& session, const Why& command, Done done) {
  using Run = OneCallRun<api::ExplainRequest, api::ExplainResponse>;
  api::ExplainRequest request;
  if (command.is_instance) {
    request.subject = api::ExplainRequest::InstanceId{.text = command.subject};
  } else {
    request.subject = api::ExplainRequest::Group{.key = command.subject};
  }
  const auto print = [command](Session& of, Explained answers) {
    return PrintWhy(of, command, std::move(answers));
  };
  return std::make_unique<Run>(
      session, Run::Parts{.method = api::kExplain, .request = request, .print = print},
      std::move(done));
}

}  // namespace nstance::admin
