// Watches: a snapshot on connect, events afterwards, of one's own tenant only; who reads too slowly
// is told to come back.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/services/services_world.h"

namespace nstance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class WatchesTest : public testing::Test {
 public:
  static std::vector<std::string> Told(const ClientCall& call) {
    std::vector<std::string> out;
    for (const auto& event : call.Received<api::GroupEvent>()) {
      out.push_back((event.type == api::GroupEventType::kUpsert ? "+" : "-") + event.group->key);
    }
    return out;
  }
  void Upsert(const std::string& key, int size, std::map<std::string, std::string> vars = {}) {
    const auto answer = world.Call(
        ops, api::kUpsertGroup,
        {.key = key,
         .config = api::GroupConfig{.template_name = "t", .size = size, .vars = std::move(vars)}});
    ASSERT_TRUE(answer.has_value()) << answer.error().ToString();
  }

  ServicesWorld world;
  RpcTls ops = world.Operator(kProd);
};

TEST_F(WatchesTest, GroupsAreShownSortedThenTheirChangesThenTheirEnd) {
  const ClientCallPtr watch = world.Watch(ops, api::kWatchGroups);
  EXPECT_THAT(Told(*watch), ElementsAre("+only-prod", "+workers"));
  Upsert("extra", 0);
  world.For(Duration::Seconds(3));
  EXPECT_THAT(Told(*watch), ElementsAre("+only-prod", "+workers", "+extra"));
  ASSERT_TRUE(world.Call(ops, api::kDeleteGroup, {.key = "extra"}).has_value());
  world.For(Duration::Seconds(3));
  EXPECT_THAT(Told(*watch), ElementsAre("+only-prod", "+workers", "+extra", "-extra"));
  EXPECT_FALSE(watch->end.has_value());
}

TEST_F(WatchesTest, ChangesOfAGroupAreCoalescedToOneASecond) {
  Upsert("extra", 0);
  const ClientCallPtr watch = world.Watch(ops, api::kWatchGroups);
  const std::size_t before = watch->messages.size();
  std::vector<ClientCallPtr> calls;
  for (int i = 0; i < 20; ++i) {
    calls.push_back(world.Begin(
        ops, api::kUpsertGroup,
        {.key = "extra",
         .config = api::GroupConfig{.size = 0, .vars = {{"ROUND", std::to_string(i)}}}}));
    world.For(Duration::Milliseconds(100));
  }
  world.For(Duration::Seconds(3));
  const auto events = watch->Received<api::GroupEvent>();
  EXPECT_LE(events.size() - before, 5U);
  EXPECT_EQ(events.back().group->vars.at("ROUND"), "19");
}

TEST_F(WatchesTest, DrainsAreToldAtTheirStartToLateComersAndAtTheirEnd) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const ClientCallPtr early = world.Watch(ops, api::kWatchInstances);
  EXPECT_THAT(early->messages, IsEmpty());
  ASSERT_TRUE(world.Call(ops, api::kDeleteInstance, {.instance_id = agent.id.text(), .drain = true})
                  .has_value());
  world.Settle();
  const ClientCallPtr late = world.Watch(ops, api::kWatchInstances);
  const auto begun = early->Received<api::InstanceEvent>();
  ASSERT_THAT(begun, SizeIs(1));
  EXPECT_EQ(begun, late->Received<api::InstanceEvent>()) << "the snapshot says what the event said";
  const InstanceRecord record = world.Record(kProd, agent.id);
  EXPECT_EQ(begun.front().status, "pending_deletion");
  EXPECT_EQ(begun.front().reason, "requested");
  EXPECT_EQ(begun.front().drain_id, record.drain->id);
  EXPECT_EQ(begun.front().delete_at, record.drain->delete_at);
  world.Lead();
  const ClientCallPtr next = world.Watch(ops, api::kWatchInstances);
  EXPECT_EQ(begun, next->Received<api::InstanceEvent>()) << "and from the next leader";
  ASSERT_TRUE(world.Call(ops, api::kAcknowledgeDrained, {.instance_id = agent.id.text()}));
  ASSERT_TRUE(world.Until([&] { return next->messages.size() == 2; }));
  EXPECT_EQ(next->Received<api::InstanceEvent>().back().status, "deleted");
}

TEST_F(WatchesTest, NothingOfAnotherTenantIsTold) {
  const JoinedAgent agent = world.JoinNew(kProd);
  const RpcTls dev = world.Operator(kDev);
  const std::vector<ClientCallPtr> watches = {world.Watch(dev, api::kWatchGroups),
                                              world.Watch(dev, api::kWatchInstances),
                                              world.Watch(dev, api::kWatchErrors)};
  EXPECT_THAT(Told(*watches[0]), ElementsAre("+only-dev", "+workers"));
  world.cloud.limits().vms = 1;
  Upsert("workers", 2);
  ASSERT_TRUE(world.Call(ops, api::kDeleteInstance, {.instance_id = agent.id.text(), .drain = true})
                  .has_value());
  world.For(Duration::Minutes(1));
  EXPECT_THAT(Told(*watches[0]), ElementsAre("+only-dev", "+workers"));
  EXPECT_THAT(watches[1]->messages, IsEmpty());
  EXPECT_THAT(watches[2]->messages, IsEmpty());
}

TEST_F(WatchesTest, AnErrorIsToldOnceAMinuteForAGroupAndText) {
  const ClientCallPtr watch = world.Watch(ops, api::kWatchErrors);
  EXPECT_THAT(watch->messages, IsEmpty());
  world.cloud.limits().vms = 0;
  Upsert("workers", 1);
  world.For(Duration::Seconds(55));
  ASSERT_THAT(watch->messages, testing::Not(IsEmpty()));
  std::set<std::string> texts;
  for (const auto& event : watch->Received<api::ErrorEvent>()) {
    EXPECT_EQ(event.group, "workers");
    EXPECT_TRUE(texts.insert(event.error).second) << "twice in a minute: " << event.error;
  }
}

TEST_F(WatchesTest, AWatcherThatDoesNotReadIsDroppedWithAReasonAndOthersAreNot) {
  const ClientCallPtr good = world.Watch(ops, api::kWatchGroups);
  const ClientCallPtr slow = world.Watch(ops, api::kWatchGroups);
  slow->call->Pause();
  // Each event is about 400 KiB: the 8 MiB of the queue are full long before 1,000 messages.
  std::map<std::string, std::string> vars;
  for (int i = 0; i < 100; ++i) vars["V" + std::to_string(i)] = std::string(4'000, 'x');
  Upsert("big", 0, vars);
  for (int i = 0; i < 60 && !slow->end.has_value(); ++i) {
    Upsert("big", 0, {{"V0", std::to_string(i)}});
    world.For(Duration::Seconds(2));
  }
  slow->call->Resume();
  ASSERT_TRUE(world.Until([&] { return slow->end.has_value(); }));
  EXPECT_EQ(slow->code(), Code::kAborted);
  EXPECT_THAT(slow->end->error().message, testing::HasSubstr("too slow"));
  EXPECT_FALSE(good->end.has_value());
  EXPECT_GT(world.Metric("limit_hits_total", "watch_queue"), 0);
  // It comes back to a whole snapshot.
  EXPECT_THAT(Told(*world.Watch(ops, api::kWatchGroups)),
              ElementsAre("+big", "+only-prod", "+workers"));
}

}  // namespace
}  // namespace nstance::test
