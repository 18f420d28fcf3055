// What operators ask for: groups, instances, drains, configuration. Each refusal names its rule and
// changes nothing; each order is idempotent as wire.md 5.1 promises.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/services/services_world.h"

namespace nstance::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr std::string_view kId = "wrk06bgm7733st2576nx5jht4ecjw";

class OperatorServiceTest : public testing::Test {
 public:
  Result<api::GroupStatus> Upsert(api::UpsertGroupRequest request) {
    return world.Call(ops, api::kUpsertGroup, std::move(request));
  }
  Result<api::CreateInstanceResponse> Create(api::CreateInstanceRequest request) {
    return world.Call(ops, api::kCreateInstance, std::move(request));
  }
  Result<api::DeleteInstanceResponse> Delete(api::DeleteInstanceRequest request) {
    return world.Call(ops, api::kDeleteInstance, std::move(request));
  }
  Status Ack(const InstanceId& id, const std::string& drain = "") {
    const auto answer =
        world.Call(ops, api::kAcknowledgeDrained, {.instance_id = id.text(), .drain_id = drain});
    if (!answer.has_value()) return Fail(answer.error());
    return {};
  }
  static api::UpsertGroupRequest Group(std::string key, int size = 0) {
    return {.key = std::move(key), .config = api::GroupConfig{.template_name = "t", .size = size}};
  }
  static api::CreateInstanceRequest Instance(std::string id = "", std::string request_id = "") {
    return {.instance_id = std::move(id),
            .config = api::InstanceConfig{.group = "workers"},
            .request_id = std::move(request_id)};
  }
  template <class T>
  void ExpectRefused(const Result<T>& answer, Code code, const std::string& what) {
    ASSERT_FALSE(answer.has_value()) << what;
    EXPECT_EQ(answer.error().code, code) << what << ": " << answer.error().ToString();
    EXPECT_EQ(world.Objects(), before) << what;
    // To ask for what is not there is no bad input.
    if (code != Code::kNotFound) ++counted;
    EXPECT_EQ(world.Metric("bad_input_total"), counted) << what;
  }
  void Remember() {
    before = world.Objects();
    counted = world.Metric("bad_input_total");
  }

  ServicesWorld world;
  RpcTls ops = world.Operator(kProd);
  std::map<std::string, std::string> before = world.Objects();
  int counted = world.Metric("bad_input_total");
};

// --- Groups --------------------------------------------------------------------------------------

TEST_F(OperatorServiceTest, BI76_KeysOfGroupsThatAreNoNamesAreInvalid) {
  for (const std::string& key :
       {std::string(), std::string(33, 'a'), std::string("-a"), std::string("a--b"),
        std::string("A"), std::string("a.b"), std::string("a/b"), std::string("\U0001F600"),
        std::string("a\0b", 3)}) {
    ExpectRefused(Upsert(Group(key)), Code::kInvalidArgument, key);
    ExpectRefused(world.Call(ops, api::kDeleteGroup, {.key = key}), Code::kInvalidArgument, key);
    auto create = Instance();
    create.config->group = key;
    ExpectRefused(Create(create), Code::kInvalidArgument, key);
  }
  EXPECT_EQ(counted, 27);
}

