// `group create`, `group scale` and `group delete`.
//
// Step        | Next
// ------------+---------------------------------------------------------------------------------
// look up     | the groups of each shard: what exists already, what does not
// preview     | --dry-run: Plan, and the end
// ask         | delete on a terminal: yes or the end
// change      | UpsertGroup or DeleteGroup
// wait        | --wait: until the group is as it should be
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "admin/shard/api_json.h"
#include "admin/shard/instance_pages.h"
#include "admin/shard/question.h"
#include "admin/shard/run.h"
#include "admin/shard/views.h"
#include "admin/shard/wait.h"
#include "admin/shard/words.h"
#include "base/overloaded.h"

namespace nstance::admin {
namespace {

const api::GroupStatus* Find(const api::ListGroupsResponse& list, const std::string& group) {
  const auto found = std::ranges::find(list.groups, group, &api::GroupStatus::key);
  return found == list.groups.end() ? nullptr : &*found;
}

std::vector<std::string> KeysOf(const api::ListGroupsResponse& list) {
  std::vector<std::string> keys;
  keys.reserve(list.groups.size());
  for (const api::GroupStatus& status : list.groups) keys.push_back(status.key);
  return keys;
}

// --- Goals ---------------------------------------------------------------------------------------

// So long nothing has changed: from then on each look also asks what holds the group.
constexpr Duration kUnchanged = Duration::Seconds(10);

// What is remembered between the looks at a group.
struct Still {
  std::string text = {};
  Instant since = {};
};

// One look at a group that is to be there: its counts, and with `plan` that nothing is left to do,
// or what is in the way.
class SizeLook final : public Running {
 public:
  struct Subject {
    std::string group = {};
    Loop& loop;
    Still& still;
  };
  SizeLook(ShardCaller& caller, Instant deadline, Subject subject, WaitGoal::Looked looked)
      : caller_(caller),
        deadline_(deadline),
        subject_(std::move(subject)),
        looked_(std::move(looked)) {
    caller_.Call(api::kListGroups, {}, deadline_,
                 [this](const Result<api::ListGroupsResponse>& list) { OnGroups(list); });
  }

 private:
  void OnGroups(const Result<api::ListGroupsResponse>& list) {
    if (!list) return Tell(Fail(list.error()));
    const api::GroupStatus* status = Find(*list, subject_.group);
    if (status == nullptr) {
      return Tell(Progress{.state = Progress::State::kFailed, .why = "the group was deleted"});
    }
    progress_ = ProgressOf(*status);
    moving_ = status->creating > 0 || status->draining > 0;
    Still& still = subject_.still;
    if (still.text != progress_.text) {
      still = {.text = progress_.text, .since = subject_.loop.Now()};
    }
    const bool changes = subject_.loop.Now() - still.since < kUnchanged;
    if (progress_.state != Progress::State::kReached && changes) return Tell(progress_);
    caller_.Call(api::kPlan, {.group = subject_.group}, deadline_,
                 [this](const Result<api::PlanResponse>& plan) { OnPlan(plan); });
  }

  void OnPlan(const Result<api::PlanResponse>& plan) {
    if (progress_.state == Progress::State::kReached) {
      const bool offered = plan || plan.error().code != Code::kUnimplemented;
      if (!plan && offered) return Tell(Fail(plan.error()));
      if (plan && !plan->actions.empty()) {
        progress_.state = Progress::State::kGoing;
        progress_.text += fmt::format("  {} left", Count(plan->actions.size(), "action"));
      }
    } else if (plan) {
      LookAtHolds(*plan);
    }
    Tell(progress_);
  }

  // Nothing is under way or about to begin, and only an administrator can change that: no need to
  // wait for the end of the time.
  void LookAtHolds(const api::PlanResponse& plan) {
    const auto hold = std::ranges::find_if(plan.holds, NeedsAdministrator);
    if (hold != plan.holds.end() && !moving_ && plan.actions.empty()) {
      progress_.state = Progress::State::kStuck;
      progress_.why = fmt::format("held: {}; this needs an administrator",
                                  HoldText(*hold, subject_.loop.WallNow()));
    } else {
      progress_.text += HeldCodes(plan.holds);
    }
  }

