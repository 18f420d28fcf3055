#include "test/contract/provider_contract.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "test/support/process_entropy.h"

namespace nstance::test {

InstanceId ProviderContractTest::NewId() {
  return ids_.Next("wrk", Timestamp::FromUnix(1'760'000'000), ProcessEntropy(++made_));
}

void ProviderContractTest::Settle() {
  world().RunFor(provider().capabilities().consistency_window);
}

ProviderResult<ProviderInstance> ProviderContractTest::Create(const ProviderCreate& request,
                                                              std::size_t way) {
  return Await<ProviderInstance>(
      [&](auto done) { return provider(way).Create(Call(), request, std::move(done)); });
}

ProviderResult<ProviderInstance> ProviderContractTest::Get(const InstanceId& id,
                                                           std::string provider_id,
                                                           std::size_t way) {
  const ProviderTarget target{.instance_id = id, .provider_instance_id = std::move(provider_id)};
  return Await<ProviderInstance>(
      [&](auto done) { return provider(way).Get(Call(), target, std::move(done)); });
}

ProviderResult<ProviderDeleted> ProviderContractTest::Delete(const InstanceId& id,
                                                             std::string provider_id,
                                                             std::size_t way) {
  const ProviderTarget target{.instance_id = id, .provider_instance_id = std::move(provider_id)};
  return Await<ProviderDeleted>(
      [&](auto done) { return provider(way).Delete(Call(), target, std::move(done)); });
}

ProviderResult<ProviderPage> ProviderContractTest::List(ProviderListRequest request,
                                                        std::size_t way) {
  return Await<ProviderPage>(
      [&](auto done) { return provider(way).List(Call(), std::move(request), std::move(done)); });
}

std::vector<ProviderInstance> ProviderContractTest::ListAll(std::size_t page_size) {
  std::vector<ProviderInstance> all;
  std::string token;
  do {
    auto page = List({.page_token = token, .page_size = page_size});
    EXPECT_TRUE(page) << Words(page);
    if (!page) return all;
    EXPECT_LE(page->instances.size(), page_size);
    for (ProviderInstance& vm : page->instances) {
      if (vm.status != ProviderStatus::kDeleted) all.push_back(std::move(vm));
    }
    token = page->next_page_token;
  } while (!token.empty() && all.size() < 10'000);
  return all;
}

ProviderInstance ProviderContractTest::MakeVm(const InstanceId& id) {
  const auto created = Create(world().Request(id));
  EXPECT_TRUE(created) << Words(created);
  EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));
  Settle();
  return created.value_or(ProviderInstance{});
}

bool ProviderContractTest::BecomesGone(const InstanceId& id) {
  for (int looks = 0; looks < 2'000; ++looks) {
    const auto seen = Get(id);
    if (seen && seen->status == ProviderStatus::kDeleted) return true;
    if (!seen && seen.error().error.code == Code::kNotFound) return true;
    world().RunFor(Duration::Milliseconds(20));
  }
  return false;
}

bool ProviderContractTest::BecomesStatus(const InstanceId& id, ProviderStatus status) {
  for (int looks = 0; looks < 2'000; ++looks) {
    const auto seen = Get(id);
    if (seen && seen->status == status) return true;
    world().RunFor(Duration::Milliseconds(20));
  }
  return false;
}

// A VM that runs may not have come to count itself yet.
bool ProviderContractTest::IsMadeOnce(const InstanceId& id) {
  return world().RunUntil([&] { return world().EverMade(id) > 0; }) && world().EverMade(id) == 1;
}

namespace {

TEST_P(ProviderContractTest, C1_TheSameIdNeverMakesTwoVms) {
  const InstanceId id = NewId();
  const auto first = Create(world().Request(id));
  ASSERT_TRUE(first) << Words(first);
  for (int i = 0; i < 3; ++i) {
    const auto again = Create(world().Request(id));
    ASSERT_TRUE(again) << Words(again);
    EXPECT_EQ(again->provider_instance_id, first->provider_instance_id);
  }
  Settle();
  EXPECT_EQ(ListAll().size(), 1U);
  EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));
  EXPECT_TRUE(IsMadeOnce(id));
}

TEST_P(ProviderContractTest, C1_ACreateFromAnotherProcessAnswersTheFirstVm) {
  const InstanceId id = NewId();
  const auto first = Create(world().Request(id), 0);
  ASSERT_TRUE(first) << Words(first);
  const auto second = Create(world().Request(id), 1);
  ASSERT_TRUE(second) << Words(second);
  EXPECT_EQ(second->provider_instance_id, first->provider_instance_id);
  EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));
  EXPECT_TRUE(IsMadeOnce(id));
}