TEST_F(OperatorServiceTest, BI77_SizesOutOfRangeAreInvalid) {
  for (const int size : {-1, 2'147'483'647, 1'000'000}) {
    ExpectRefused(Upsert(Group("new", size)), Code::kInvalidArgument, std::to_string(size));
    ExpectRefused(Upsert({.key = "workers", .config = api::GroupConfig{.size = size}}),
                  Code::kInvalidArgument, std::to_string(size));
  }
}

TEST_F(OperatorServiceTest, BI78_WhatTheFileFixesOfAStaticGroupStays) {
  const auto with = [](api::GroupConfig config) {
    return api::UpsertGroupRequest{.key = "workers", .config = std::move(config)};
  };
  ExpectRefused(Upsert(with({.template_name = "other"})), Code::kFailedPrecondition, "template");
  ExpectRefused(Upsert(with({.subnet_pool = "q"})), Code::kFailedPrecondition, "subnet_pool");
  ExpectRefused(Upsert(with({.args = {{"A", "b"}}})), Code::kFailedPrecondition, "args");
  ExpectRefused(Upsert(with({.draw_from = "only-prod"})), Code::kFailedPrecondition, "draw_from");
  const auto same = Upsert(with({.template_name = "t", .subnet_pool = "p"}));
  EXPECT_TRUE(same.has_value()) << same.error().ToString();
}

TEST_F(OperatorServiceTest, BI79_WhatIsNotDefinedIsInvalid) {
  ExpectRefused(Upsert({.key = "new", .config = api::GroupConfig{.template_name = "nope"}}),
                Code::kInvalidArgument, "template");
  ExpectRefused(
      Upsert({.key = "new",
              .config = api::GroupConfig{.template_name = "t", .subnet_pool = "elsewhere"}}),
      Code::kInvalidArgument, "pool");
  ExpectRefused(Upsert({.key = "new"}), Code::kInvalidArgument, "no config");
  ExpectRefused(Upsert({.key = "new", .config = api::GroupConfig{.size = 1}}),
                Code::kInvalidArgument, "no template");
  ExpectRefused(
      Upsert({.key = "new",
              .config = api::GroupConfig{.template_name = "other", .instance_type = "small"}}),
      Code::kInvalidArgument, "a type that the template does not allow");
  auto create = Instance();
  create.config->instance_type = std::string(300, 'x');
  ExpectRefused(Create(create), Code::kInvalidArgument, "type");
  EXPECT_LE(world.cloud.Count(sim::SimProviderMethod::kTypeArch), 1U)
      << "the provider is not asked about types that are refused anyway";
}

TEST_F(OperatorServiceTest, BI79_ATypeOfAnotherArchitectureIsInvalid) {
  world.cloud.limits().type_architectures = {{"small", config::Arch::kAmd64},
                                             {"arm", config::Arch::kArm64}};
  const auto with = [](std::string key, std::string type) {
    api::UpsertGroupRequest request = Group(std::move(key));
    request.config->instance_type = std::move(type);
    return request;
  };
  const auto refused = Upsert(with("new", "arm"));
  ExpectRefused(refused, Code::kInvalidArgument, "a new group");
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("arm64"), HasSubstr("amd64")));
  ExpectRefused(Upsert(with("workers", "arm")), Code::kInvalidArgument, "a static group");
  ExpectRefused(world.Call(ops, api::kPlan, {.what_if = with("new", "arm")}),
                Code::kInvalidArgument, "a preview");
  auto create = Instance();
  create.config->instance_type = "arm";
  ExpectRefused(Create(create), Code::kInvalidArgument, "an instance");
  EXPECT_EQ(world.cloud.Count(sim::SimProviderMethod::kTypeArch), 1U) << "asked once for all";
  EXPECT_TRUE(Upsert(with("new", "small")).has_value());
  EXPECT_TRUE(Upsert(with("newer", "nobody-knows")).has_value());
  const auto template_type =
      Upsert({.key = "arms", .config = api::GroupConfig{.template_name = "other"}});
  EXPECT_TRUE(template_type.has_value()) << template_type.error().ToString();
  world.cloud.limits().type_architectures["huge"] = config::Arch::kAmd64;
  Remember();
  ExpectRefused(Upsert({.key = "arms", .config = api::GroupConfig{.instance_type = "huge"}}),
                Code::kInvalidArgument, "of the template that the group has");
}

TEST_F(OperatorServiceTest, BI79_AProviderThatDoesNotAnswerRefusesNothing) {
  world.provider.faults().request_lost = 10'000;
  api::UpsertGroupRequest request = Group("new");
  request.config->instance_type = "arm";
  const auto made = Upsert(request);
  EXPECT_TRUE(made.has_value()) << made.error().ToString();
}

