// WatchEvents: the latest events, then live ones, of one's own tenant and of what was asked for;
// who reads too slowly is told to come back.
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/services/services_world.h"

namespace nstance::test {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class WatchEventsTest : public testing::Test {
 public:
  ClientCallPtr Watch(const RpcTls& tls, api::WatchEventsRequest request = {}) {
    ClientCallPtr call = world.Begin(tls, api::kWatchEvents, std::move(request));
    world.Settle();
    return call;
  }
  static std::vector<std::string> Messages(const ClientCall& call) {
    std::vector<std::string> out;
    for (const auto& event : call.Received<api::Event>()) out.push_back(event.message);
    return out;
  }
  void Upsert(const std::string& key, int size) {
    const auto answer =
        world.Call(ops, api::kUpsertGroup,
                   {.key = key, .config = api::GroupConfig{.template_name = "t", .size = size}});
    ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  }

  ServicesWorld world;
  RpcTls ops = world.Operator(kProd);
};

TEST_F(WatchEventsTest, LiveEventsComeWithoutABacklog) {
  const ClientCallPtr watch = Watch(ops);
  EXPECT_THAT(watch->messages, IsEmpty());
  Upsert("extra", 0);
  ASSERT_TRUE(world.Until([&] { return !watch->messages.empty(); }));
  const auto events = watch->Received<api::Event>();
  EXPECT_EQ(events[0].type, "group");
  EXPECT_EQ(events[0].group, "extra");
  EXPECT_EQ(events[0].message, "the group was made, size 0");
  EXPECT_LE(*events[0].time, world.now());
  EXPECT_FALSE(watch->end.has_value());
}

TEST_F(WatchEventsTest, TheBacklogIsTheLatestThatMatchOldestFirst) {
  Upsert("extra", 0);
  for (int i = 0; i < 10; ++i) {
    Upsert("g" + std::to_string(i), 0);
    Upsert("extra", 0);  // No change, no event.
  }
  world.Settle();
  EXPECT_THAT(Messages(*Watch(ops, {.backlog = 256})), SizeIs(12)) << "with the leader's";
  const ClientCallPtr three = Watch(ops, {.backlog = 3});
  const auto events = three->Received<api::Event>();
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].group, "g7");
  EXPECT_EQ(events[2].group, "g9");
  const ClientCallPtr one = Watch(ops, {.group = "g2", .backlog = 5});
  ASSERT_THAT(one->messages, SizeIs(1)) << "the filter comes before the count";
  // The live ones follow, once.
  ASSERT_TRUE(world.Call(ops, api::kDeleteGroup, {.key = "g2"}).has_value());
  world.Settle();
  EXPECT_THAT(Messages(*one), ElementsAre("the group was made, size 0", "the group was deleted"));
}

TEST_F(WatchEventsTest, AnInstanceIsWatchedByItself) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const ClientCallPtr watch = Watch(ops, {.instance_id = agent.id.text(), .backlog = 2});
  EXPECT_THAT(watch->messages, SizeIs(2));
  const JoinedAgent other = world.JoinNew(kProd);
  ASSERT_TRUE(world.Call(ops, api::kDeleteInstance, {.instance_id = other.id.text()}));
  ASSERT_TRUE(world.Call(ops, api::kDeleteInstance, {.instance_id = agent.id.text()}));
  world.For(Duration::Minutes(2));
  const auto events = watch->Received<api::Event>();
  for (const api::Event& event : events) EXPECT_EQ(event.instance_id, agent.id.text());
  EXPECT_EQ(events.back().phase, api::InstancePhase::kGone);
  EXPECT_EQ(events.back().reason, "requested");
}

TEST_F(WatchEventsTest, NothingOfAnotherTenantIsTold) {
  Upsert("extra", 1);
  const JoinedAgent agent = world.JoinNew(kProd);
  const ClientCallPtr dev = Watch(world.Operator(kDev), {.backlog = 256});
  const ClientCallPtr asks =
      Watch(world.Operator(kDev), {.instance_id = agent.id.text(), .backlog = 256});
  Upsert("workers", 2);
  ASSERT_TRUE(world.Call(ops, api::kDeleteInstance, {.instance_id = agent.id.text()}));
  world.For(Duration::Minutes(1));
  EXPECT_THAT(Messages(*dev), ElementsAre(HasSubstr("a new leader, epoch ")));
  EXPECT_THAT(asks->messages, IsEmpty());
}

TEST_F(WatchEventsTest, ANewLeaderBeginsWithItsOwnEvent) {
  Upsert("extra", 0);
  const ClientCallPtr before = Watch(ops, {.backlog = 256});
  EXPECT_THAT(Messages(*before), SizeIs(2));
  world.Lead();
  EXPECT_EQ(before->code(), Code::kUnavailable);
  const ClientCallPtr after = Watch(ops, {.backlog = 256});
  EXPECT_THAT(Messages(*after), ElementsAre("a new leader, epoch 2: the history begins here"));
  EXPECT_EQ(after->Received<api::Event>().front().type, "leader");
}

TEST_F(WatchEventsTest, BadRequestsEndTheStreamWithTheirRule) {
  const std::vector<std::pair<api::WatchEventsRequest, std::string>> rows = {
      {{.backlog = -1}, "backlog: 0 to 256"},
      {{.backlog = 257}, "backlog: 0 to 256"},
      {{.backlog = 2'147'483'647}, "backlog: 0 to 256"},
      {{.group = "No Name"}, "group: "},
      {{.instance_id = "i-1"}, "instance_id: "},
  };
  for (const auto& [request, text] : rows) {
    const ClientCallPtr watch = Watch(ops, request);
    EXPECT_EQ(watch->code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(watch->end->error().message, HasSubstr(text));
    EXPECT_THAT(watch->messages, IsEmpty());
  }
  EXPECT_EQ(world.Metric("bad_input_total", "watch_events"), 5);
  EXPECT_FALSE(Watch(ops, {.backlog = 256})->end.has_value());
}

TEST_F(WatchEventsTest, AWatcherThatDoesNotReadIsDroppedWithAReasonAndOthersAreNot) {
  const ClientCallPtr good = Watch(ops);
  const ClientCallPtr slow = Watch(ops);
  slow->call->Pause();
  // Fifty groups at a time change their definition: fifty events.
  for (int round = 0; round < 200 && !slow->end.has_value(); ++round) {
    std::vector<ClientCallPtr> calls;
    for (int i = 0; i < 50; ++i) {
      calls.push_back(
          world.Begin(ops, api::kUpsertGroup,
                      {.key = "g" + std::to_string(i),
                       .config = api::GroupConfig{.template_name = "t",
                                                  .vars = {{"ROUND", std::to_string(round)}}}}));
    }
    world.For(Duration::Seconds(1));
    if (world.Metric("watch_overflows_total", "events") > 0) break;
  }
  slow->call->Resume();
  ASSERT_TRUE(world.Until([&] { return slow->end.has_value(); }));
  EXPECT_EQ(slow->code(), Code::kAborted);
  EXPECT_THAT(slow->end->error().message, HasSubstr("too slow"));
  EXPECT_EQ(world.Metric("watch_overflows_total", "events"), 1);
  EXPECT_FALSE(good->end.has_value());
  EXPECT_GT(good->messages.size(), 1'000U);
  EXPECT_THAT(Watch(ops, {.backlog = 256})->messages, SizeIs(256)) << "it comes back to the latest";
}

}  // namespace
}  // namespace nstance::test