TEST_P(ProviderContractTest, C1_AfterARestartCreateAnswersTheFirstVmAndItStillRuns) {
  const InstanceId id = NewId();
  const ProviderInstance first = MakeVm(id);
  world().Restart();
  const auto found = Get(id);
  ASSERT_TRUE(found) << Words(found);
  EXPECT_EQ(found->status, ProviderStatus::kRunning);
  const auto second = Create(world().Request(id));
  ASSERT_TRUE(second) << Words(second);
  EXPECT_EQ(second->provider_instance_id, first.provider_instance_id);
  EXPECT_EQ(second->status, ProviderStatus::kRunning);
  EXPECT_TRUE(IsMadeOnce(id));
}

TEST_P(ProviderContractTest, C1_ConcurrentCreatesOfOneIdMakeOneVm) {
  for (int round = 0; round < 3; ++round) {
    const InstanceId id = NewId();
    std::vector<Pending> pendings;
    std::vector<ProviderResult<ProviderInstance>> answers;
    for (std::size_t i = 0; i < 8; ++i) {
      pendings.push_back(provider(i % world().providers().size())
                             .Create(Call(), world().Request(id),
                                     [&](auto result) { answers.push_back(std::move(result)); }));
    }
    ASSERT_TRUE(world().RunUntil([&] { return answers.size() == 8; }));
    for (const auto& answer : answers) {
      ASSERT_TRUE(answer) << Words(answer);
      EXPECT_EQ(answer->provider_instance_id, answers.front()->provider_instance_id);
    }
    EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));
    EXPECT_TRUE(IsMadeOnce(id));
  }
  Settle();
  EXPECT_EQ(ListAll().size(), 3U);
}

TEST_P(ProviderContractTest, C1_OtherParametersAreRefusedAndTheFirstVmStays) {
  const InstanceId id = NewId();
  const ProviderCreate request = world().Request(id);
  ASSERT_TRUE(Create(request));
  std::vector<ProviderCreate> others(8, request);
  others[0].group = "other";
  others[1].template_name = "other";
  others[2].kind = "oth";
  others[3].instance_type = "other";
  others[4].subnet = "other";
  others[5].user_data += "# other\n";
  others[6].tags["other"] = "tag";
  others[7].tenant = *TenantId::Parse("other");
  for (const ProviderCreate& other : others) {
    const auto refused = Create(other, 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().error.code, Code::kAborted) << Words(refused);
    EXPECT_EQ(refused.error().error.outcome, Outcome::kMaybeDone);
    // User data never appears.
    EXPECT_EQ(refused.error().error.message.find("# other"), std::string::npos);
  }
  EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));
  EXPECT_TRUE(IsMadeOnce(id));
}