// The configuration is checked without the provider, so that a mistake there comes up when the
// first instance is made.
TEST_F(OperatorServiceTest, BI79_WhatTheFileHasWrongFailsBeforeItIsSent) {
  world.cloud.limits().type_architectures = {{"small", config::Arch::kArm64}};
  const api::UpsertGroupRequest one = {.key = "only-prod", .config = api::GroupConfig{.size = 1}};
  ASSERT_TRUE(Upsert(one).has_value());
  std::vector<api::Instance> failed;
  ASSERT_TRUE(world.Until([&] {
    const auto page = world.Call(ops, api::kListInstances,
                                 {.group = "only-prod", .phases = {api::InstancePhase::kFailed}});
    failed = page.value_or(api::ListInstancesResponse{}).instances;
    return !failed.empty();
  }));
  EXPECT_EQ(failed[0].reason, "instance_type: \"small\" is arm64; the template's arch is amd64");
  EXPECT_EQ(world.cloud.Count(sim::SimProviderMethod::kCreate), 0U);
  world.For(Duration::Minutes(5));
  const auto page = world.Call(ops, api::kListInstances, {.group = "only-prod"});
  ASSERT_TRUE(page.has_value());
  EXPECT_THAT(page->instances, SizeIs(1)) << "it waits for a change";
  // The size may still be changed; naming the type is refused now.
  const auto none = Upsert({.key = "only-prod", .config = api::GroupConfig{.size = 0}});
  EXPECT_TRUE(none.has_value()) << none.error().ToString();
  Remember();
  ExpectRefused(Upsert({.key = "only-prod", .config = api::GroupConfig{.instance_type = "small"}}),
                Code::kInvalidArgument, "named");
}

TEST_F(OperatorServiceTest, BI80_VarsThatAreTooManyTooLongOrNoNamesAreRefused) {
  const auto with = [](std::map<std::string, std::string> vars) {
    api::UpsertGroupRequest request = Group("new");
    request.config->vars = std::move(vars);
    return request;
  };
  std::map<std::string, std::string> many;
  for (int i = 0; i < 100'000; ++i) many["V" + std::to_string(i)] = "x";
  const auto too_many = Upsert(with(many));
  ASSERT_FALSE(too_many.has_value());
  EXPECT_THAT(too_many.error().code, AnyOf(Code::kResourceExhausted, Code::kInvalidArgument));
  Remember();
  ExpectRefused(Upsert(with({{"V", std::string(std::size_t{1} << 20U, 'x')}})),
                Code::kInvalidArgument, "a long value");
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a\nb"),
                                  std::string("1a"), std::string(200, 'a')}) {
    ExpectRefused(Upsert(with({{name, "x"}})), Code::kInvalidArgument, name);
    auto create = Instance();
    create.config->vars = {{name, "x"}};
    ExpectRefused(Create(create), Code::kInvalidArgument, name);
  }
}

TEST_F(OperatorServiceTest, BI80_AValueIsOneLine) {
  for (const std::string& value :
       {std::string("a\nb"), std::string("a\r"), std::string("a\0b", 3)}) {
    api::UpsertGroupRequest request = Group("new");
    request.config->vars = {{"V", value}};
    ExpectRefused(Upsert(request), Code::kInvalidArgument, value);
    auto create = Instance();
    create.config->vars = {{"V", value}};
    ExpectRefused(Create(create), Code::kInvalidArgument, value);
  }
}

// Variables have a place of their own in what templates see, so that no name is reserved: one that
// is called like something built in stands beside it and never in its place.
TEST_F(OperatorServiceTest, BI80_AVariableNeverStandsInForWhatIsBuiltIn) {
  auto create = Instance();
  for (const char* name : {"Instance", "ID", "Nonce", "Cluster", "CACert", "Server", "Provider",
                           "Vars", "Image", "Tenant", "Group", "ClusterID", "token"}) {
    create.config->vars[name] = "forged";
  }
  const auto made = Create(create);
  ASSERT_TRUE(made.has_value()) << made.error().ToString();
  const InstanceId id = *ParsePuidv7(made->instance_id);
  ASSERT_TRUE(world.Until([&] { return !world.cloud.VmsOf(id).empty(); }));
  const std::string user_data = world.cloud.VmsOf(id)[0]->request->user_data;
  EXPECT_THAT(user_data, HasSubstr("id=" + id.text()));
  EXPECT_THAT(user_data, Not(HasSubstr("forged")));
  // The token is the real one: it lets its instance in.
  EXPECT_EQ(world.Join(kProd, id).id, id);
}

