// The log of events: rings that keep the latest, memory that is counted, and a fleet whose group
// flaps without end.
#include "server/fleet/event_log.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/server/fleet/fleet_world.h"

namespace nstance::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

EventRef Numbered(int n) {
  return std::make_shared<const api::Event>(api::Event{.message = std::to_string(n)});
}

std::vector<std::string> Messages(const EventRing* ring) {
  std::vector<std::string> out;
  for (std::size_t i = 0; ring != nullptr && i < ring->size(); ++i) {
    out.push_back(ring->at(i)->message);
  }
  return out;
}

TEST(EventLogTest, ARingKeepsTheLatestOldestFirst) {
  EventRing ring(3);
  EXPECT_EQ(ring.size(), 0U);
  for (int i = 0; i < 8; ++i) {
    ring.Add(Numbered(i));
    std::vector<std::string> expected;
    for (int n = std::max(0, i - 2); n <= i; ++n) expected.push_back(std::to_string(n));
    EXPECT_EQ(Messages(&ring), expected);
  }
}

TEST(EventLogTest, OnlyWhatSomebodyKeepsIsCounted) {
  EventLog log;
  EventRing other;
  const TenantId& tenant = DefaultTenant();
  for (std::size_t i = 0; i < 2 * EventLog::kOfTenant; ++i) {
    const EventRef event = log.Add(tenant, {.message = std::string(1'000, 'x')});
    if (i == 5) other.Add(event);
  }
  EXPECT_EQ(log.totals().events, EventLog::kOfTenant + 1);
  EXPECT_LE(log.totals().bytes, log.totals().events * 1'000);
  EXPECT_GE(log.totals().bytes, log.totals().events * 256);
  EXPECT_EQ(log.Of(tenant)->size(), EventLog::kOfTenant);
  other = EventRing();
  EXPECT_EQ(log.totals().events, EventLog::kOfTenant);
  EXPECT_EQ(log.Of(*TenantId::Parse("nobody")), nullptr);
}

TEST(EventLogTest, EventsOutliveTheirLog) {
  EventRef kept;
  {
    EventLog log;
    kept = log.Add(DefaultTenant(), {.message = "still here"});
  }
  EXPECT_EQ(kept->message, "still here");
}

// --- In a fleet ----------------------------------------------------------------------------------

class HistoryTest : public testing::Test {
 public:
  Fleet& Lead(int size) {
    world.settings().size = size;
    world.Lead("s1");
    EXPECT_TRUE(world.Until([this] { return world.leader().ready(); }));
    return world.leader().fleet();
  }
  std::vector<std::string> OfInstance(const InstanceId& id) {
    return Messages(world.leader().fleet().History(id));
  }
  std::vector<std::string> OfGroup() {
    return Messages(world.leader().fleet().History(DefaultTenant(), kWorkers));
  }
  World world{{.size = 1}};
};

TEST_F(HistoryTest, TheLifeOfAnInstanceIsTold) {
  Fleet& fleet = Lead(1);
  ASSERT_TRUE(world.UntilReady(1));
  const InstanceId id = fleet.OfTenant(DefaultTenant()).front()->id;
  EXPECT_THAT(OfInstance(id),
              testing::ElementsAre("a new instance: the group has fewer instances than its size",
                                   "the provider is about to be asked for it",
                                   HasSubstr("the provider made it: "), "its agent registered"));
  world.leader().SetSize(0);
  ASSERT_TRUE(world.Until([&] { return fleet.Find(id)->phase() == InstancePhase::kGone; }));
  EXPECT_THAT(OfInstance(id), Contains(HasSubstr("draining because the group has more instances "
                                                 "than its size (scale-down); deleted in 10s")));
  EXPECT_THAT(OfInstance(id), Contains("its drain runs, for 9s"));
  EXPECT_THAT(OfInstance(id), Contains("no longer: its drain runs"));
  EXPECT_THAT(OfInstance(id).back(), HasSubstr("it is gone because"));
  EXPECT_THAT(OfGroup(), Contains("its size went from 1 to 0"));
  const EventRing* events = fleet.Events(DefaultTenant());
  EXPECT_EQ(events->at(0)->type, "leader");
  EXPECT_EQ(events->at(0)->message, "a new leader, epoch 1: the history begins here");
  for (std::size_t i = 1; i < events->size(); ++i) {
    EXPECT_LE(*events->at(i - 1)->time, *events->at(i)->time);
    EXPECT_EQ(events->at(i)->group, "workers");
  }
}

TEST_F(HistoryTest, ANewLeaderBeginsWithOneEvent) {
  Lead(2);
  ASSERT_TRUE(world.UntilReady(2));
  world.Lead("s2");
  ASSERT_TRUE(world.Until([&] { return world.leader().ready(); }));
  EXPECT_EQ(Messages(world.leader().fleet().Events(DefaultTenant())).front(),
            "a new leader, epoch 2: the history begins here");
}

// A hold that goes on is told at its beginning and its end, whatever is planned between.
TEST_F(HistoryTest, AHoldIsNotRepeated) {
  Fleet& fleet = Lead(1);
  ASSERT_TRUE(world.UntilReady(1));
  world.cloud().limits().vms = 1;
  world.leader().SetSize(2);
  world.For(Duration::Minutes(30));
  int began = 0;
  int over = 0;
  int plans = 0;
  const EventRing* history = fleet.History(DefaultTenant(), kWorkers);
  for (std::size_t i = 0; i < history->size(); ++i) {
    const api::Event& event = *history->at(i);
    if (event.type != "hold" || event.reason != "create-backoff") continue;
    (event.message.starts_with("no longer") ? over : began) += 1;
  }
  for (const auto& [name, family] : world.leader().metrics().Take()) {
    if (name == "plans_total") plans = static_cast<int>(family.series.front().value);
  }
  EXPECT_GE(began, 1);
  EXPECT_LE(std::abs(began - over), 1) << "they take turns";
  EXPECT_LT(began + over, plans / 2);
}

// A size that goes up and down without end: drains begin and are cancelled, holds come and go.
TEST_F(HistoryTest, AFlappingGroupTakesBoundedMemory) {
  world.settings().drain_timeout = "1h";
  Fleet& fleet = Lead(3);
  ASSERT_TRUE(world.UntilReady(3));
  for (int round = 0; round < 200; ++round) {
    world.leader().SetSize(2 + (round % 2));
    world.For(Duration::Seconds(2));
    ASSERT_LE(fleet.Events(DefaultTenant())->size(), EventLog::kOfTenant);
    ASSERT_LE(OfGroup().size(), EventRing::kOfSubject);
    const std::size_t bound = EventLog::kOfTenant + (EventRing::kOfSubject * (fleet.size() + 1));
    ASSERT_LE(fleet.event_totals().events, bound);
    ASSERT_LE(fleet.event_totals().bytes, fleet.event_totals().events * 1'000);
  }
  EXPECT_EQ(fleet.size(), 3U) << "every drain was cancelled in time";
  EXPECT_EQ(OfGroup().size(), EventRing::kOfSubject);
  std::size_t longest = 0;
  for (const Instance* instance : fleet.OfTenant(DefaultTenant())) {
    longest = std::max(longest, OfInstance(instance->id).size());
  }
  EXPECT_EQ(longest, EventRing::kOfSubject);
  EXPECT_GT(fleet.Events(DefaultTenant())->size(), 600U);
}

TEST_F(HistoryTest, TheBrakeIsToldToWatchersOfEventsAndOfErrors) {
  world.settings().brake =
      R"({"unordered": {"count": 1, "percent": 1, "window": "1h"}, "ordered": {"window": "0s"}})";
  Fleet& fleet = Lead(4);
  ASSERT_TRUE(world.UntilReady(4));
  world.leader().SetSize(1);  // By the file, so it is not ordered.
  ASSERT_TRUE(world.Until([&] { return !world.leader().errors.empty(); }));
  EXPECT_THAT(world.leader().errors, Contains("the deletion brake holds deletions back"));
  std::set<std::string> types;
  const EventRing* events = fleet.Events(DefaultTenant());
  for (std::size_t i = 0; i < events->size(); ++i) types.insert(events->at(i)->type);
  EXPECT_THAT(types, Contains("brake"));
}

}  // namespace
}  // namespace nstance::test
