// Plan and Explain: the planner of the engine asked by operators. What is answered is what happens,
// asking changes nothing, and every phase has its sentence.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/services/services_world.h"

namespace nstance::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// Everything that could be seen to change.
struct Truth {
  std::map<std::string, std::string> objects;
  std::map<sim::SimBucket::Counter, std::uint64_t> store_requests;
  std::vector<std::string> machines;
  std::vector<std::uint64_t> provider_requests;
  Result<api::ListGroupsResponse> groups;
  Result<api::ListInstancesResponse> instances;
  std::vector<api::Event> history;
  friend bool operator==(const Truth&, const Truth&) = default;
};

class OperatorPlanTest : public testing::Test {
 public:
  Result<api::PlanResponse> Plan(api::PlanRequest request) {
    return world.Call(ops, api::kPlan, std::move(request));
  }
  Result<api::ExplainResponse> WhyInstance(const std::string& id) {
    return world.Call(ops, api::kExplain, {.subject = api::ExplainRequest::InstanceId{.text = id}});
  }
  Result<api::ExplainResponse> WhyGroup(const std::string& key) {
    return world.Call(ops, api::kExplain, {.subject = api::ExplainRequest::Group{.key = key}});
  }
  std::string Summary(const std::string& id) {
    const auto answer = WhyInstance(id);
    return answer.has_value() ? answer->summary : answer.error().ToString();
  }
  static api::UpsertGroupRequest Group(std::string key, int size) {
    return {.key = std::move(key), .config = api::GroupConfig{.template_name = "t", .size = size}};
  }
  void Upsert(api::UpsertGroupRequest request) {
    const auto answer = world.Call(ops, api::kUpsertGroup, std::move(request));
    ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  }
  // "create", "drain scale-down": kinds and reasons, in the order of the plan.
  static std::vector<std::string> Short(const Result<api::PlanResponse>& plan) {
    if (!plan.has_value()) return {plan.error().ToString()};
    std::vector<std::string> out;
    out.reserve(plan->actions.size());
    for (const api::Action& action : plan->actions) {
      out.push_back(action.kind + " " + action.reason);
    }
    return out;
  }
  std::vector<api::Instance> Instances(const std::string& group) {
    return world.Call(ops, api::kListInstances, {.group = group})->instances;
  }
  // The one instance of the group; empty: not one.
  std::string Only(const std::string& group) {
    const std::vector<api::Instance> all = Instances(group);
    return all.size() == 1 ? all.front().instance_id : std::string();
  }
  Truth Look() {
    Truth truth = {.objects = world.Objects(),
                   .store_requests = {},
                   .machines = {},
                   .provider_requests = {},
                   .groups = world.Call(ops, api::kListGroups, {}),
                   .instances = world.Call(ops, api::kListInstances, {}),
                   .history = {}};
    // Configuration and deny list are read now and then by themselves.
    for (const auto& [what, count] : world.bucket.counts()) {
      const std::string& of = std::get<1>(what);
      if (of == "instance" || of == "journal" || of == "groups") truth.store_requests[what] = count;
    }
    for (const sim::SimVm* vm : world.cloud.Vms()) truth.machines.push_back(vm->provider_id);
    for (const auto method :
         {sim::SimProviderMethod::kCreate, sim::SimProviderMethod::kDelete,
          sim::SimProviderMethod::kGet, sim::SimProviderMethod::kSubnetCapacity}) {
      truth.provider_requests.push_back(world.cloud.Count(method));
    }
    if (const auto why = WhyGroup("workers"); why.has_value()) truth.history = why->history;
    return truth;
  }

  ServicesWorld world;
  RpcTls ops = world.Operator(kProd);
};

// --- Plan ----------------------------------------------------------------------------------------

TEST_F(OperatorPlanTest, AGroupThatIsAsItShouldBeHasNothingToDo) {
  const auto plan = Plan({.group = "workers"});
  ASSERT_TRUE(plan.has_value()) << plan.error().ToString();
  EXPECT_THAT(plan->actions, IsEmpty());
  EXPECT_THAT(plan->holds, IsEmpty());
}