TEST_P(ProviderContractTest, C2_GetAndListFindAVmByItsInstanceIdAlone) {
  const InstanceId id = NewId();
  const ProviderCreate request = world().Request(id);
  const auto created = Create(request);
  ASSERT_TRUE(created) << Words(created);
  Settle();
  for (std::size_t way = 0; way < world().providers().size(); ++way) {
    const auto seen = Get(id, {}, way);
    ASSERT_TRUE(seen) << Words(seen);
    EXPECT_EQ(seen->instance_id, id);
    EXPECT_EQ(seen->shown_id, id.text());
    EXPECT_EQ(seen->provider_instance_id, created->provider_instance_id);
    EXPECT_EQ(seen->instance_type, request.instance_type);
    const auto named = Get(id, created->provider_instance_id, way);
    ASSERT_TRUE(named) << Words(named);
    EXPECT_EQ(named->provider_instance_id, created->provider_instance_id);
    const auto page = List({}, way);
    ASSERT_TRUE(page) << Words(page);
    ASSERT_EQ(page->instances.size(), 1U);
    EXPECT_EQ(page->instances.front().instance_id, id);
  }
}

TEST_P(ProviderContractTest, C3_AVmCarriesItsMarksFromTheFirstMomentOn) {
  const InstanceId id = NewId();
  const ProviderCreate request = world().Request(id);
  bool answered = false;
  const Pending pending =
      provider().Create(Call(), request, [&](const auto& /*result*/) { answered = true; });
  // Looks from the other side, while it is being made and afterwards.
  int seen = 0;
  for (int looks = 0; looks < 2'000 && (!answered || seen < 5); ++looks) {
    const auto page = List({}, 1);
    ASSERT_TRUE(page) << Words(page);
    for (const ProviderInstance& vm : page->instances) {
      ++seen;
      EXPECT_TRUE(vm.managed);
      EXPECT_EQ(vm.instance_id, id);
      EXPECT_EQ(vm.cluster_id, "prod");
      EXPECT_EQ(vm.shard, "a");
      EXPECT_EQ(vm.tenant, request.tenant.text());
      EXPECT_EQ(vm.group, request.group);
      EXPECT_EQ(vm.template_name, request.template_name);
      EXPECT_EQ(vm.kind, request.kind);
      EXPECT_EQ(vm.created_at, request.created_at);
      for (const auto& [key, value] : request.tags) EXPECT_EQ(vm.tags.at(key), value);
    }
  }
  EXPECT_TRUE(answered);
  EXPECT_GE(seen, 5);
}

TEST_P(ProviderContractTest, C3_NothingIsDeletedUnlessItsInstanceIdMatches) {
  const InstanceId one = NewId();
  const InstanceId two = NewId();
  const ProviderInstance first = MakeVm(one);
  const ProviderInstance second = MakeVm(two);
  const auto refused = Delete(one, second.provider_instance_id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error.outcome, Outcome::kNotDone) << Words(refused);
  EXPECT_NE(refused.error().error.code, Code::kNotFound) << Words(refused);
  EXPECT_EQ(refused.error().reason, ProviderReason::kMismatch) << Words(refused);
  const auto looked = Get(one, second.provider_instance_id);
  ASSERT_FALSE(looked);
  EXPECT_EQ(looked.error().reason, ProviderReason::kMismatch) << Words(looked);
  EXPECT_NE(looked.error().error.code, Code::kNotFound) << Words(looked);
  Settle();
  EXPECT_TRUE(BecomesStatus(one, ProviderStatus::kRunning));
  EXPECT_TRUE(BecomesStatus(two, ProviderStatus::kRunning));
}

TEST_P(ProviderContractTest, C4_DeletingWhatIsGoneIsSuccessAndMayBeRepeated) {
  const InstanceId id = NewId();
  const auto nothing = Delete(id);
  ASSERT_TRUE(nothing) << Words(nothing);
  EXPECT_EQ(*nothing, ProviderDeleted::kAlreadyGone);
  const ProviderInstance vm = MakeVm(id);
  const auto deleted = Delete(id, vm.provider_instance_id);
  ASSERT_TRUE(deleted) << Words(deleted);
  EXPECT_EQ(*deleted, ProviderDeleted::kDone);
  EXPECT_TRUE(Delete(id, vm.provider_instance_id));
  EXPECT_TRUE(Delete(id, {}, 1));
  EXPECT_TRUE(BecomesGone(id));
  Settle();
  const auto again = Delete(id, vm.provider_instance_id);
  ASSERT_TRUE(again) << Words(again);
  EXPECT_EQ(*again, ProviderDeleted::kAlreadyGone);
}

