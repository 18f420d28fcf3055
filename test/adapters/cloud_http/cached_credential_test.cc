// The cache of credentials: the decision as a table, then the cache in simulated time.
#include "adapters/cloud_http/cached_credential.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/cloud_http/refresh_policy.h"
#include "sim/sim_loop.h"

namespace nstance::cloud {
namespace {

const Timestamp kWall = Timestamp::FromUnix(1'000'000);
const Instant kNow = Instant::FromClock(Duration::Hours(1));

RefreshDecision Decide(std::optional<Duration> left, bool fetching, Duration since_fetch) {
  CredentialState state{
      .present = left.has_value(), .fetching = fetching, .last_fetch_end = kNow - since_fetch};
  if (left) state.expires_at = kWall + *left;
  return DecideRefresh(state, kWall, kNow);
}

TEST(RefreshPolicyTest, WithoutACredentialOneIsFetched) {
  const auto decision = Decide({}, false, Duration::Hours(1));
  EXPECT_FALSE(decision.use);
  EXPECT_TRUE(decision.fetch);
  EXPECT_FALSE(Decide({}, true, Duration::Hours(1)).fetch);
  EXPECT_TRUE(Decide({}, false, Duration()).fetch) << "a pause is for those who have one";
}

TEST(RefreshPolicyTest, AnExpiredOneIsNeverUsed) {
  EXPECT_FALSE(Decide(Duration(), false, Duration::Hours(1)).use);
  EXPECT_FALSE(Decide(Duration::Seconds(-1), false, Duration::Hours(1)).use);
  EXPECT_TRUE(Decide(Duration::Seconds(-1), false, Duration()).fetch);
  EXPECT_TRUE(Decide(Duration::Nanoseconds(1), false, Duration()).use);
}

TEST(RefreshPolicyTest, ANewOneIsFetchedInTheLastFiveMinutes) {
  EXPECT_FALSE(Decide(Duration::Seconds(301), false, Duration::Hours(1)).fetch);
  const auto ending = Decide(Duration::Seconds(300), false, Duration::Hours(1));
  EXPECT_TRUE(ending.use);
  EXPECT_TRUE(ending.fetch);
  EXPECT_FALSE(Decide(Duration::Seconds(300), true, Duration::Hours(1)).fetch);
  EXPECT_FALSE(Decide(Duration::Seconds(300), false, Duration::Seconds(19)).fetch);
  EXPECT_TRUE(Decide(Duration::Seconds(300), false, Duration::Seconds(20)).fetch);
}

TEST(RefreshPolicyTest, WhatNeverExpiresIsNeverFetchedAgain) {
  const auto decision =
      DecideRefresh({.present = true, .last_fetch_end = kNow - Duration::Days(9)}, kWall, kNow);
  EXPECT_TRUE(decision.use);
  EXPECT_FALSE(decision.fetch);
}

struct Token {
  std::string text;
  std::optional<Timestamp> expires_at;
};

class CachedCredentialTest : public testing::Test {
 protected:
  using Cache = CachedCredential<Token>;

  void Answer(Result<Token> token, Duration delay = Duration::Milliseconds(10)) {
    fetch_ = [this, token = std::move(token), delay](Cache::Fetched done) {
      ++fetches_;
      return loop_.CallAfter(delay, [token, done = std::move(done)]() mutable { done(token); });
    };
  }

  // The text of the token, or the error's message.
  std::string Get() {
    std::optional<std::string> answer;
    const Pending pending = cache_.Get(
        [&](const auto& token) { answer = token ? (*token)->text : token.error().message; });
    EXPECT_FALSE(answer.has_value()) << "answered from inside the call";
    scheduler_.RunUntilTrue([&] { return answer.has_value(); }, Duration::Minutes(1));
    return answer.value_or("no answer");
  }

  Token Lasting(std::string text, Duration life) {
    return {.text = std::move(text), .expires_at = loop_.WallNow() + life};
  }