TEST_F(OperatorServiceTest, BI80_AValueIsNeverATemplate) {
  auto create = Instance();
  create.config->vars = {{"GREETING", "{{ .Nonce }}"}};
  const auto made = Create(create);
  ASSERT_TRUE(made.has_value()) << made.error().ToString();
  const InstanceId id = *ParsePuidv7(made->instance_id);
  ASSERT_TRUE(world.Until([&] { return !world.cloud.VmsOf(id).empty(); }));
  const InstanceRecord record = world.Record(kProd, id);
  const json::Value* vars = nullptr;
  for (const json::Member& member : record.config) {
    if (member.key == "vars") vars = &member.value;
  }
  ASSERT_NE(vars, nullptr);
  EXPECT_EQ(*vars->Find("GREETING")->if_string(), "{{ .Nonce }}");
}

TEST_F(OperatorServiceTest, BI84_ARequestIdWithOtherContentExistsAlready) {
  api::UpsertGroupRequest request = Group("new", 0);
  request.request_id = "r1";
  ASSERT_TRUE(Upsert(request).has_value());
  Remember();
  EXPECT_TRUE(Upsert(request).has_value());
  request.config->vars = {{"A", "b"}};
  ExpectRefused(Upsert(request), Code::kAlreadyExists, "other vars");
  EXPECT_EQ(world.Objects(), before);
}

TEST_F(OperatorServiceTest, BI85_AnOlderFenceIsRefused) {
  api::UpsertGroupRequest request = Group("new", 0);
  request.fence = api::OperatorFence{.lease_uid = "l", .transitions = 5};
  ASSERT_TRUE(Upsert(request).has_value());
  Remember();
  request.fence->transitions = 4;
  request.config->size = 3;
  ExpectRefused(Upsert(request), Code::kFailedPrecondition, "fence");
  request.fence->transitions = 6;
  EXPECT_TRUE(Upsert(request).has_value());
}

// The transport counts them: RpcLimitsTest.BI85.
TEST_F(OperatorServiceTest, BI85_WatchStreamsBeyondTheLimitAreRefused) {
  std::vector<ClientCallPtr> calls;
  for (int i = 0; i < 33; ++i) calls.push_back(world.Watch(ops, api::kWatchErrors));
  EXPECT_EQ(calls.back()->code(), Code::kResourceExhausted);
  EXPECT_FALSE(calls.front()->end.has_value());
  EXPECT_FALSE(world.Watch(world.Operator(kDev), api::kWatchErrors)->end.has_value());
}

TEST_F(OperatorServiceTest, BI86_ACertificateOfARemovedTenantIsDeniedAndItsInstancesStay) {
  const JoinedAgent agent = world.JoinNew(kDev);
  const RpcTls dev = world.Operator(kDev);
  std::string text = ServicesConfig({});
  text.replace(text.find(R"(, "dev": {}})"), 12, "}");
  const std::size_t groups = text.find(R"("dev": {"workers")");
  const std::size_t comma = text.rfind(',', groups);
  text.erase(comma, text.find("}}", groups) + 2 - comma);
  world.Put("config/a.jsonc", text);
  const auto refreshed = world.Call(ops, api::kRefreshConfig, {});
  ASSERT_TRUE(refreshed.has_value()) << refreshed.error().ToString();
  EXPECT_EQ(world.Call(dev, api::kListGroups, {}).error().code, Code::kPermissionDenied);
  EXPECT_EQ(world.Watch(agent.tls, api::kReceiveFiles)->code(), Code::kPermissionDenied);
  world.For(Duration::Minutes(2));
  EXPECT_EQ(world.Record(kDev, agent.id).phase, InstancePhase::kRegistered);
  EXPECT_THAT(world.cloud.VmsOf(agent.id), SizeIs(1));
}