  void Tell(Result<Progress> progress) {
    auto looked = std::move(looked_);
    looked(std::move(progress));
  }

  ShardCaller& caller_;
  Instant deadline_;
  Subject subject_;
  WaitGoal::Looked looked_;
  Progress progress_;
  bool moving_ = false;  // Something is on its way in or out.
};

// How many instances a deleted group still has.
Result<Progress> LeftOf(const Result<std::vector<api::Instance>>& instances) {
  if (!instances && instances.error().code != Code::kNotFound) return Fail(instances.error());
  std::size_t left = 0;
  if (instances) {
    left = static_cast<std::size_t>(std::ranges::count_if(
        *instances, [](const api::Instance& instance) { return !instance.on_demand; }));
  }
  Progress progress{.text = Count(left, "instance") + " left"};
  if (left == 0) progress.state = Progress::State::kReached;
  return progress;
}

WaitGoal GoalOf(const Session& session, std::size_t server, const std::string& group) {
  return {.server = server,
          .title = fmt::format("{}@{}", group, session.name(server)),
          .events = {.group = group},
          .look = {},
          .holds = [group](ShardCaller& caller, Instant deadline, WaitGoal::Held held) {
            AskHolds(caller, deadline, group, std::move(held));
          }};
}

WaitGoal SizeGoal(Session& session, std::size_t server, const std::string& group) {
  WaitGoal goal = GoalOf(session, server, group);
  goal.look = [group, &loop = session.loop(), still = std::make_shared<Still>()](
                  ShardCaller& caller, Instant deadline, WaitGoal::Looked looked) {
    return std::make_shared<SizeLook>(
        caller, deadline, SizeLook::Subject{.group = group, .loop = loop, .still = *still},
        std::move(looked));
  };
  return goal;
}

WaitGoal GoneGoal(const Session& session, std::size_t server, const std::string& group) {
  WaitGoal goal = GoalOf(session, server, group);
  goal.look = [group](ShardCaller& caller, Instant deadline, WaitGoal::Looked looked) {
    return std::make_shared<InstancePages>(
        caller, deadline, api::ListInstancesRequest{.group = group},
        [looked = std::move(looked)](const Result<std::vector<api::Instance>>& instances) mutable {
          looked(LeftOf(instances));
        });
  };
  return goal;
}

// --- The run -------------------------------------------------------------------------------------

class GroupChangeRun final : public ShardRun {
 public:
  GroupChangeRun(Session& session, GroupChange command, Done done)
      : session_(session),
        command_(std::move(command)),
        group_(command_.group.text()),
        tell_(std::move(done)) {}

  void Start() override {
    running_ =
        AskAll(session_, api::kListGroups, {},
               [this](const ShardAnswers<api::ListGroupsResponse>& answers) { OnGroups(answers); });
  }
  [[nodiscard]] std::string StopNote() const override { return waiting_ ? kChangeGoesOn : ""; }

 private:
  [[nodiscard]] bool IsDelete() const { return std::holds_alternative<GroupDelete>(command_.what); }

  void OnGroups(const ShardAnswers<api::ListGroupsResponse>& answers) {
    for (const auto& [server, answer] : answers) {
      if (!answer) {
        failed_.emplace(server, answer.error());
        continue;
      }
      const api::GroupStatus* status = Find(*answer, group_);
      if (Status fits = Fits(status, KeysOf(*answer)); !fits) {
        failed_.emplace(server, fits.error());
        continue;
      }
      if (status != nullptr && status->is_static) static_.push_back(server);
      chosen_.push_back(server);
    }
    if (chosen_.empty()) return Finish(Text({}));
    if (command_.dry_run) return Preview();
    const auto* remove = std::get_if<GroupDelete>(&command_.what);
    if (remove == nullptr || remove->yes) return Change();
    if (!session_.terminal().MayAsk()) return tell_(NobodyToAsk(session_));
    question_ = AskYesNo(session_,
                         fmt::format("Delete group {} and its instances in {}?", group_,
                                     Count(chosen_.size(), "shard")),
                         [this](bool yes) { yes ? Change() : tell_(NotConfirmed()); });
  }