  sim::SimScheduler scheduler_{1};
  sim::SimLoop loop_{scheduler_, Timestamp::FromUnix(1'000'000)};
  int fetches_ = 0;
  std::function<Pending(Cache::Fetched)> fetch_;
  Cache cache_{loop_, [this](Cache::Fetched done) { return fetch_(std::move(done)); }};
};

TEST_F(CachedCredentialTest, OneFetchServesAllWhoWait) {
  Answer(Lasting("one", Duration::Hours(1)));
  int answers = 0;
  std::vector<Pending> pendings;
  for (int i = 0; i < 50; ++i) {
    pendings.push_back(cache_.Get([&](const auto& token) {
      EXPECT_TRUE(token && (*token)->text == "one");
      ++answers;
    }));
  }
  pendings.resize(40);
  scheduler_.RunFor(Duration::Seconds(1));
  EXPECT_EQ(answers, 40);
  EXPECT_EQ(fetches_, 1);
  EXPECT_EQ(Get(), "one");
  EXPECT_EQ(fetches_, 1);
}

TEST_F(CachedCredentialTest, TheOldOneIsUsedWhileANewOneIsFetched) {
  Answer(Lasting("old", Duration::Hours(1)));
  EXPECT_EQ(Get(), "old");
  scheduler_.RunFor(Duration::Minutes(54));
  Answer(Lasting("new", Duration::Hours(1)), Duration::Seconds(5));
  EXPECT_EQ(Get(), "old");
  EXPECT_EQ(fetches_, 1);
  scheduler_.RunFor(Duration::Minutes(2));
  EXPECT_EQ(Get(), "old");
  EXPECT_EQ(Get(), "old");
  EXPECT_EQ(fetches_, 2) << "one fetch at a time";
  scheduler_.RunFor(Duration::Seconds(6));
  EXPECT_EQ(Get(), "new");
  EXPECT_EQ(fetches_, 2);
}

TEST_F(CachedCredentialTest, AFailedFetchKeepsTheOldOneUntilItExpires) {
  Answer(Lasting("old", Duration::Minutes(10)));
  EXPECT_EQ(Get(), "old");
  Answer(Fail(Unavailable("down")));
  scheduler_.RunFor(Duration::Minutes(6));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Get(), "old");
  EXPECT_EQ(fetches_, 2) << "not one fetch per call";
  scheduler_.RunFor(Duration::Seconds(21));
  EXPECT_EQ(Get(), "old");
  EXPECT_EQ(fetches_, 3);
  scheduler_.RunFor(Duration::Minutes(4));
  EXPECT_EQ(Get(), "down");
  Answer(Lasting("new", Duration::Hours(1)));
  EXPECT_EQ(Get(), "new");
}

TEST_F(CachedCredentialTest, WhatHasExpiredWhenItComesIsNotUsed) {
  Answer(Lasting("stale", Duration::Seconds(-1)));
  EXPECT_EQ(Get(), "the new credential has expired");
}

TEST_F(CachedCredentialTest, AnAnswerMayAskAgainAndDropOthers) {
  Answer(Fail(Unavailable("down")));
  std::vector<Pending> pendings(3);
  int answers = 0;
  pendings[0] = cache_.Get([&](const auto&) {
    ++answers;
    pendings[1] = Pending();
    Answer(Lasting("second", Duration::Hours(1)));
    pendings[0] = cache_.Get([&](const auto& token) {
      EXPECT_TRUE(token);
      ++answers;
    });
  });
  pendings[1] = cache_.Get([&](const auto&) { ADD_FAILURE() << "it was dropped"; });
  pendings[2] = cache_.Get([&](const auto&) { ++answers; });
  scheduler_.RunFor(Duration::Seconds(1));
  EXPECT_EQ(answers, 3);
}

}  // namespace
}  // namespace nstance::cloud