TEST_F(OperatorServiceTest, DeletingAGroupIsIdempotentAndAStaticOneKeepsItsValues) {
  ASSERT_TRUE(Upsert(Group("new")).has_value());
  for (const char* key : {"new", "new", "unheard-of", "workers"}) {
    EXPECT_TRUE(world.Call(ops, api::kDeleteGroup, {.key = key}).has_value()) << key;
  }
  const auto groups = world.Call(ops, api::kListGroups, {});
  ASSERT_TRUE(groups.has_value());
  ASSERT_THAT(groups->groups, SizeIs(2));
  EXPECT_EQ(groups->groups.front().key, "only-prod");
  EXPECT_EQ(groups->groups.back().key, "workers");
}

// --- CreateInstance ------------------------------------------------------------------------------

TEST_F(OperatorServiceTest, ARequestIdMakesOneInstanceHoweverOftenItIsSent) {
  const auto first = Create(Instance("", "r1"));
  ASSERT_TRUE(first.has_value()) << first.error().ToString();
  EXPECT_EQ(first->status, "pending");
  const auto again = Create(Instance("", "r1"));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->instance_id, first->instance_id);
  world.Lead();
  const auto later = Create(Instance("", "r1"));
  ASSERT_TRUE(later.has_value());
  EXPECT_EQ(later->instance_id, first->instance_id);
  EXPECT_THAT(world.Keys("instance/"), SizeIs(1));
}

TEST_F(OperatorServiceTest, ARepeatWhileTheFirstIsUnderWayMakesNoSecondInstance) {
  for (const std::string& id : {std::string(), std::string(kId)}) {
    std::vector<ClientCallPtr> calls;
    for (int i = 0; i < 8; ++i) {
      calls.push_back(
          world.Begin(ops, api::kCreateInstance, Instance(id, id.empty() ? "r1" : "r2")));
    }
    std::set<std::string> ids;
    for (const ClientCallPtr& call : calls) {
      ASSERT_TRUE(world.Until([&] { return call->end.has_value(); }));
      ASSERT_TRUE(call->good()) << call->end->error().ToString();
      ids.insert(call->Received<api::CreateInstanceResponse>().at(0).instance_id);
      EXPECT_THAT(world.Keys("instance/a/prod." + *ids.begin()), SizeIs(1)) << "answered too soon";
    }
    EXPECT_THAT(ids, SizeIs(1));
  }
  world.For(Duration::Minutes(1));
  EXPECT_THAT(world.cloud.Vms(), SizeIs(2));
}

TEST_F(OperatorServiceTest, TheSameRequestIdOrInstanceIdForSomethingElseExistsAlready) {
  ASSERT_TRUE(Upsert(Group("second")).has_value());
  ASSERT_TRUE(Create(Instance(std::string(kId), "r1")).has_value());
  world.For(Duration::Minutes(1));
  Remember();
  auto other = Instance("", "r1");
  other.config->group = "second";
  ExpectRefused(Create(other), Code::kAlreadyExists, "another group");
  other = Instance("", "r1");
  other.config->vars = {{"A", "b"}};
  ExpectRefused(Create(other), Code::kAlreadyExists, "other vars");
  other = Instance(std::string(kId));
  other.config->group = "second";
  ExpectRefused(Create(other), Code::kAlreadyExists, "an id of another group");
  // Nor may another tenant take the id; it learns nothing but that.
  const auto foreign =
      world.Call(world.Operator(kDev), api::kCreateInstance, Instance(std::string(kId)));
  ExpectRefused(foreign, Code::kAlreadyExists, "another tenant");
  // A request id is the tenant's own.
  EXPECT_TRUE(world.Call(world.Operator(kDev), api::kCreateInstance, Instance("", "r1")));
}