TEST_F(OperatorPlanTest, AWhatIfSaysWhatAnUpsertWouldDoAndChangesNothing) {
  world.For(Duration::Seconds(5));
  const Truth before = Look();
  const auto plan = Plan({.group = "workers", .what_if = Group("workers", 3)});
  ASSERT_TRUE(plan.has_value()) << plan.error().ToString();
  ASSERT_THAT(plan->actions, SizeIs(3));
  EXPECT_EQ(plan->actions[0], (api::Action{.kind = "create",
                                           .group = "workers",
                                           .instance_id = {},
                                           .reason = "scale-up",
                                           .priority = 5,
                                           .detail = "create an instance: the group has fewer "
                                                     "instances than its size"}));
  EXPECT_EQ(Look(), before);
  world.For(Duration::Minutes(1));
  EXPECT_THAT(Instances("workers"), IsEmpty());
}

TEST_F(OperatorPlanTest, AGroupThatDoesNotExistYetCanBeAskedAbout) {
  world.For(Duration::Seconds(5));
  const Truth before = Look();
  EXPECT_THAT(Short(Plan({.what_if = Group("new", 2)})),
              ElementsAre("create scale-up", "create scale-up"));
  EXPECT_EQ(Look(), before);
  EXPECT_EQ(Plan({.group = "new"}).error().code, Code::kNotFound);
}

// Over sizes: what was shown is what is done, and nothing else. Machines never register here, so
// what leaves leaves without a drain.
TEST_F(OperatorPlanTest, TheUpsertDoesWhatItsPreviewHasShown) {
  Prng prng(11);
  std::set<std::string> known;
  for (int round = 0; round < 25; ++round) {
    const api::UpsertGroupRequest change = Group("workers", static_cast<int>(prng.Below(9)));
    const auto plan = Plan({.what_if = change});
    ASSERT_TRUE(plan.has_value()) << plan.error().ToString();
    std::size_t creations = 0;
    std::map<std::string, std::string> leaving;  // By id, why; "": it does not.
    for (const api::Instance& instance : Instances("workers")) {
      leaving[instance.instance_id] = instance.reason;  // From rounds before.
    }
    for (const api::Action& action : plan->actions) {
      if (action.kind == "create") ++creations;
      if (action.kind == "delete") {
        EXPECT_EQ(action.reason, "scale-down") << round;
        leaving[action.instance_id] = action.reason;
      }
      EXPECT_EQ(action.priority, action.kind == "create" ? 5 : 1);
    }
    Upsert(change);
    world.Settle();
    std::set<std::string> fresh;
    for (const api::Instance& instance : Instances("workers")) {
      if (known.insert(instance.instance_id).second) fresh.insert(instance.instance_id);
      EXPECT_EQ(instance.reason, leaving[instance.instance_id]) << round;
    }
    EXPECT_EQ(fresh.size(), creations) << round;
    world.For(Duration::Seconds(static_cast<std::int64_t>(30 + prng.Below(30))));
  }
}

TEST_F(OperatorPlanTest, ADeletionIsPreviewedAndThenDoneSo) {
  Upsert(Group("extra", 3));
  world.For(Duration::Minutes(1));
  const std::vector<api::Instance> members = Instances("extra");
  ASSERT_THAT(members, SizeIs(3));
  const auto plan = Plan({.group = "extra", .remove = true});
  EXPECT_THAT(Short(plan),
              ElementsAre("delete group-deleted", "delete group-deleted", "delete group-deleted"));
  world.For(Duration::Seconds(30));
  EXPECT_THAT(Instances("extra"), SizeIs(3));
  ASSERT_TRUE(world.Call(ops, api::kDeleteGroup, {.key = "extra"}).has_value());
  world.Settle();
  for (const api::Instance& member : members) {
    EXPECT_EQ(world.Record(kProd, *ParsePuidv7(member.instance_id)).deletion->reason,
              "group-deleted");
  }
  // A static group would only lose its dynamic layer.
  EXPECT_THAT(Short(Plan({.group = "workers", .remove = true})), IsEmpty());
}

