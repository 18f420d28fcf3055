// The suite of provider_contract.h against the local provider, on real processes, and the simulated
// one: honest, and with looks that always lag by up to the consistency window.
#include "test/contract/provider_contract.h"

#include <signal.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include <fmt/core.h>

#include "adapters/provider_local/local_provider.h"
#include "adapters/provider_local/processes.h"
#include "adapters/real_loop/real_loop.h"
#include "sim/sim_provider.h"
#include "test/adapters/provider_local/local_world.h"
#include "test/support/loop_runner.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

class LocalUnderTest final : public ProviderUnderTest {
 public:
  LocalUnderTest() { Restart(); }
  ~LocalUnderTest() override {
    GiveAnswers();
    ways_.clear();
  }

  Loop& loop() override { return world_.loop(); }
  std::vector<Provider*> providers() override {
    std::vector<Provider*> all;
    for (const auto& way : ways_) all.push_back(way.get());
    return all;
  }
  bool RunUntil(const std::function<bool()>& done) override {
    return test::RunUntil(world_.loop(), done, Duration::Seconds(60));
  }
  void RunFor(Duration length) override {
    bool over = false;
    const Pending timer = world_.loop().CallAfter(length, [&] { over = true; });
    (void)RunUntil([&] { return over; });
  }
  void Restart() override {
    ways_.clear();
    for (int i = 0; i < 2; ++i) {
      ways_.push_back(world_.Open([this](std::string_view step) { WaitAt(step); }));
    }
  }

  ProviderCreate Request(const InstanceId& id) override { return world_.Request(id); }
  std::size_t EverMade(const InstanceId& id) override { return world_.Starts(id); }
  void EndVm(const InstanceId& id) override { world_.EndVm(id); }

  // No descriptor is left: nothing can be looked at.
  void Break() override {
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{.rlim_cur = 3, .rlim_max = before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  void Heal() override { ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

  void LoseAnswers() override { hold_ = true; }
  void GiveAnswers() override {
    {
      const std::scoped_lock lock(mutex_);
      hold_ = false;
    }
    released_.notify_all();
  }

 private:
  // The effect is on disk, or the signals are sent, but nobody is told.
  void WaitAt(std::string_view step) {
    if (step != "create-started" && step != "remove-removed") return;
    std::unique_lock lock(mutex_);
    released_.wait(lock, [this] { return !hold_.load(); });
  }

  LocalWorld world_;
  std::mutex mutex_;
  std::condition_variable released_;
  std::atomic<bool> hold_ = false;
  rlimit before_{};
  std::vector<std::unique_ptr<LocalProvider>> ways_;
};

class SimUnderTest final : public ProviderUnderTest {
 public:
  explicit SimUnderTest(std::uint32_t stale) : stale_(stale), cloud_(scheduler_, {}) {
    cloud_.set_observer([this](const sim::SimVmChange& change) {
      if (!change.before && change.vm->shown.instance_id) ++made_[*change.vm->shown.instance_id];
    });
    Restart();
  }
  Loop& loop() override { return *loop_; }
  std::vector<Provider*> providers() override { return {ways_[0].get(), ways_[1].get()}; }
  bool RunUntil(const std::function<bool()>& done) override {
    return scheduler_.RunUntilTrue(done, Duration::Minutes(30));
  }
  void RunFor(Duration length) override { scheduler_.RunFor(length); }
  void Restart() override {
    ways_ = {};
    loop_ = std::make_unique<sim::SimLoop>(scheduler_, Timestamp::FromUnix(1'760'000'000));
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      ways_.at(i) = std::make_unique<sim::SimProvider>(
          cloud_, *loop_,
          sim::SimProvider::Options{.process = fmt::format("way-{}", i),
                                    .cluster = *ClusterId::Parse("prod"),
                                    .shard = *ShardId::Parse("a"),
                                    .faults = {.stale_look = stale_}});
    }
  }

  ProviderCreate Request(const InstanceId& id) override {
    return {.instance_id = id,
            .tenant = DefaultTenant(),
            .group = "workers",
            .template_name = "small",
            .kind = "wrk",
            .instance_type = "t3.small",
            .subnet = "subnet-1",
            .user_data = "#!/bin/bash\n",
            .tags = {{"team", "blue"}},
            .created_at = Timestamp::FromUnix(1'760'000'000)};
  }
  std::size_t EverMade(const InstanceId& id) override { return made_[id]; }
  void EndVm(const InstanceId& id) override {
    for (const sim::SimVm* vm : cloud_.VmsOf(id)) {
      EXPECT_TRUE(cloud_.SetStatusByHand(vm->provider_id, ProviderStatus::kStopped));
    }
  }
  void Break() override {
    for (const auto& way : ways_) way->link().requests_lost = true;
  }
  void Heal() override {
    for (const auto& way : ways_) way->link().requests_lost = false;
  }
  void LoseAnswers() override {
    for (const auto& way : ways_) way->link().answers_lost = true;
  }
  void GiveAnswers() override {
    for (const auto& way : ways_) way->link().answers_lost = false;
  }

 private:
  std::uint32_t stale_;
  sim::SimScheduler scheduler_{7};
  sim::SimCloud cloud_;
  std::map<InstanceId, std::size_t> made_;
  std::unique_ptr<sim::SimLoop> loop_;
  std::array<std::unique_ptr<sim::SimProvider>, 2> ways_;
};

INSTANTIATE_TEST_SUITE_P(
    Providers, ProviderContractTest,
    testing::Values(ProviderTestKind{.name = "Local",
                                     .make = [] { return std::make_unique<LocalUnderTest>(); }},
                    ProviderTestKind{.name = "Simulated",
                                     .make = [] { return std::make_unique<SimUnderTest>(0); }},
                    ProviderTestKind{
                        .name = "SimulatedStale",
                        .make = [] { return std::make_unique<SimUnderTest>(10'000); }}),
    ProviderTestKindName);

}  // namespace
}  // namespace nstance::test