TEST_F(OperatorServiceTest, WhatCannotBeMadeIsRefusedWithItsReason) {
  ExpectRefused(Create({}), Code::kInvalidArgument, "no config");
  ExpectRefused(Create({.config = api::InstanceConfig{}}), Code::kInvalidArgument, "no group");
  ExpectRefused(Create({.config = api::InstanceConfig{.group = "nowhere"}}), Code::kNotFound,
                "unknown group");
  ExpectRefused(Create(Instance("oth06bgm7733st2576nx5jht4ecjw")), Code::kInvalidArgument,
                "prefix of another kind");
  ExpectRefused(Create(Instance("not an id")), Code::kInvalidArgument, "no id");
  for (const std::string& id :
       {std::string("draw:1"), std::string("a b"), std::string(65, 'a'), std::string("a/b")}) {
    ExpectRefused(Create(Instance("", id)), Code::kInvalidArgument, id);
    auto upsert = Group("new");
    upsert.request_id = id;
    ExpectRefused(Upsert(upsert), Code::kInvalidArgument, id);
  }
  auto restricted = Instance();
  restricted.config->template_name = "other";
  ExpectRefused(Create(restricted), Code::kFailedPrecondition, "template of a static group");
  restricted = Instance();
  restricted.config->subnet_pool = "q";
  ExpectRefused(Create(restricted), Code::kFailedPrecondition, "pool of a static group");
}

TEST_F(OperatorServiceTest, ARepeatAfterTheDeletionFindsTheTombstone) {
  const auto made = Create(Instance("", "r1"));
  ASSERT_TRUE(made.has_value());
  const InstanceId id = *ParsePuidv7(made->instance_id);
  ASSERT_TRUE(world.Until([&] { return !world.cloud.VmsOf(id).empty(); }));
  ASSERT_TRUE(Delete({.instance_id = id.text()}).has_value());
  ASSERT_TRUE(world.Until([&] { return world.Record(kProd, id).phase == InstancePhase::kGone; }));
  world.Settle();
  const auto again = Create(Instance("", "r1"));
  ASSERT_TRUE(again.has_value()) << again.error().ToString();
  EXPECT_EQ(again->instance_id, id.text());
  EXPECT_EQ(again->status, "deleted");
}

// --- DeleteInstance, AcknowledgeDrained ----------------------------------------------------------

TEST_F(OperatorServiceTest, ADeletionIsAnsweredWhenItIsDurableAndIsIdempotent) {
  const JoinedAgent agent = world.JoinNew(kProd);
  Remember();
  EXPECT_EQ(Delete({.instance_id = std::string(kId)})->status, "unknown");
  ExpectRefused(Delete({}), Code::kInvalidArgument, "no id");
  ExpectRefused(Delete({.instance_id = "x"}), Code::kInvalidArgument, "no id");
  ExpectRefused(
      Delete({.instance_id = agent.id.text(), .drain_timeout = Duration() - Duration::Seconds(1)}),
      Code::kInvalidArgument, "negative");
  EXPECT_EQ(Delete({.instance_id = agent.id.text(), .drain = true})->status, "draining");
  EXPECT_EQ(Delete({.instance_id = agent.id.text(), .drain = true})->status, "draining");
  EXPECT_EQ(Delete({.instance_id = agent.id.text()})->status, "deleting");
  EXPECT_EQ(Delete({.instance_id = agent.id.text()})->status, "deleting");
  ASSERT_TRUE(
      world.Until([&] { return world.Record(kProd, agent.id).phase == InstancePhase::kGone; }));
  world.Settle();
  EXPECT_EQ(Delete({.instance_id = agent.id.text()})->status, "deleted");
}

TEST_F(OperatorServiceTest, BI82_WhatBelongsToAnotherTenantIsAnsweredAsUnknown) {
  const JoinedAgent foreign = world.JoinNew(kDev);
  Remember();
  for (const std::string& id : {foreign.id.text(), std::string(kId)}) {
    const auto status = world.Call(ops, api::kGetInstanceStatus, {.instance_id = id});
    ExpectRefused(status, Code::kNotFound, id);
    EXPECT_EQ(status.error().message, "there is no such instance");
    const auto ack = world.Call(ops, api::kAcknowledgeDrained, {.instance_id = id});
    ExpectRefused(ack, Code::kNotFound, id);
    EXPECT_EQ(ack.error().message, "there is no such instance");
    EXPECT_EQ(Delete({.instance_id = id})->status, "unknown");
  }
  EXPECT_EQ(world.Objects(), before);
}