TEST_F(OperatorPlanTest, WithoutAGroupAllOfTheTenantAreShown) {
  world.cloud.limits().vms = 0;
  Upsert(Group("workers", 1));
  Upsert(Group("extra", 1));
  world.For(Duration::Seconds(8));
  const auto plan = Plan({});
  ASSERT_TRUE(plan.has_value()) << plan.error().ToString();
  std::set<std::string> groups;
  for (const api::Hold& hold : plan->holds) {
    groups.insert(hold.group);
    EXPECT_EQ(hold.code, "create-backoff");
    EXPECT_THAT(hold.detail, HasSubstr("creations wait after a failure (quota: "));
  }
  EXPECT_THAT(groups, ElementsAre("extra", "workers"));
  EXPECT_TRUE(plan->replan_at.has_value());
  EXPECT_THAT(world.Call(world.Operator(kDev), api::kPlan, {})->holds, IsEmpty())
      << "of another tenant";
}

TEST_F(OperatorPlanTest, BadRequestsAreRefusedByTheirRuleAndChangeNothing) {
  world.For(Duration::Seconds(5));
  const Truth before = Look();
  auto vars = Group("new", 1);
  vars.config->vars = {{"", "no name"}};
  auto request_id = Group("new", 1);
  request_id.request_id = "draw:mine";
  auto replace = Group("new", 1);
  replace.replace = {"size"};
  struct Row {
    std::string what;
    api::PlanRequest request;
    Code code;
    std::string text;
  };
  const std::vector<Row> rows = {
      {"unknown", {.group = "nowhere"}, Code::kNotFound, "there is no group \"nowhere\""},
      {"foreign", {.group = "only-dev"}, Code::kNotFound, "there is no group \"only-dev\""},
      {"unknown to remove", {.group = "nowhere", .remove = true}, Code::kNotFound, "no group"},
      {"no name", {.group = "No Name"}, Code::kInvalidArgument, "group: "},
      {"nothing to remove", {.remove = true}, Code::kInvalidArgument, "group: is required"},
      {"both",
       {.group = "workers", .what_if = Group("workers", 1), .remove = true},
       Code::kInvalidArgument,
       "only one of them"},
      {"two keys",
       {.group = "workers", .what_if = Group("other", 1)},
       Code::kInvalidArgument,
       "group: must be empty or equal to what_if.key"},
      {"no key", {.what_if = Group("", 1)}, Code::kInvalidArgument, "key: "},
      {"no config",
       {.what_if = api::UpsertGroupRequest{.key = "new"}},
       Code::kInvalidArgument,
       "config: is required"},
      {"size", {.what_if = Group("new", -1)}, Code::kInvalidArgument, "size"},
      {"vars", {.what_if = vars}, Code::kInvalidArgument, "config.vars"},
      {"request id", {.what_if = request_id}, Code::kInvalidArgument, "request_id"},
      {"replace", {.what_if = replace}, Code::kInvalidArgument, "replace"},
      {"template",
       {.what_if = api::UpsertGroupRequest{.key = "new",
                                           .config = api::GroupConfig{.template_name = "nope"}}},
       Code::kInvalidArgument,
       "nope"},
      {"static",
       {.what_if = api::UpsertGroupRequest{.key = "workers",
                                           .config = api::GroupConfig{.template_name = "other"}}},
       Code::kFailedPrecondition,
       "template"},
  };
  for (const Row& row : rows) {
    const auto answer = Plan(row.request);
    ASSERT_FALSE(answer.has_value()) << row.what;
    EXPECT_EQ(answer.error().code, row.code) << row.what << ": " << answer.error().ToString();
    EXPECT_THAT(answer.error().message, HasSubstr(row.text)) << row.what;
    // The refusal of a what-if is the refusal of the call itself.
    if (!row.request.what_if || row.what == "both" || row.what == "two keys") continue;
    const auto real = world.Call(ops, api::kUpsertGroup, *row.request.what_if);
    ASSERT_FALSE(real.has_value()) << row.what;
    EXPECT_EQ(real.error().ToString(), answer.error().ToString()) << row.what;
  }
  EXPECT_EQ(Look(), before);
  EXPECT_GE(world.Metric("bad_input_total", "plan"), 10);
}