TEST_P(ProviderContractTest, C4_DeleteWhileCreateRunsIsSafe) {
  for (int round = 0; round < 6; ++round) {
    const InstanceId id = NewId();
    std::optional<ProviderResult<ProviderInstance>> created;
    std::optional<ProviderResult<ProviderDeleted>> deleted;
    const Pending create = provider().Create(Call(), world().Request(id),
                                             [&](auto result) { created = std::move(result); });
    world().RunFor(Duration::Milliseconds(round * 15));
    const Pending erase =
        provider(static_cast<std::size_t>(round) % 2)
            .Delete(Call(), {.instance_id = id}, [&](auto result) { deleted = std::move(result); });
    ASSERT_TRUE(world().RunUntil([&] { return created && deleted; }));
    EXPECT_TRUE(*deleted) << Words(*deleted);
    // Whatever came first: one more Delete after both answers ends it for good.
    const auto last = Delete(id);
    ASSERT_TRUE(last) << Words(last);
    EXPECT_TRUE(BecomesGone(id));
    EXPECT_LE(world().EverMade(id), 2U);
  }
  Settle();
  world().RunFor(provider().capabilities().consistency_window);
  EXPECT_TRUE(ListAll().empty());
}

TEST_P(ProviderContractTest, C5_NotFoundIsSaidOnlyOfWhatIsNotThere) {
  const InstanceId id = NewId();
  const InstanceId unknown = NewId();
  (void)MakeVm(id);
  const auto absent = Get(unknown);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().error.code, Code::kNotFound) << Words(absent);
  world().Break();
  for (const InstanceId& asked : {id, unknown}) {
    const auto seen = Get(asked);
    ASSERT_FALSE(seen);
    EXPECT_NE(seen.error().error.code, Code::kNotFound) << Words(seen);
    const auto deleted = Delete(asked);
    EXPECT_FALSE(deleted) << "a Delete that could not look said that it was done";
  }
  world().Heal();
  EXPECT_TRUE(Get(id));
}

TEST_P(ProviderContractTest, C6_AListingIsCompleteOverAllPages) {
  std::set<std::string> expected;
  for (int i = 0; i < 7; ++i) {
    const InstanceId id = NewId();
    expected.insert(id.text());
    const auto created = Create(world().Request(id), static_cast<std::size_t>(i) % 2);
    ASSERT_TRUE(created) << Words(created);
  }
  Settle();
  for (const std::size_t page_size : {1U, 3U, 7U, 100U}) {
    std::set<std::string> listed;
    const auto all = ListAll(page_size);
    for (const ProviderInstance& vm : all) listed.insert(vm.shown_id);
    EXPECT_EQ(listed, expected) << page_size;
    EXPECT_EQ(all.size(), expected.size()) << page_size;
  }
}

TEST_P(ProviderContractTest, C6_AListingThatFailsIsAnErrorAndAnEmptyOneIsNot) {
  const auto empty = List({});
  ASSERT_TRUE(empty) << Words(empty);
  EXPECT_TRUE(empty->instances.empty());
  EXPECT_EQ(empty->next_page_token, "");
  for (int i = 0; i < 3; ++i) (void)MakeVm(NewId());
  const auto first = List({.page_size = 2});
  ASSERT_TRUE(first) << Words(first);
  ASSERT_NE(first->next_page_token, "");
  world().Break();
  EXPECT_FALSE(List({}));
  EXPECT_FALSE(List({.page_token = first->next_page_token}));
  world().Heal();
  const auto rest = List({.page_token = first->next_page_token});
  ASSERT_TRUE(rest) << Words(rest);
  EXPECT_EQ(rest->instances.size(), 1U);
}