TEST_F(OperatorServiceTest, BI83_AnAcknowledgementOfAnotherOrARevokedDrainIsRefused) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const JoinedAgent other = world.JoinNew(kProd);
  ASSERT_TRUE(Delete({.instance_id = agent.id.text(), .drain = true}).has_value());
  ASSERT_TRUE(Delete({.instance_id = other.id.text(), .drain = true}).has_value());
  world.Settle();
  const std::string drain = world.Record(kProd, agent.id).drain->id;
  Remember();
  for (const std::string& wrong : {world.Record(kProd, other.id).drain->id, std::string("x")}) {
    ExpectRefused(Ack(agent.id, wrong), Code::kFailedPrecondition, wrong);
  }
  EXPECT_TRUE(Ack(agent.id, drain).has_value());
  EXPECT_TRUE(Ack(agent.id, drain).has_value());
  ASSERT_TRUE(world.Until([&] {
    return world.Record(kProd, agent.id).phase == InstancePhase::kGone;
  })) << "an acknowledged drain ends at once";
  EXPECT_TRUE(Ack(agent.id, drain).has_value()) << "gone is as good as acknowledged";
  EXPECT_EQ(world.Record(kProd, other.id).phase, InstancePhase::kDraining);
}

TEST_F(OperatorServiceTest, BI83_AnAcknowledgementOfADrainThatWasRevokedIsRefused) {
  ASSERT_TRUE(Upsert(Group("web", 2)).has_value());
  ASSERT_TRUE(world.Until([&] { return world.cloud.Vms().size() == 2; }));
  world.Settle();
  std::vector<ClientCallPtr> streams;
  for (const sim::SimVm* vm : world.cloud.Vms()) {
    const JoinedAgent agent = world.Join(kProd, *vm->shown.instance_id);
    streams.push_back(world.Open(agent.tls, api::kSubmitHealthReport.path));
    streams.back()->call->Send(
        RpcMessage::Of(api::HealthReportRequest{.instance_id = agent.id.text(), .count = 1}));
  }
  world.Settle();
  ASSERT_TRUE(Upsert(Group("web", 1)).has_value());
  std::optional<InstanceId> drained;
  ASSERT_TRUE(world.Until([&] {
    for (const sim::SimVm* vm : world.cloud.Vms()) {
      const InstanceId id = *vm->shown.instance_id;
      if (world.Record(kProd, id).phase == InstancePhase::kDraining) drained = id;
    }
    return drained.has_value();
  }));
  const std::string drain = world.Record(kProd, *drained).drain->id;
  ASSERT_TRUE(Upsert(Group("web", 2)).has_value());
  ASSERT_TRUE(world.Until(
      [&] { return world.Record(kProd, *drained).phase == InstancePhase::kRegistered; }));
  world.Settle();
  Remember();
  ExpectRefused(Ack(*drained, drain), Code::kFailedPrecondition, "a drain that was revoked");
  world.Settle();
  EXPECT_EQ(world.Objects(), before);
  EXPECT_THAT(world.cloud.Vms(), SizeIs(2)) << "nothing is deleted";
}

TEST_F(OperatorServiceTest, AnAcknowledgementIsDurableBeforeItIsAnswered) {
  const JoinedAgent agent = world.JoinNew(kProd);
  ASSERT_TRUE(Delete({.instance_id = agent.id.text(), .drain = true}).has_value());
  world.Settle();
  ASSERT_TRUE(Ack(agent.id, world.Record(kProd, agent.id).drain->id).has_value());
  world.Lead();  // At once: the next leader knows of it.
  ASSERT_TRUE(
      world.Until([&] { return world.Record(kProd, agent.id).phase == InstancePhase::kGone; },
                  Duration::Minutes(1)));
}

