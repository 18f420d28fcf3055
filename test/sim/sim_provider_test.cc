// The simulated cloud: each fault and each lie does what it says, hooks and counts are right, and a
// run repeats itself with its seed. That it keeps the contract without faults is shown by
// test/contract/provider_contract_test.cc.
#include "sim/sim_provider.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace nstance::sim {
namespace {

class SimProviderTest : public testing::Test {
 public:
  explicit SimProviderTest(std::uint64_t seed = 1) : scheduler_(seed), cloud_(scheduler_, {}) {}

  InstanceId NewId() {
    Puidv7Generator::Entropy entropy{};
    entropy.fill(++made_);
    return ids_.Next("wrk", Timestamp::FromUnix(1'760'000'000), entropy);
  }
  static ProviderCreate Request(const InstanceId& id) {
    return {.instance_id = id,
            .tenant = DefaultTenant(),
            .group = "workers",
            .instance_type = "t",
            .subnet = "s",
            .created_at = Timestamp::FromUnix(1'760'000'000)};
  }
  ProviderCall Call(Duration patience = Duration::Seconds(30)) {
    return {.epoch = 5, .deadline = loop_.Now() + patience};
  }
  template <class T, class F>
  ProviderResult<T> Await(F ask) {
    std::optional<ProviderResult<T>> answer;
    const Pending pending = ask([&](ProviderResult<T> result) { answer = std::move(result); });
    EXPECT_TRUE(scheduler_.RunUntilTrue([&] { return answer.has_value(); }, Duration::Hours(1)));
    return *std::move(answer);
  }
  ProviderResult<ProviderInstance> Create(const InstanceId& id) {
    return Await<ProviderInstance>(
        [&](auto done) { return provider_.Create(Call(), Request(id), std::move(done)); });
  }
  ProviderResult<ProviderInstance> Get(const InstanceId& id) {
    return Await<ProviderInstance>(
        [&](auto done) { return provider_.Get(Call(), {.instance_id = id}, std::move(done)); });
  }
  ProviderResult<ProviderDeleted> Delete(const InstanceId& id) {
    return Await<ProviderDeleted>(
        [&](auto done) { return provider_.Delete(Call(), {.instance_id = id}, std::move(done)); });
  }
  ProviderResult<ProviderPage> List(ProviderListRequest request = {}) {
    return Await<ProviderPage>(
        [&](auto done) { return provider_.List(Call(), std::move(request), std::move(done)); });
  }

  SimScheduler scheduler_;
  SimCloud cloud_;
  SimLoop loop_{scheduler_, Timestamp::FromUnix(1'760'000'000)};
  SimProvider provider_{
      cloud_,
      loop_,
      {.process = "one", .cluster = *ClusterId::Parse("prod"), .shard = *ShardId::Parse("a")}};
  Puidv7Generator ids_;
  std::uint8_t made_ = 0;
};

TEST_F(SimProviderTest, F7_RefusalsHaveTheirClassAndMakeNothing) {
  const std::vector<std::pair<std::uint32_t SimProviderFaults::*, ProviderReason>> rows = {
      {&SimProviderFaults::refused_capacity, ProviderReason::kCapacity},
      {&SimProviderFaults::refused_quota, ProviderReason::kQuota},
      {&SimProviderFaults::refused_auth, ProviderReason::kAuth},
      {&SimProviderFaults::refused_invalid, ProviderReason::kInvalid},
      {&SimProviderFaults::error_not_done, ProviderReason::kOther}};
  for (const auto& [fault, reason] : rows) {
    provider_.faults() = {};
    provider_.faults().*fault = 10'000;
    const auto refused = Create(NewId());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, reason);
    EXPECT_EQ(refused.error().error.outcome, Outcome::kNotDone);
  }
  EXPECT_TRUE(cloud_.Vms().empty());
}

TEST_F(SimProviderTest, F7_LimitsRefuseOnDemand) {
  cloud_.limits() = {.vms = 2, .types = {{"t", 1}}, .subnets = {{"s", 1}}};
  const InstanceId id = NewId();
  ASSERT_TRUE(Create(id));
  EXPECT_EQ(Create(NewId()).error().reason, ProviderReason::kCapacity);
  cloud_.limits().types.clear();
  EXPECT_EQ(Create(NewId()).error().reason, ProviderReason::kCapacity);  // The subnet.
  const auto free = Await<std::optional<std::uint64_t>>(
      [&](auto done) { return provider_.SubnetCapacity(Call(), "s", std::move(done)); });
  ASSERT_TRUE(free);
  EXPECT_EQ(*free, 0U);
  cloud_.limits().subnets.clear();
  ASSERT_TRUE(Create(NewId()));
  EXPECT_EQ(Create(NewId()).error().reason, ProviderReason::kQuota);
  EXPECT_TRUE(Create(id));  // What is there is answered all the same.
}

TEST_F(SimProviderTest, F10_OneCreateMakesTwoOfWhichOneIsAnswered) {
  cloud_.lies().makes_two = 10'000;
  const InstanceId id = NewId();
  const auto made = Create(id);
  ASSERT_TRUE(made);
  const std::vector<const SimVm*> vms = cloud_.VmsOf(id);
  ASSERT_EQ(vms.size(), 2U);
  EXPECT_NE(vms[0]->provider_id, vms[1]->provider_id);
  EXPECT_EQ(vms[0]->request, vms[1]->request);
  EXPECT_EQ(made->provider_instance_id, vms[1]->provider_id);
}

TEST_F(SimProviderTest, F10_TheIdOfAForgottenVmIsUsedAgainByAnotherInstance) {
  const InstanceId old = NewId();
  ASSERT_TRUE(Create(old));
  const std::string provider_id = cloud_.Vms().front()->provider_id;
  const InstanceId between = NewId();
  ASSERT_TRUE(Create(between));
  ASSERT_TRUE(cloud_.VanishByHand(provider_id));
  cloud_.lies().reuses_ids = true;
  const InstanceId next = NewId();
  const auto made = Create(next);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->provider_instance_id, provider_id);
  EXPECT_EQ(cloud_.Find(provider_id)->users, 2);
  // By its old name it is another's.
  const auto deleted = Await<ProviderDeleted>([&](auto done) {
    return provider_.Delete(Call(), {.instance_id = old, .provider_instance_id = provider_id},
                            std::move(done));
  });
  ASSERT_FALSE(deleted);
  EXPECT_EQ(deleted.error().reason, ProviderReason::kMismatch);
  // It boots as others do, whatever was going to happen to the first one.
  EXPECT_TRUE(scheduler_.RunUntilTrue(
      [&] { return cloud_.Find(provider_id)->shown.status == ProviderStatus::kRunning; },
      Duration::Minutes(1)));
  // Nothing else is free.
  const auto another = Create(NewId());
  ASSERT_TRUE(another);
  EXPECT_NE(another->provider_instance_id, provider_id);
}

TEST_F(SimProviderTest, F8_LostAnswersAndErrorsHideAnEffect) {
  const std::vector<std::uint32_t SimProviderFaults::*> rows = {
      &SimProviderFaults::answer_lost, &SimProviderFaults::applied_late,
      &SimProviderFaults::error_maybe_done, &SimProviderFaults::request_lost};
  for (const auto fault : rows) {
    int made = 0;
    for (int i = 0; i < 20; ++i) {
      const InstanceId id = NewId();
      provider_.faults() = {};
      provider_.faults().*fault = 10'000;
      const auto lost = Create(id);
      ASSERT_FALSE(lost);
      EXPECT_EQ(lost.error().error.outcome, Outcome::kMaybeDone);
      provider_.faults() = {};
      scheduler_.RunFor(Duration::Minutes(11));
      made += static_cast<int>(cloud_.VmsOf(id).size());
    }
    const bool always =
        fault == &SimProviderFaults::answer_lost || fault == &SimProviderFaults::applied_late;
    const bool never = fault == &SimProviderFaults::request_lost;
    EXPECT_TRUE(always ? made == 20 : never ? made == 0 : made > 2 && made < 18) << made;
  }
}

TEST_F(SimProviderTest, F8_ACreateThatArrivesLateWorksForADeadProcess) {
  const InstanceId id = NewId();
  auto loop = std::make_unique<SimLoop>(scheduler_, Timestamp());
  auto dying =
      std::make_unique<SimProvider>(cloud_, *loop,
                                    SimProvider::Options{.process = "dying",
                                                         .cluster = *ClusterId::Parse("prod"),
                                                         .shard = *ShardId::Parse("a"),
                                                         .faults = {.applied_late = 10'000}});
  {
    const Pending pending =
        dying->Create({.epoch = 3, .deadline = loop->Now() + Duration::Seconds(30)}, Request(id),
                      [](const auto&) { ADD_FAILURE() << "nobody is there to be answered"; });
  }
  dying.reset();
  loop.reset();
  scheduler_.RunFor(Duration::Minutes(11));
  ASSERT_EQ(cloud_.VmsOf(id).size(), 1U);
  EXPECT_EQ(cloud_.VmsOf(id).front()->process, "dying");
  EXPECT_EQ(cloud_.VmsOf(id).front()->epoch, 3);
}

TEST_F(SimProviderTest, F9_LooksLagByAtMostTheWindow) {
  provider_.faults().stale_look = 10'000;
  const Duration window = provider_.capabilities().consistency_window;
  int missed = 0;
  for (int i = 0; i < 30; ++i) {
    const InstanceId id = NewId();
    ASSERT_TRUE(Create(id));
    missed += Get(id) ? 0 : 1;
    scheduler_.RunFor(window);
    EXPECT_TRUE(Get(id));
  }
  EXPECT_GT(missed, 5);
  int disagreeing = 0;
  const auto full = List();
  ASSERT_TRUE(full);
  for (const ProviderInstance& vm : full->instances) (void)Delete(*vm.instance_id);
  for (int i = 0; i < 10; ++i) {
    const auto page = List();
    ASSERT_TRUE(page);
    std::set<ProviderStatus> states;
    for (const ProviderInstance& vm : page->instances) states.insert(vm.status);
    disagreeing += states.contains(ProviderStatus::kRunning) ? 1 : 0;
  }
  EXPECT_GT(disagreeing, 0) << "a deletion was seen by every listing at once";
}

TEST_F(SimProviderTest, F9_PagesFailAndAreShort) {
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(Create(NewId()));
  provider_.faults().short_page = 10'000;
  std::set<std::string> seen;
  std::string token;
  int pages = 0;
  do {
    const auto page = List({.page_token = token, .page_size = 5});
    ASSERT_TRUE(page);
    EXPECT_LT(page->instances.size(), 5U);
    for (const ProviderInstance& vm : page->instances) seen.insert(vm.shown_id);
    token = page->next_page_token;
    ASSERT_LT(++pages, 1'000);
  } while (!token.empty());
  EXPECT_EQ(seen.size(), 12U);
  provider_.faults() = {.page_failed = 10'000};
  EXPECT_FALSE(List());
}

TEST_F(SimProviderTest, F10_LiesAreTold) {
  const InstanceId id = NewId();
  cloud_.lies().forgets_token = 10'000;
  ASSERT_TRUE(Create(id));
  ASSERT_TRUE(Create(id));
  EXPECT_EQ(cloud_.VmsOf(id).size(), 2U);
  std::set<std::string> shown;
  for (int i = 0; i < 30; ++i) shown.insert(Get(id)->provider_instance_id);
  EXPECT_EQ(shown.size(), 2U);
  cloud_.lies() = {.listed_twice = 10'000};
  EXPECT_EQ(List()->instances.size(), 4U);
  cloud_.lies() = {.lists_nothing = true};
  EXPECT_TRUE(List()->instances.empty());
  EXPECT_TRUE(Get(id));
  cloud_.lies() = {.finds_nothing = true};
  EXPECT_EQ(Get(id).error().error.code, Code::kNotFound);
  cloud_.lies() = {.unmarked_for = Duration::Minutes(1)};
  const InstanceId young = NewId();
  ASSERT_TRUE(Create(young));
  EXPECT_FALSE(Get(young));
  scheduler_.RunFor(Duration::Minutes(1));
  EXPECT_TRUE(Get(young));
}

TEST_F(SimProviderTest, F10_WithoutLiesAProviderIdOfAnotherVmIsNeverDeleted) {
  const InstanceId one = NewId();
  const InstanceId two = NewId();
  ASSERT_TRUE(Create(one));
  const auto vm = Create(two);
  ASSERT_TRUE(vm);
  const ProviderTarget crossed{.instance_id = one,
                               .provider_instance_id = vm->provider_instance_id};
  const auto erase = [&] {
    return Await<ProviderDeleted>(
        [&](auto done) { return provider_.Delete(Call(), crossed, std::move(done)); });
  };
  EXPECT_FALSE(erase());
  cloud_.lies().ignores_instance_id = true;
  EXPECT_TRUE(erase());
  scheduler_.RunFor(Duration::Minutes(1));
  EXPECT_TRUE(cloud_.VmsOf(two).empty());
  EXPECT_EQ(cloud_.VmsOf(one).size(), 1U);
}

TEST_F(SimProviderTest, OtherShardsAndForeignVmsAreNotShownUnlessTheCloudLies) {
  ASSERT_TRUE(Create(NewId()));
  cloud_.AddByHand({.instance_id = NewId(),
                    .status = ProviderStatus::kRunning,
                    .managed = true,
                    .cluster_id = "other",
                    .shard = "a"});
  const std::string dangling = cloud_.AddByHand(
      {.status = ProviderStatus::kRunning, .managed = true, .cluster_id = "prod", .shard = "a"});
  const auto page = List();
  ASSERT_TRUE(page);
  ASSERT_EQ(page->instances.size(), 2U);
  EXPECT_EQ(page->instances[1].shown_id, "dangling-" + dangling);
  EXPECT_FALSE(page->instances[1].instance_id);
  cloud_.lies().lists_other_shards = true;
  EXPECT_EQ(List()->instances.size(), 3U);
}

TEST_F(SimProviderTest, HooksTellOfMachinesThatStartAndEnd) {
  std::map<std::string, int> started;
  std::map<std::string, int> gone;
  cloud_.set_on_started([&](const SimVm& vm) { ++started[vm.shown.shown_id]; });
  cloud_.set_on_gone([&](const SimVm& vm) { ++gone[vm.shown.shown_id]; });
  const std::vector<InstanceId> ids = {NewId(), NewId(), NewId(), NewId()};
  std::vector<std::string> provider_ids;
  for (const InstanceId& id : ids) provider_ids.push_back(Create(id)->provider_instance_id);
  EXPECT_TRUE(started.empty());
  scheduler_.RunFor(Duration::Minutes(1));
  EXPECT_EQ(started.size(), 4U);
  EXPECT_TRUE(gone.empty());
  EXPECT_TRUE(cloud_.SetStatusByHand(provider_ids[0], ProviderStatus::kFailed));
  EXPECT_TRUE(cloud_.VanishByHand(provider_ids[1]));
  EXPECT_FALSE(cloud_.VanishByHand(provider_ids[1]));
  EXPECT_FALSE(cloud_.VanishByHand("sim-999"));
  ASSERT_TRUE(Delete(ids[2]));
  const auto power = [&](auto method) {
    return Await<ProviderPowered>([&](auto done) {
      return (provider_.*method)(Call(), {.instance_id = ids[3]}, std::move(done));
    });
  };
  ASSERT_TRUE(power(&Provider::Stop));
  scheduler_.RunFor(Duration::Minutes(2));
  for (const InstanceId& id : ids) EXPECT_EQ(gone[id.text()], 1) << id.text();
  EXPECT_EQ(Get(ids[1]).error().error.code, Code::kNotFound);
  ASSERT_TRUE(power(&Provider::Start));
  scheduler_.RunFor(Duration::Minutes(1));
  EXPECT_EQ(started[ids[3].text()], 2);
}

TEST_F(SimProviderTest, VmsEndByThemselvesInEveryWay) {
  cloud_.lives().ends_after_min = Duration::Minutes(1);
  cloud_.lives().ends_after_max = Duration::Minutes(5);
  std::set<std::optional<ProviderStatus>> ends;
  cloud_.set_observer([&](const SimVmChange& change) {
    if (change.method == SimProviderMethod::kByItself &&
        change.before == ProviderStatus::kRunning) {
      ends.insert(change.after);
    }
  });
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(Create(NewId()));
  scheduler_.RunFor(Duration::Minutes(10));
  EXPECT_EQ(ends, (std::set<std::optional<ProviderStatus>>{std::nullopt, ProviderStatus::kStopped,
                                                           ProviderStatus::kFailed}));
}

TEST_F(SimProviderTest, TheObserverSeesWhoChangedWhatUnderWhichEpoch) {
  std::vector<std::string> changes;
  cloud_.set_observer([&](const SimVmChange& change) {
    changes.push_back(fmt::format("{}@{} {} {}", change.process, change.epoch,
                                  change.before ? ProviderStatusName(*change.before) : "new",
                                  change.after ? ProviderStatusName(*change.after) : "forgotten"));
  });
  const InstanceId id = NewId();
  ASSERT_TRUE(Create(id));
  scheduler_.RunFor(Duration::Minutes(1));
  ASSERT_TRUE(Delete(id));
  scheduler_.RunFor(Duration::Minutes(2));
  EXPECT_EQ(changes, (std::vector<std::string>{"one@5 new pending", "@0 pending running",
                                               "one@5 running deleting", "@0 deleting deleted",
                                               "@0 deleted forgotten"}));
  EXPECT_EQ(cloud_.Count(SimProviderMethod::kCreate), 1U);
  EXPECT_EQ(cloud_.Count(SimProviderMethod::kDelete), 1U);
}

TEST_F(SimProviderTest, NewsGetLostAndCome) {
  int news = 0;
  const Pending watch = provider_.Watch([&](const ProviderInstance&) { ++news; });
  provider_.faults().event_lost = 10'000;
  ASSERT_TRUE(Create(NewId()));
  scheduler_.RunFor(Duration::Minutes(1));
  EXPECT_EQ(news, 0);
  provider_.faults() = {.event_twice = 10'000};
  ASSERT_TRUE(Create(NewId()));
  scheduler_.RunFor(Duration::Minutes(1));
  EXPECT_EQ(news, 4);  // Pending and running, twice each.
}

TEST_F(SimProviderTest, TheLeaderNetworkBelongsToWhoeverTookItLast) {
  SimProvider other(
      cloud_, loop_,
      {.process = "two", .cluster = *ClusterId::Parse("prod"), .shard = *ShardId::Parse("a")});
  const config::LeaderNetwork network{.ip = "10.0.0.5"};
  const auto call = [&](SimProvider& who, auto method) {
    return Await<void>([&](auto done) { return (who.*method)(Call(), network, std::move(done)); });
  };
  ASSERT_TRUE(call(provider_, &Provider::AssignLeaderNetwork));
  EXPECT_EQ(cloud_.LeaderHolder(network.ip), "one");
  ASSERT_TRUE(call(other, &Provider::AssignLeaderNetwork));
  // The old leader detaches nothing that it no longer owns.
  ASSERT_TRUE(call(provider_, &Provider::ReleaseLeaderNetwork));
  EXPECT_EQ(cloud_.LeaderHolder(network.ip), "two");
  ASSERT_TRUE(call(other, &Provider::ReleaseLeaderNetwork));
  EXPECT_EQ(cloud_.LeaderHolder(network.ip), "");
}

// Everything at once, for a while; the trace of the run.
std::uint64_t TraceOf(std::uint64_t seed) {
  class World final : public SimProviderTest {
   public:
    explicit World(std::uint64_t seed) : SimProviderTest(seed) {}
    void TestBody() override {}
  };
  World world(seed);
  world.provider_.faults() = {.error_not_done = 500,
                              .error_maybe_done = 500,
                              .request_lost = 500,
                              .answer_lost = 500,
                              .applied_late = 500,
                              .delivered_twice = 500,
                              .refused_capacity = 500,
                              .stale_look = 5'000,
                              .short_page = 2'000,
                              .event_lost = 1'000,
                              .event_twice = 1'000};
  world.cloud_.lives().ends_after_max = Duration::Minutes(20);
  const Pending watch = world.provider_.Watch([](const ProviderInstance&) {});
  for (int i = 0; i < 40; ++i) {
    const InstanceId id = world.NewId();
    (void)world.Create(id);
    (void)world.Get(id);
    (void)world.List({.page_size = 3});
    if (i % 3 == 0) (void)world.Delete(id);
    // Without the lie no id ever has two VMs.
    EXPECT_LE(world.cloud_.VmsOf(id).size(), 1U);
  }
  return world.scheduler_.trace_hash();
}

TEST(SimProviderSeeds, ARunRepeatsItselfWithItsSeed) {
  std::set<std::uint64_t> traces;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::uint64_t trace = TraceOf(seed);
    EXPECT_EQ(TraceOf(seed), trace) << seed;
    traces.insert(trace);
  }
  EXPECT_EQ(traces.size(), 10U);
}

}  // namespace
}  // namespace nstance::sim