TEST_P(ProviderContractTest, C6_APageThatNeverWasIsRefused) {
  const auto page = List({.page_token = "../../etc/passwd"});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().error.code, Code::kInvalidArgument) << Words(page);
}

TEST_P(ProviderContractTest, C7_AfterTheWindowEveryLookSaysThatADeletedVmIsGone) {
  const InstanceId id = NewId();
  const InstanceId other = NewId();
  (void)MakeVm(id);
  (void)MakeVm(other);
  ASSERT_TRUE(Delete(id));
  ASSERT_TRUE(BecomesGone(id));
  Settle();
  for (int look = 0; look < 5; ++look) {
    for (std::size_t way = 0; way < world().providers().size(); ++way) {
      const auto seen = Get(id, {}, way);
      EXPECT_TRUE(seen ? seen->status == ProviderStatus::kDeleted
                       : seen.error().error.code == Code::kNotFound)
          << Words(seen);
    }
    const auto all = ListAll();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all.front().instance_id, other);
  }
}

TEST_P(ProviderContractTest, C8_StartAndStopMayBeRepeatedWhereTheyAreOffered) {
  const InstanceId id = NewId();
  const ProviderInstance vm = MakeVm(id);
  const auto power = [&](auto method, const InstanceId& which) {
    return Await<ProviderPowered>([&](auto done) {
      return (provider().*method)(Call(), {.instance_id = which}, std::move(done));
    });
  };
  if (!provider().capabilities().power) {
    for (const auto method : {&Provider::Start, &Provider::Stop}) {
      const auto refused = power(method, id);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().error.code, Code::kUnimplemented) << Words(refused);
    }
    EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));
    return;
  }
  EXPECT_EQ(power(&Provider::Start, id), ProviderPowered::kAlreadySo);
  EXPECT_EQ(power(&Provider::Stop, id), ProviderPowered::kAccepted);
  EXPECT_EQ(power(&Provider::Stop, id), ProviderPowered::kAlreadySo);
  EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kStopped));
  EXPECT_EQ(power(&Provider::Start, id), ProviderPowered::kAccepted);
  EXPECT_EQ(power(&Provider::Start, id), ProviderPowered::kAlreadySo);
  EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));
  // Disk and identity stay.
  const auto seen = Get(id);
  ASSERT_TRUE(seen) << Words(seen);
  EXPECT_EQ(seen->provider_instance_id, vm.provider_instance_id);
  const auto nothing = power(&Provider::Stop, NewId());
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().error.code, Code::kNotFound) << Words(nothing);
}

TEST_P(ProviderContractTest, C9_ACreateWithoutAnAnswerIsMaybeDoneAndALookTells) {
  const InstanceId id = NewId();
  world().LoseAnswers();
  const auto lost = Await<ProviderInstance>([&](auto done) {
    return provider().Create(Call(Duration::Seconds(2)), world().Request(id), std::move(done));
  });
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().error.code, Code::kDeadlineExceeded) << Words(lost);
  EXPECT_EQ(lost.error().error.outcome, Outcome::kMaybeDone);
  world().GiveAnswers();
  EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));
  // The same bytes again are harmless.
  const auto again = Create(world().Request(id));
  ASSERT_TRUE(again) << Words(again);
  EXPECT_TRUE(IsMadeOnce(id));
}

TEST_P(ProviderContractTest, C9_ADeleteWithoutAnAnswerIsMaybeDoneAndALookTells) {
  const InstanceId id = NewId();
  (void)MakeVm(id);
  world().LoseAnswers();
  const auto lost = Await<ProviderDeleted>([&](auto done) {
    return provider().Delete(Call(Duration::Seconds(2)), {.instance_id = id}, std::move(done));
  });
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().error.code, Code::kDeadlineExceeded) << Words(lost);
  EXPECT_EQ(lost.error().error.outcome, Outcome::kMaybeDone);
  world().GiveAnswers();
  EXPECT_TRUE(BecomesGone(id));
  EXPECT_TRUE(Delete(id));
}