  // Whether the command makes sense for what a shard has; null: no such group.
  [[nodiscard]] Status Fits(const api::GroupStatus* status,
                            const std::vector<std::string>& known) const {
    const auto* create = std::get_if<GroupCreate>(&command_.what);
    if (create == nullptr) {
      if (status == nullptr) return Fail(UnknownGroup(session_, group_, known));
      return {};
    }
    if (status != nullptr && !create->update) {
      return Fail(AlreadyExists(
          fmt::format("group {} exists, with size {}; --update changes it", group_, status->size)));
    }
    if (status == nullptr && create->template_name.empty()) {
      return Fail(InvalidArgument(
          fmt::format("group {} does not exist yet: a new one needs --template", group_)));
    }
    return {};
  }

  [[nodiscard]] api::UpsertGroupRequest UpsertOf(std::size_t server) const {
    api::UpsertGroupRequest request{
        .key = group_, .config = api::GroupConfig{}, .request_id = request_id_};
    if (const auto* scale = std::get_if<GroupScale>(&command_.what)) {
      request.config->size = scale->sizes.at(server);
    }
    if (const auto* create = std::get_if<GroupCreate>(&command_.what)) {
      request.size_unset = !create->size.has_value();
      request.config = api::GroupConfig{.template_name = create->template_name,
                                        .size = create->size.value_or(0),
                                        .instance_type = create->instance_type,
                                        .subnet_pool = create->subnet_pool,
                                        .vars = {create->vars.begin(), create->vars.end()},
                                        .args = {create->args.begin(), create->args.end()}};
    }
    return request;
  }

  // --- Preview ---

  void Preview() {
    const auto request_of = [this](std::size_t server) {
      api::PlanRequest request{.group = group_};
      if (IsDelete()) {
        request.remove = true;
      } else {
        request.what_if = UpsertOf(server);
      }
      return request;
    };
    running_ = AskSome(
        session_, chosen_, api::kPlan,
        {request_of, [this](const ShardAnswers<api::PlanResponse>& plans) { OnPlans(plans); }});
  }

  void OnPlans(const ShardAnswers<api::PlanResponse>& plans) {
    for (const auto& [server, plan] : plans) {
      if (!plan) failed_.emplace(server, plan.error());
    }
    std::erase_if(chosen_, [this](std::size_t server) { return failed_.contains(server); });
    if (session_.json()) return Finish(Document(PlansJson(plans)));
    std::string out;
    const Look look{.now = session_.now(), .paint = session_.paint()};
    for (const auto& [server, plan] : plans) {
      if (!plan) continue;
      if (session_.shards() > 1) out += session_.name(server) + ":\n";
      out += PlanText(*plan, look);
    }
    Finish(std::move(out));
  }

  [[nodiscard]] json::Value PlansJson(const ShardAnswers<api::PlanResponse>& plans) const {
    return ShardsJson(session_, plans, [](json::Value& object, const api::PlanResponse& plan) {
      object.Set("actions", ListToJson(plan.actions));
      object.Set("holds", ListToJson(plan.holds));
      SetTime(object, "replan_at", plan.replan_at);
    });
  }

  // --- Change ---

  void Change() {
    request_id_ = session_.NewRequestId();
    if (IsDelete()) {
      for (const std::size_t server : static_) {
        session_.Note(
            fmt::format("{}: group {} is part of the configuration and stays, as that "
                        "describes it",
                        session_.name(server), group_));
      }
      const auto request_of = [this](std::size_t) {
        return api::DeleteGroupRequest{.key = group_};
      };
      running_ = AskSome(
          session_, chosen_, api::kDeleteGroup,
          {request_of, [this](const ShardAnswers<api::Empty>& answers) { OnDeleted(answers); }});
      return;
    }
    running_ =
        AskSome(session_, chosen_, api::kUpsertGroup,
                {[this](std::size_t server) { return UpsertOf(server); },
                 [this](const ShardAnswers<api::GroupStatus>& answers) { OnUpserted(answers); }});
  }

  void OnUpserted(const ShardAnswers<api::GroupStatus>& answers) {
    std::vector<WaitGoal> goals;
    for (const auto& [server, answer] : answers) {
      if (!answer) {
        failed_.emplace(server, answer.error());
        continue;
      }
      changed_.emplace(server, *answer);
      goals.push_back(SizeGoal(session_, server, group_));
    }
    AfterChange(std::move(goals));
  }