TEST_F(OperatorPlanTest, AKnownRequestIdIsJudgedAsTheCallWouldJudgeIt) {
  auto first = Group("extra", 1);
  first.request_id = "r1";
  Upsert(first);
  auto other = Group("extra", 5);
  other.request_id = "r1";
  EXPECT_EQ(Plan({.what_if = other}).error().code, Code::kAlreadyExists);
  EXPECT_TRUE(Plan({.what_if = first}).has_value());
}

// --- Explain: phases -----------------------------------------------------------------------------

TEST_F(OperatorPlanTest, AnIntendedInstanceIsExplained) {
  world.store.on_put = [](const ObjectKey& key) {
    return key.text().starts_with("journal/") ? HookedStore::Fate::kNotDone
                                              : HookedStore::Fate::kNormal;
  };
  Upsert(Group("workers", 1));
  world.Settle();
  const auto why = WhyInstance(Only("workers"));
  ASSERT_TRUE(why.has_value()) << why.error().ToString();
  EXPECT_EQ(why->instance->phase, api::InstancePhase::kIntended);
  EXPECT_THAT(why->summary, AllOf(StartsWith("Decided on "),
                                  HasSubstr("the group has fewer instances than its size "
                                            "(scale-up); its creation begins when")));
  EXPECT_THAT(why->history, IsEmpty()) << "nothing is durable yet";
}

TEST_F(OperatorPlanTest, ACreatingInstanceIsExplained) {
  int puts = 0;
  world.store.on_put = [&](const ObjectKey& key) {
    const bool later = key.text().starts_with("instance/") && ++puts > 1;
    return later ? HookedStore::Fate::kNotDone : HookedStore::Fate::kNormal;
  };
  Upsert(Group("workers", 1));
  world.For(Duration::Seconds(30));
  const auto why = WhyInstance(Only("workers"));
  ASSERT_TRUE(why.has_value()) << why.error().ToString();
  EXPECT_EQ(why->instance->phase, api::InstancePhase::kCreating);
  EXPECT_THAT(why->summary, AllOf(StartsWith("Being created since "),
                                  HasSubstr("the provider has not answered yet.")));
  ASSERT_THAT(why->history, SizeIs(2));
  EXPECT_EQ(why->history[0].phase, api::InstancePhase::kIntended);
  EXPECT_EQ(why->history[0].reason, "scale-up");
  EXPECT_EQ(why->history[1].phase, api::InstancePhase::kCreating);
}

TEST_F(OperatorPlanTest, AProvisionedInstanceIsExplained) {
  const InstanceId id = world.NewInstance(kProd);
  world.Settle();
  EXPECT_THAT(Summary(id.text()),
              AllOf(StartsWith("Made by the provider "), HasSubstr("has not registered yet."),
                    HasSubstr(" If it does not within 29m"), EndsWith("the instance is deleted.")));
}

