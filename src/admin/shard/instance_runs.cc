// `instance list` and `instance show`.
#include <utility>

#include <fmt/format.h>

#include "admin/shard/api_json.h"
#include "admin/shard/find_instance.h"
#include "admin/shard/instance_pages.h"
#include "admin/shard/run.h"
#include "admin/shard/views.h"

namespace nstance::admin {
namespace {

using Listed = ShardAnswers<std::vector<api::Instance>>;

class InstanceListRun final : public ShardRun {
 public:
  InstanceListRun(Session& session, InstanceList command, Done done)
      : session_(session), command_(std::move(command)), tell_(std::move(done)) {}

  void Start() override {
    running_ =
        ListAll(session_, AllShards(session_), {.group = command_.group, .phases = command_.phases},
                [this](const Listed& answers) { Finish(answers); });
  }

 private:
  void Finish(const Listed& answers) {
    Outcomes outcomes(session_);
    outcomes.Take(answers);
    tell_(std::move(outcomes).End(session_.json() ? Json(answers) : Text(answers)));
  }

  [[nodiscard]] std::string Json(const Listed& answers) const {
    return Document(ShardsJson(
        session_, answers, [](json::Value& object, const std::vector<api::Instance>& instances) {
          object.Set("instances", ListToJson(instances));
        }));
  }

  [[nodiscard]] std::string Text(const Listed& answers) const {
    InstanceTable table(command_.wide ? Width::kWide : Width::kNormal,
                        {.now = session_.now(), .paint = session_.paint()});
    bool any = false;
    for (const auto& [server, answer] : answers) {
      if (!answer) continue;
      any = true;
      for (const api::Instance& instance : *answer) table.Add(session_.name(server), instance);
    }
    return any ? table.Text() : "";
  }

  Session& session_;
  InstanceList command_;
  Teller tell_;
  std::unique_ptr<Running> running_;
};

// GetInstanceStatus in all shards, then Explain where it is.
class InstanceShowRun final : public ShardRun {
 public:
  InstanceShowRun(Session& session, InstanceShow command, Done done)
      : session_(session), command_(std::move(command)), tell_(std::move(done)) {}

  void Start() override {
    running_ = AskAll(
        session_, api::kGetInstanceStatus, {.instance_id = command_.id},
        [this](const ShardAnswers<api::InstanceStatusResponse>& answers) { OnStatus(answers); });
  }

 private:
  void OnStatus(const ShardAnswers<api::InstanceStatusResponse>& answers) {
    auto found = PickFound(session_, command_.id, answers);
    if (!found) return tell_(NotThere(session_, found.error()));
    found_ = *std::move(found);
    api::ExplainRequest request{.subject = api::ExplainRequest::InstanceId{.text = command_.id}};
    running_ = AskSome(session_, {found_.server}, api::kExplain,
                       {[request](std::size_t) { return request; },
                        [this](const ShardAnswers<api::ExplainResponse>& explained) {
                          OnExplained(explained.front().answer);
                        }});
  }

  // A server that explains nothing still tells of the instance.
  void OnExplained(const Result<api::ExplainResponse>& explained) {
    const bool offered = explained || explained.error().code != Code::kUnimplemented;
    if (!explained && offered) {
      Outcomes outcomes(session_);
      outcomes.Failed(found_.server, explained.error());
      return tell_(std::move(outcomes).End(""));
    }
    const api::ExplainResponse about = explained.value_or(api::ExplainResponse{});
    tell_({.out = session_.json() ? Json(about) : Text(about)});
  }

  [[nodiscard]] api::Instance Instance() const {
    if (found_.status.instance) return *found_.status.instance;
    return {.instance_id = found_.status.instance_id,
            .tenant = found_.status.tenant,
            .status = found_.status.status,
            .provider_instance_id = found_.status.provider_instance_id,
            .created_at = found_.status.created_at,
            .last_seen = found_.status.last_seen};
  }

  [[nodiscard]] std::string Json(const api::ExplainResponse& about) const {
    json::Value document = json::Value::Map({});
    SetText(document, "shard", session_.name(found_.server));
    document.Set("instance", ToJson(Instance()));
    document.Set("holds", ListToJson(about.holds));
    document.Set("history", ListToJson(about.history));
    return Document(document);
  }

  [[nodiscard]] std::string Text(const api::ExplainResponse& about) const {
    const Look look{.now = session_.now(), .paint = session_.paint()};
    return Toned(fmt::format("{} in {}", command_.id, session_.name(found_.server)), Tone::kStrong,
                 look.paint) +
           "\n" + FactsText(FactsOf(Instance(), look.now)) + HoldsText(about.holds, look) +
           HistoryText(about.history, look);
  }

  Session& session_;
  InstanceShow command_;
  Teller tell_;
  FoundInstance found_;
  std::unique_ptr<Running> running_;
};

}  // namespace

RunPtr MakeRun(Session& session, const InstanceList& command, Done done) {
  return std::make_unique<InstanceListRun>(session, command, std::move(done));
}

RunPtr MakeRun(Session& session, const InstanceShow& command, Done done) {
  return std::make_unique<InstanceShowRun>(session, command, std::move(done));
}

}  // namespace nstance::admin