TEST_P(ProviderContractTest, ACallWhoseDeadlineIsOverDoesNothing) {
  const InstanceId id = NewId();
  const auto late = Await<ProviderInstance>([&](auto done) {
    return provider().Create({.epoch = 1, .deadline = loop().Now()}, world().Request(id),
                             std::move(done));
  });
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().error.code, Code::kDeadlineExceeded) << Words(late);
  EXPECT_EQ(late.error().error.outcome, Outcome::kNotDone);
  Settle();
  EXPECT_EQ(world().EverMade(id), 0U);
  const auto seen = Get(id);
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().error.code, Code::kNotFound) << Words(seen);
}

TEST_P(ProviderContractTest, AMutationOfAnEpochThatIsOverIsRefused) {
  const InstanceId id = NewId();
  const auto call = [&](std::int64_t epoch) {
    return ProviderCall{.epoch = epoch, .deadline = loop().Now() + Duration::Seconds(60)};
  };
  ASSERT_TRUE(Await<ProviderDeleted>([&](auto done) {
    return provider().Delete(call(7), {.instance_id = NewId()}, std::move(done));
  }));
  const auto created = Await<ProviderInstance>(
      [&](auto done) { return provider().Create(call(6), world().Request(id), std::move(done)); });
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().error.code, Code::kFailedPrecondition) << Words(created);
  EXPECT_EQ(created.error().error.outcome, Outcome::kNotDone);
  EXPECT_EQ(world().EverMade(id), 0U);
  ASSERT_TRUE(Await<ProviderInstance>(
      [&](auto done) { return provider().Create(call(7), world().Request(id), std::move(done)); }));
  const auto deleted = Await<ProviderDeleted>(
      [&](auto done) { return provider().Delete(call(1), {.instance_id = id}, std::move(done)); });
  ASSERT_FALSE(deleted);
  EXPECT_EQ(deleted.error().error.code, Code::kFailedPrecondition) << Words(deleted);
  EXPECT_NE(deleted.error().reason, ProviderReason::kMismatch) << Words(deleted);
  EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));  // A look needs no epoch.
}

TEST_P(ProviderContractTest, DroppingThePendingDropsTheAnswerAndNotTheEffect) {
  const InstanceId id = NewId();
  bool called = false;
  {
    const Pending pending =
        provider().Create(Call(), world().Request(id), [&](const auto&) { called = true; });
    // A look after it has surely been sent.
    (void)Get(id);
    world().RunFor(Duration::Milliseconds(10));
  }
  EXPECT_TRUE(called || BecomesStatus(id, ProviderStatus::kRunning) || world().EverMade(id) == 0);
  const bool before = called;
  world().RunFor(Duration::Milliseconds(300));
  EXPECT_EQ(called, before);
}

TEST_P(ProviderContractTest, TooMuchUserDataIsRefusedAndMakesNothing) {
  const InstanceId id = NewId();
  ProviderCreate request = world().Request(id);
  request.user_data = std::string(Provider::kMaxUserDataBytes + 1, 'x');
  const auto refused = Create(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error.code, Code::kInvalidArgument) << Words(refused);
  EXPECT_EQ(refused.error().error.outcome, Outcome::kNotDone);
  EXPECT_EQ(refused.error().reason, ProviderReason::kInvalid);
  EXPECT_LT(refused.error().error.message.size(), 500U);
  Settle();
  EXPECT_TRUE(ListAll().empty());
}