TEST_F(OperatorPlanTest, ARegisteredInstanceIsExplainedByItsHealth) {
  const JoinedAgent agent = world.JoinNew(kProd);
  EXPECT_THAT(Summary(agent.id.text()),
              AllOf(StartsWith("Registered since "), HasSubstr("its health is not known yet")));
  const ClientCallPtr stream = world.Open(agent.tls, api::kSubmitHealthReport.path);
  stream->call->Send(
      RpcMessage::Of(api::HealthReportRequest{.instance_id = agent.id.text(), .count = 1}));
  world.For(Duration::Seconds(5));
  EXPECT_THAT(Summary(agent.id.text()),
              AllOf(StartsWith("Running and healthy, registered since "),
                    testing::AnyOf(EndsWith("its last report came 4s ago."),
                                   EndsWith("its last report came 5s ago."))));
  stream->call->HalfClose();
  world.For(Duration::Seconds(5));
  EXPECT_THAT(Summary(agent.id.text()),
              AllOf(StartsWith("Registered, but its agent is disconnected: "),
                    HasSubstr("The provider is asked about it")));
}

TEST_F(OperatorPlanTest, ADrainingInstanceIsExplainedUntilItIsATombstone) {
  const JoinedAgent agent = world.JoinNew(kProd);
  ASSERT_TRUE(world.Call(ops, api::kDeleteInstance, {.instance_id = agent.id.text(), .drain = true})
                  .has_value());
  world.For(Duration::Seconds(12));
  const auto why = WhyInstance(agent.id.text());
  ASSERT_TRUE(why.has_value()) << why.error().ToString();
  EXPECT_THAT(why->summary, StartsWith("Draining since 1"));
  EXPECT_THAT(why->summary, HasSubstr("because it was asked for (requested); it will be deleted in "
                                      "4m4"));
  EXPECT_THAT(why->summary, EndsWith(" or when the operator acknowledges."));
  ASSERT_THAT(why->holds, SizeIs(1));
  EXPECT_EQ(why->holds[0].code, "waiting-drain");
  EXPECT_EQ(why->holds[0].instance_id, agent.id.text());
  EXPECT_EQ(why->holds[0].until, world.Record(kProd, agent.id).drain->delete_at);
  EXPECT_EQ(why->instance->instance_id, agent.id.text());
  EXPECT_FALSE(why->status.has_value());
  world.cloud.lives().delete_min = world.cloud.lives().delete_max = Duration::Seconds(20);
  ASSERT_TRUE(world.Call(ops, api::kAcknowledgeDrained, {.instance_id = agent.id.text()}));
  world.For(Duration::Seconds(3));
  EXPECT_THAT(Summary(agent.id.text()),
              AllOf(StartsWith("Being deleted since "), HasSubstr("because it was asked for"),
                    EndsWith("it is gone when the provider confirms.")));
  world.For(Duration::Minutes(3));
  const auto tombstone = WhyInstance(agent.id.text());
  ASSERT_TRUE(tombstone.has_value()) << "a tombstone can still be explained";
  EXPECT_THAT(tombstone->summary, AllOf(StartsWith("Deleted 2m"), HasSubstr("(requested).")));
  std::vector<api::InstancePhase> phases;
  for (const api::Event& event : tombstone->history) {
    if (event.type == "phase") phases.push_back(event.phase);
  }
  EXPECT_THAT(phases, ElementsAre(api::InstancePhase::kIntended, api::InstancePhase::kCreating,
                                  api::InstancePhase::kProvisioned, api::InstancePhase::kRegistered,
                                  api::InstancePhase::kDraining, api::InstancePhase::kDeleting,
                                  api::InstancePhase::kGone));
}

