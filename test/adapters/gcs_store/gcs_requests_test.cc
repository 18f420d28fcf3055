// What the store sends, in simulated time and without a network; and how often.
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "adapters/gcs_store/gcs_store.h"
#include "sim/sim_loop.h"
#include "test/support/scripted_http.h"

namespace nstance::gcs {
namespace {

using test::HeaderOf;
using test::Reply;
using test::ScriptedHttp;

ObjectKey Key(std::string_view text) { return ObjectKey::Parse(text).value(); }

class GcsRequestsTest : public testing::Test {
 public:
  void Make(const GcsOptions& options) {
    store = GcsStore::Make(
                {.loop = loop, .http = http, .credentials = credentials, .prng = Prng(1)}, options)
                .value();
  }

  template <class T, class F>
  Result<T> Await(F ask) {
    std::optional<Result<T>> answer;
    const Pending pending = ask([&](Result<T> said) { answer = std::move(said); });
    EXPECT_FALSE(answer.has_value()) << "answered from inside the call";
    scheduler.RunUntilTrue([&] { return answer.has_value(); }, Duration::Minutes(1));
    return answer ? *std::move(answer) : Fail(Internal("no answer"));
  }
  Result<ObjectVersion> Put(PutCondition condition) {
    return Await<ObjectVersion>([&](auto done) {
      return store->Put({.key = Key("a/b.json"), .bytes = "bytes", .condition = condition},
                        std::move(done));
    });
  }

  sim::SimScheduler scheduler{1};
  sim::SimLoop loop{scheduler, Timestamp::FromUnix(1'700'000'000)};
  ScriptedHttp http{loop};
  gcp::GcpCredentials credentials{{.loop = loop, .http = http, .environment = {}},
                                  gcp::GcpSettings{}};
  std::unique_ptr<GcsStore> store;
};

TEST_F(GcsRequestsTest, AWriteCarriesItsConditionAndTheToken) {
  Make({.bucket = "bucket"});
  http.Answer([](const HttpRequest& request) {
    if (request.url.contains("computeMetadata")) {
      return Reply(200, R"({"access_token":"t","expires_in":3600})",
                   {{.name = "metadata-flavor", .value = "Google"}});
    }
    return Reply(200, R"({"generation":"8"})");
  });
  EXPECT_EQ(Put(IfAbsent{})->text, "8");
  EXPECT_EQ(http.last().method, HttpMethod::kPost);
  EXPECT_TRUE(http.last().url.ends_with("name=a%2Fb.json&ifGenerationMatch=0")) << http.last().url;
  EXPECT_EQ(HeaderOf(http.last(), "authorization"), "Bearer t");
  EXPECT_EQ(HeaderOf(http.last(), "content-type"), "application/json");
  EXPECT_EQ(http.last().max_redirects, 0);
  EXPECT_TRUE(Put(IfVersion{{.text = "8"}}));
  EXPECT_TRUE(http.last().url.ends_with("&ifGenerationMatch=8")) << http.last().url;
  EXPECT_EQ(http.requests().size(), 3U) << "one token for both";
}

TEST_F(GcsRequestsTest, NoTokenGoesToAnExplicitEndpoint) {
  Make({.bucket = "bucket", .endpoint = "https://emulator.example"});
  http.Answer(Reply(200, R"({"generation":"8"})"));
  EXPECT_TRUE(Put(IfAbsent{}));
  ASSERT_EQ(http.requests().size(), 1U);
  EXPECT_EQ(HeaderOf(http.last(), "authorization"), std::nullopt);
}

TEST_F(GcsRequestsTest, WritesAreSentOnceAndReadsRepeated) {
  Make({.bucket = "bucket", .endpoint = "https://emulator.example"});
  http.Answer(Reply(503, ""));
  EXPECT_EQ(Put(IfAbsent{}).error().outcome, Outcome::kMaybeDone);
  EXPECT_EQ(http.requests().size(), 1U);
  EXPECT_FALSE(Await<void>([&](auto done) {
    return store->Delete({.key = Key("a"), .version = ObjectVersion{"7"}}, std::move(done));
  }));
  EXPECT_EQ(http.requests().size(), 2U);
  EXPECT_TRUE(http.last().url.ends_with("/o/a?ifGenerationMatch=7"));
  EXPECT_FALSE(Await<Object>([&](auto done) { return store->Get(Key("a"), std::move(done)); }));
  EXPECT_EQ(http.requests().size(), 6U);
  EXPECT_FALSE(
      Await<ListPage>([&](auto done) { return store->List({.prefix = "a b"}, std::move(done)); }));
  EXPECT_EQ(http.requests().size(), 10U);
  EXPECT_TRUE(http.last().url.contains("maxResults=1000&prefix=a%20b")) << http.last().url;
}

TEST_F(GcsRequestsTest, AConditionThatTheStoreDoesNotKnowIsNotSent) {
  Make({.bucket = "bucket", .endpoint = "https://emulator.example"});
  // 0 would mean "absent", which is not what an update says.
  for (const std::string version : {"", "0", "x", "1&x=y", "-1"}) {
    EXPECT_EQ(Put(IfVersion{{.text = version}}).error().code, Code::kInvalidArgument) << version;
  }
  EXPECT_TRUE(http.requests().empty());
}

}  // namespace
}  // namespace nstance::gcs