TEST_P(ProviderContractTest, NewsTellOfAVmThatEndsAndOfOneThatIsDeleted) {
  if (!provider().capabilities().push_events) return;  // Does not apply.
  const InstanceId ends = NewId();
  const InstanceId goes = NewId();
  (void)MakeVm(ends);
  (void)MakeVm(goes);
  std::vector<ProviderInstance> news;
  Pending watch = provider().Watch([&](const ProviderInstance& vm) { news.push_back(vm); });
  const auto heard = [&](const InstanceId& id, ProviderStatus status) {
    return std::ranges::any_of(
        news, [&](const auto& vm) { return vm.instance_id == id && vm.status == status; });
  };
  world().EndVm(ends);
  EXPECT_TRUE(world().RunUntil([&] { return heard(ends, ProviderStatus::kStopped); }));
  EXPECT_TRUE(BecomesStatus(ends, ProviderStatus::kStopped));
  ASSERT_TRUE(Delete(goes));
  EXPECT_TRUE(world().RunUntil([&] { return heard(goes, ProviderStatus::kDeleted); }));
  for (const ProviderInstance& vm : news) EXPECT_NE(vm.provider_instance_id, "");
  // Nobody listens, nobody is told.
  watch.Cancel();
  const std::size_t before = news.size();
  ASSERT_TRUE(Delete(ends));
  EXPECT_TRUE(BecomesGone(ends));
  world().RunFor(Duration::Milliseconds(200));
  EXPECT_EQ(news.size(), before);
}

TEST_P(ProviderContractTest, NewsComeAlsoOfVmsThatAnotherProcessMade) {
  if (!provider().capabilities().push_events) return;  // Does not apply.
  const InstanceId id = NewId();
  const auto created = Create(world().Request(id), 0);
  ASSERT_TRUE(created) << Words(created);
  ASSERT_TRUE(BecomesStatus(id, ProviderStatus::kRunning));
  Settle();
  const auto seen = Get(id, {}, 1);
  ASSERT_TRUE(seen) << Words(seen);
  bool stopped = false;
  const Pending watch = provider(1).Watch([&](const ProviderInstance& vm) {
    stopped = stopped || (vm.instance_id == id && vm.status == ProviderStatus::kStopped);
  });
  world().EndVm(id);
  EXPECT_TRUE(world().RunUntil([&] { return stopped; }));
}

TEST_P(ProviderContractTest, TheLeaderNetworkIsTakenAndGivenWhereItIsOffered) {
  const config::LeaderNetwork network{.ip = "10.0.0.5", .interface_id = "eni-1"};
  const auto call = [&](auto method, std::size_t way) {
    return Await<void>(
        [&](auto done) { return (provider(way).*method)(Call(), network, std::move(done)); });
  };
  const auto assigned = call(&Provider::AssignLeaderNetwork, 0);
  if (!provider().capabilities().leader_network) {
    ASSERT_FALSE(assigned);
    EXPECT_EQ(assigned.error().error.code, Code::kUnimplemented) << Words(assigned);
    EXPECT_FALSE(call(&Provider::ReleaseLeaderNetwork, 0));
    return;
  }
  EXPECT_TRUE(assigned) << Words(assigned);
  EXPECT_TRUE(call(&Provider::AssignLeaderNetwork, 0));
  EXPECT_TRUE(call(&Provider::AssignLeaderNetwork, 1));
  EXPECT_TRUE(call(&Provider::ReleaseLeaderNetwork, 0));
  EXPECT_TRUE(call(&Provider::ReleaseLeaderNetwork, 1));
}

TEST_P(ProviderContractTest, AnUnknownTypeOrSubnetIsUnknownAndNoError) {
  EXPECT_TRUE(Await<std::optional<std::uint64_t>>([&](auto done) {
    return provider().SubnetCapacity(Call(), "nobody-knows", std::move(done));
  }));
  EXPECT_TRUE(Await<std::optional<config::Arch>>([&](auto done) {
    return provider().InstanceTypeArch(Call(), "nobody-knows", std::move(done));
  }));
}

}  // namespace
}  // namespace nstance::test