TEST_F(OperatorPlanTest, AFailedInstanceAndItsGroupAreExplained) {
  world.cloud.limits().vms = 0;
  Upsert(Group("workers", 1));
  world.For(Duration::Seconds(3));
  const std::string id = Only("workers");
  const auto why = WhyInstance(id);
  ASSERT_TRUE(why.has_value()) << why.error().ToString();
  EXPECT_EQ(why->instance->phase, api::InstancePhase::kFailed);
  EXPECT_THAT(why->summary, AllOf(StartsWith("Could not be created, "),
                                  EndsWith("Another one is made under a new id.")));
  const auto group = WhyGroup("workers");
  ASSERT_TRUE(group.has_value()) << group.error().ToString();
  EXPECT_THAT(group->summary,
              AllOf(StartsWith("0 of 1 instance is ready"),
                    HasSubstr("Held (create-backoff): creations wait after a failure (quota: "),
                    HasSubstr("; it goes on in "),
                    EndsWith("Mend what the error names; the next try comes by itself.")));
  EXPECT_EQ(group->status->key, "workers");
  EXPECT_FALSE(group->instance.has_value());
  ASSERT_THAT(group->holds, SizeIs(1));
  EXPECT_TRUE(group->holds[0].until.has_value());
  EXPECT_EQ(group->replan_at, group->holds[0].until);
  std::set<std::string> types;
  for (const api::Event& event : group->history) types.insert(event.type);
  EXPECT_THAT(types, Contains("group"));
  EXPECT_THAT(types, Contains("hold"));
  EXPECT_THAT(types, Contains("phase"));
}

// --- Explain: groups, refusals -------------------------------------------------------------------

TEST_F(OperatorPlanTest, AGroupIsExplainedAtEveryStageOfItsLife) {
  EXPECT_EQ(WhyGroup("workers")->summary, "The group has size 0. Nothing to do.");
  Upsert(Group("extra", 2));
  world.For(Duration::Minutes(1));
  EXPECT_EQ(WhyGroup("extra")->summary,
            "0 of 2 instances are ready; 2 being created. Nothing else is to be done.");
  world.cloud.lives().delete_min = world.cloud.lives().delete_max = Duration::Minutes(2);
  ASSERT_TRUE(world.Call(ops, api::kDeleteGroup, {.key = "extra"}).has_value());
  const auto leaving =
      world.Call(ops, api::kExplain, {.subject = api::ExplainRequest::Group{.key = "extra"}});
  ASSERT_TRUE(leaving.has_value()) << leaving.error().ToString();
  EXPECT_THAT(leaving->summary, StartsWith("The group is deleted; "));
  EXPECT_EQ(leaving->status->key, "extra");
  world.For(Duration::Minutes(10));
  EXPECT_EQ(WhyGroup("extra").error().code, Code::kNotFound);
}

TEST_F(OperatorPlanTest, WhatCannotBeExplainedIsRefusedByItsRule) {
  const auto code = [](const auto& answer) -> std::optional<Code> {
    if (answer.has_value()) return std::nullopt;
    return answer.error().code;
  };
  EXPECT_EQ(code(world.Call(ops, api::kExplain, {})), Code::kInvalidArgument);
  EXPECT_EQ(code(WhyInstance("")), Code::kInvalidArgument);
  EXPECT_EQ(code(WhyInstance("i-123")), Code::kInvalidArgument);
  EXPECT_EQ(code(WhyGroup("")), Code::kInvalidArgument);
  EXPECT_EQ(code(WhyGroup("No Name")), Code::kInvalidArgument);
  EXPECT_EQ(code(WhyGroup("only-dev")), Code::kNotFound) << "of another tenant";
  EXPECT_EQ(code(WhyInstance("wrk06bgm7733st2576nx5jht4ecjw")), Code::kNotFound);
  const InstanceId foreign = world.NewInstance(kDev);
  const auto answer = WhyInstance(foreign.text());
  EXPECT_EQ(code(answer), Code::kNotFound);
  EXPECT_EQ(answer.error().message, WhyInstance("wrk06bgm7733st2576nx5jht4ecjw").error().message);
}

TEST_F(OperatorPlanTest, AskingWhyChangesNothing) {
  const JoinedAgent agent = world.JoinNew(kProd);
  world.For(Duration::Seconds(5));
  const Truth before = Look();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(WhyInstance(agent.id.text()).has_value());
    ASSERT_TRUE(WhyGroup("workers").has_value());
    ASSERT_TRUE(Plan({}).has_value());
  }
  EXPECT_EQ(Look(), before);
}

}  // namespace
}  // namespace nstance::test