  void OnDeleted(const ShardAnswers<api::Empty>& answers) {
    std::vector<WaitGoal> goals;
    for (const auto& [server, answer] : answers) {
      if (!answer) {
        failed_.emplace(server, answer.error());
        continue;
      }
      changed_.emplace(server, api::GroupStatus{.key = group_});
      const bool stays = std::ranges::find(static_, server) != static_.end();
      goals.push_back(stays ? SizeGoal(session_, server, group_)
                            : GoneGoal(session_, server, group_));
    }
    AfterChange(std::move(goals));
  }

  void AfterChange(std::vector<WaitGoal> goals) {
    std::erase_if(chosen_, [this](std::size_t server) { return failed_.contains(server); });
    if (!command_.wait || goals.empty()) return Finish(Text({}));
    waiting_ = true;
    running_ = std::make_unique<Waiter>(session_, std::move(goals), *command_.wait,
                                        [this](const WaitEnd& end) { OnWaited(end); });
  }

  void OnWaited(const WaitEnd& end) {
    Outcomes outcomes(session_);
    for (const auto& [server, error] : failed_) outcomes.Failed(server, error);
    tell_(EndOfWait(session_, std::move(outcomes), end, Text(end)));
  }

  // --- Printing ---

  // What became of the group; after a wait also how far it came.
  [[nodiscard]] std::string Text(const WaitEnd& end) const {
    std::map<std::size_t, const WaitEnd::Goal*> waited;
    for (const WaitEnd::Goal& goal : end.goals) waited.emplace(goal.server, &goal);
    if (session_.json()) return Json(waited);
    std::string out;
    for (const auto& [server, status] : changed_) {
      const std::string what = IsDelete()
                                   ? fmt::format("group {} deleted", group_)
                                   : fmt::format("group {} has size {}", group_, status.size);
      out += fmt::format("{}: {}", session_.name(server), what);
      const auto goal = waited.find(server);
      if (goal != waited.end() && goal->second->progress.state == Progress::State::kReached) {
        out += fmt::format("; {} after {}", goal->second->progress.text, Age(end.elapsed));
      }
      out += '\n';
    }
    return session_.common().quiet ? "" : out;
  }

  [[nodiscard]] std::string Json(const std::map<std::size_t, const WaitEnd::Goal*>& waited) const {
    json::Array results;
    for (const auto& [server, status] : changed_) {
      json::Value object = json::Value::Map({});
      SetText(object, "shard", session_.name(server));
      SetText(object, "group", group_);
      if (!IsDelete()) object.Set("status", ToJson(status));
      if (const auto goal = waited.find(server); goal != waited.end()) {
        const Progress& progress = goal->second->progress;
        object.Set("reached", json::Value::Bool(progress.state == Progress::State::kReached));
        object.Set("holds", ListToJson(goal->second->holds));
      }
      results.push_back(std::move(object));
    }
    json::Value document = json::Value::Map({});
    document.Set("results", json::Value::List(std::move(results)));
    return Document(document);
  }

  void Finish(std::string out) {
    Outcomes outcomes(session_);
    for (std::size_t i = 0; i < chosen_.size(); ++i) outcomes.Succeeded();
    for (const auto& [server, error] : failed_) outcomes.Failed(server, error);
    tell_(std::move(outcomes).End(std::move(out)));
  }

  Session& session_;
  GroupChange command_;
  std::string group_;
  Teller tell_;
  std::vector<std::size_t> chosen_;  // Shards that the command is about.
  std::vector<std::size_t> static_;  // Those whose configuration has the group.
  std::map<std::size_t, Error> failed_;
  std::map<std::size_t, api::GroupStatus> changed_;
  std::string request_id_;
  bool waiting_ = false;
  Pending question_;
  std::unique_ptr<Running> running_;
};

}  // namespace

RunPtr MakeRun(Session& session, const GroupChange& command, Done done) {
  return std::make_unique<GroupChangeRun>(session, command, std::move(done));
}

}  // namespace nstance::admin
