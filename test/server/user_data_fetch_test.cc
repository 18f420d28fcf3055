// The user data runner on a scripted client in simulated time: what it asks for, what it keeps, and
// that it can be dropped at any moment.
#include "server/user_data_fetch.h"

#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "core/instance_config/user_data.h"
#include "sim/sim_loop.h"
#include "sim/sim_scheduler.h"
#include "test/support/scripted_http.h"

namespace nstance::test {
namespace {

using config::UserData;

UserData At(std::string url) { return {.source = "url", .content = std::move(url)}; }

class UserDataFetchTest : public testing::Test {
 public:
  Result<std::string> Fetch(const UserData& userdata) {
    std::optional<Result<std::string>> answer;
    UserDataFetch fetch({.loop = loop, .http = http, .cache = cache}, userdata,
                        [&](Result<std::string> body) { answer = std::move(body); });
    fetch.Start();
    EXPECT_FALSE(answer.has_value()) << "answered from inside Start()";
    scheduler.RunFor(Duration::Seconds(20));
    if (!answer) return Fail(Internal("no answer"));
    return *std::move(answer);
  }

  sim::SimScheduler scheduler{1};
  sim::SimLoop loop{scheduler, Timestamp()};
  ScriptedHttp http{loop};
  UserDataCache cache;
};

TEST_F(UserDataFetchTest, AsksWithinItsLimits) {
  http.Answer(Reply(200, "body"));
  EXPECT_EQ(Fetch(At("https://example.com/u")), "body");
  const HttpRequest& request = http.last();
  EXPECT_EQ(request.method, HttpMethod::kGet);
  EXPECT_EQ(request.url, "https://example.com/u");
  EXPECT_EQ(request.deadline, Duration::Seconds(10));
  EXPECT_EQ(request.max_response_bytes, kMaxUserDataBytes);
  EXPECT_EQ(request.redirect_scope, HttpRedirectScope::kSameHost);
  EXPECT_EQ(request.addresses, HttpAddresses::kNotLinkLocal);
  EXPECT_FALSE(HeaderOf(request, "if-none-match"));
  EXPECT_FALSE(HeaderOf(request, "authorization"));
}

TEST_F(UserDataFetchTest, ReusesTheBodyOfTheLast200) {
  http.Answer(Reply(200, "one", {{"etag", "\"1\""}, {"last-modified", "yesterday"}}));
  EXPECT_EQ(Fetch(At("https://example.com/u")), "one");
  http.Answer([](const HttpRequest& request) -> Result<HttpResponse> {
    EXPECT_EQ(HeaderOf(request, "if-none-match"), "\"1\"");
    EXPECT_EQ(HeaderOf(request, "if-modified-since"), "yesterday");
    return Reply(304, "");
  });
  EXPECT_EQ(Fetch(At("https://example.com/u")), "one");
  http.Answer(Reply(200, "two", {{"etag", "\"2\""}}));
  EXPECT_EQ(Fetch(At("https://example.com/u")), "two");
  http.Answer(Reply(304, ""));
  EXPECT_EQ(Fetch(At("https://example.com/u")), "two");
  EXPECT_EQ(HeaderOf(http.last(), "if-none-match"), "\"2\"");
  // Another URL has nothing to reuse.
  EXPECT_FALSE(Fetch(At("https://example.com/v")));
}

TEST_F(UserDataFetchTest, AFailureGivesNoOldBodyAndKeepsIt) {
  http.Answer(Reply(200, "one", {{"etag", "\"1\""}}));
  EXPECT_EQ(Fetch(At("https://example.com/u")), "one");
  http.Answer(Result<HttpResponse>(Fail(Unavailable("down"))));
  const auto failed = Fetch(At("https://example.com/u"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
  EXPECT_TRUE(failed.error().message.starts_with("user data: ")) << failed.error().message;
  http.Answer(Reply(304, ""));
  EXPECT_EQ(Fetch(At("https://example.com/u")), "one");
}

TEST_F(UserDataFetchTest, AUrlThatIsNotAllowedIsNotAskedFor) {
  const auto refused = Fetch(At("http://example.com/u"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(http.requests().empty());
}

TEST_F(UserDataFetchTest, TheCallbackMayDestroyTheFetch) {
  http.Answer(Reply(200, "body"));
  std::unique_ptr<UserDataFetch> fetch;
  int calls = 0;
  fetch = std::make_unique<UserDataFetch>(
      UserDataFetch::Deps{.loop = loop, .http = http, .cache = cache}, At("https://example.com/u"),
      [&](const Result<std::string>&) {
        ++calls;
        fetch.reset();
      });
  fetch->Start();
  scheduler.RunFor(Duration::Seconds(1));
  EXPECT_EQ(calls, 1);
}

TEST_F(UserDataFetchTest, ADroppedFetchIsSilent) {
  http.Answer(Reply(200, "body", {{"etag", "\"1\""}}));
  int calls = 0;
  for (const Duration life : {Duration(), Duration::Microseconds(500)}) {
    UserDataFetch fetch({.loop = loop, .http = http, .cache = cache}, At("https://example.com/u"),
                        [&](const Result<std::string>&) { ++calls; });
    fetch.Start();
    if (life > Duration()) scheduler.RunFor(life);
  }
  scheduler.RunFor(Duration::Seconds(1));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(cache.size(), 0U);
}

}  // namespace
}  // namespace nstance::test