TEST_F(OperatorServiceTest, AnAcknowledgementWithoutADrainDeletes) {
  const JoinedAgent agent = world.JoinNew(kProd);
  EXPECT_TRUE(Ack(agent.id).has_value());
  EXPECT_TRUE(
      world.Until([&] { return world.Record(kProd, agent.id).phase == InstancePhase::kGone; }));
}

// --- Reading -------------------------------------------------------------------------------------

TEST_F(OperatorServiceTest, ListsArePagedByIdAndSurviveAChangeOfLeader) {
  std::set<std::string> made;
  for (int i = 0; i < 5; ++i) made.insert(world.NewInstance(kProd).text());
  (void)world.NewInstance(kDev);
  std::set<std::string> seen;
  std::string token;
  for (int page = 0; page < 3; ++page) {
    const auto answer = world.Call(ops, api::kListInstances, {.page_size = 2, .page_token = token});
    ASSERT_TRUE(answer.has_value());
    for (const api::Instance& instance : answer->instances) {
      EXPECT_TRUE(seen.empty() || *seen.rbegin() < instance.instance_id);
      seen.insert(instance.instance_id);
    }
    token = answer->next_page_token;
    world.Lead();
  }
  EXPECT_EQ(token, "");
  EXPECT_EQ(seen, made);
  Remember();
  ExpectRefused(world.Call(ops, api::kListInstances, {.page_size = -1}), Code::kInvalidArgument,
                "size");
  ExpectRefused(world.Call(ops, api::kListInstances, {.page_size = 1'001}), Code::kInvalidArgument,
                "size");
  ExpectRefused(world.Call(ops, api::kListInstances, {.page_token = "x"}), Code::kInvalidArgument,
                "token");
}

TEST_F(OperatorServiceTest, ARefreshThatFindsAnErrorKeepsWhatIsInForce) {
  const auto status = world.Call(ops, api::kGetConfigStatus, {});
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->size, static_cast<std::int64_t>(ServicesConfig({}).size()));
  world.Put("config/a.jsonc", "{");
  const auto bad = world.Call(ops, api::kRefreshConfig, {});
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(bad.error().message, HasSubstr("config/a.jsonc:1:"));
  EXPECT_EQ(*world.Call(ops, api::kGetConfigStatus, {}), *status);
  world.Put("config/a.jsonc", ServicesConfig({}) + "\n");
  const auto good = world.Call(ops, api::kRefreshConfig, {});
  ASSERT_TRUE(good.has_value()) << good.error().ToString();
  EXPECT_TRUE(good->updated);
  EXPECT_EQ(good->prev_etag, status->etag);
}

// --- Without leadership --------------------------------------------------------------------------

TEST_F(OperatorServiceTest, NothingIsChangedByALeaderWhoseLeaseIsAboutToEnd) {
  const JoinedAgent agent = world.JoinNew(kProd);
  world.may_start = false;
  Remember();
  const std::vector<ClientCallPtr> calls = {
      world.Begin(ops, api::kUpsertGroup, Group("new")),
      world.Begin(ops, api::kCreateInstance, Instance()),
      world.Begin(ops, api::kDeleteInstance, {.instance_id = agent.id.text()}),
      world.Begin(ops, api::kAcknowledgeDrained, {.instance_id = agent.id.text()})};
  world.For(Duration::Seconds(70));
  EXPECT_EQ(world.Objects(), before);
  for (const ClientCallPtr& call : calls) {
    ASSERT_TRUE(call->end.has_value());
    EXPECT_THAT(*call->code(), AnyOf(Code::kUnavailable, Code::kDeadlineExceeded));
  }
}

TEST_F(OperatorServiceTest, NobodyAnswersAfterAStepDown) {
  world.StepDown();
  const ClientCallPtr call = world.Open(ops, api::kListGroups.path);
  EXPECT_FALSE(call->connected);
  EXPECT_EQ(call->code(), Code::kUnavailable);
}

}  // namespace
}  // namespace nstance::test
