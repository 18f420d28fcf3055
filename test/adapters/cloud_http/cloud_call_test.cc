// One authorised call: first the machine's table, row by row; then runner and machine in simulated
// time against a server with trouble.
#include "adapters/cloud_http/cloud_call.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/cloud_http/cloud_call_runner.h"
#include "sim/sim_loop.h"
#include "test/support/scripted_http.h"

namespace nstance::cloud {
namespace {

using test::Reply;
using test::ScriptedHttp;

const Instant kStart = Instant::FromClock(Duration::Seconds(100));
const Instant kDeadline = kStart + Duration::Seconds(3);

CloudCall Sending(Repeat repeat) {
  CloudCall call(repeat, kDeadline);
  EXPECT_TRUE(std::holds_alternative<CloudCall::Authorize>(call.Start()));
  EXPECT_TRUE(std::holds_alternative<CloudCall::Send>(call.On(CloudCall::Authorized{}, kStart)));
  return call;
}

const CloudCall::Finish* Finished(const CloudCall::Command& command) {
  return std::get_if<CloudCall::Finish>(&command);
}

TEST(CloudCallTest, TheRequestGetsTheTimeThatIsLeft) {
  CloudCall call(Repeat::kRead, kDeadline);
  (void)call.Start();
  const auto command = call.On(CloudCall::Authorized{}, kStart + Duration::Seconds(1));
  ASSERT_TRUE(std::holds_alternative<CloudCall::Send>(command));
  EXPECT_EQ(std::get<CloudCall::Send>(command).left, Duration::Seconds(2));
}

TEST(CloudCallTest, WithoutCredentialsNothingIsSent) {
  CloudCall call(Repeat::kNever, kDeadline);
  (void)call.Start();
  const auto command = call.On(CloudCall::Authorized{Fail(PermissionDenied("no keys"))}, kStart);
  ASSERT_NE(Finished(command), nullptr);
  EXPECT_EQ(Finished(command)->answer.error().code, Code::kPermissionDenied);
  EXPECT_EQ(Finished(command)->answer.error().outcome, Outcome::kNotDone);
}

TEST(CloudCallTest, WithoutTimeNothingIsSent) {
  CloudCall late(Repeat::kNever, kDeadline);
  (void)late.Start();
  const auto after = late.On(CloudCall::Authorized{}, kDeadline);
  ASSERT_NE(Finished(after), nullptr);
  EXPECT_EQ(Finished(after)->answer.error().outcome, Outcome::kNotDone);
  CloudCall never(Repeat::kNever, kDeadline);
  (void)never.Start();
  const auto waited = never.On(CloudCall::TooLate{});
  ASSERT_NE(Finished(waited), nullptr);
  EXPECT_EQ(Finished(waited)->answer.error().code, Code::kUnavailable);
  EXPECT_EQ(Finished(waited)->answer.error().outcome, Outcome::kNotDone);
}

TEST(CloudCallTest, AWriteIsSentOnceWhateverComesBack) {
  Prng prng(1);
  for (const int status : {200, 412, 429, 500, 503}) {
    CloudCall call = Sending(Repeat::kNever);
    const auto command = call.On(CloudCall::Answer{Reply(status, "")}, kStart, prng);
    ASSERT_NE(Finished(command), nullptr) << status;
    EXPECT_EQ(Finished(command)->answer->status, status);
  }
  CloudCall call = Sending(Repeat::kNever);
  const auto lost =
      call.On(CloudCall::Answer{Fail(Unavailable("reset").MaybeDone())}, kStart, prng);
  ASSERT_NE(Finished(lost), nullptr);
  EXPECT_EQ(Finished(lost)->answer.error().outcome, Outcome::kMaybeDone);
}

TEST(CloudCallTest, AReadIsRepeatedThreeTimesAndThenGivenUp) {
  Prng prng(1);
  CloudCall call = Sending(Repeat::kRead);
  Duration longest = CloudCall::kFirstWait;
  for (int i = 0; i < CloudCall::kMaxRepeats; ++i) {
    const auto wait = call.On(CloudCall::Answer{Reply(503, "")}, kStart, prng);
    ASSERT_TRUE(std::holds_alternative<CloudCall::Wait>(wait)) << i;
    const Duration length = std::get<CloudCall::Wait>(wait).length;
    EXPECT_LE(length, longest);
    EXPECT_GE(length, longest / 2);
    longest = longest * 2;
    EXPECT_TRUE(std::holds_alternative<CloudCall::Authorize>(call.On(CloudCall::Woke{})));
    EXPECT_TRUE(std::holds_alternative<CloudCall::Send>(call.On(CloudCall::Authorized{}, kStart)));
  }
  const auto last = call.On(CloudCall::Answer{Reply(503, "")}, kStart, prng);
  ASSERT_NE(Finished(last), nullptr);
  EXPECT_EQ(Finished(last)->answer->status, 503);
}

TEST(CloudCallTest, OnlyPassingTroubleIsRepeated) {
  Prng prng(1);
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    CloudCall call = Sending(Repeat::kRead);
    const auto command = call.On(CloudCall::Answer{Reply(status, "")}, kStart, prng);
    EXPECT_TRUE(std::holds_alternative<CloudCall::Wait>(command)) << status;
  }
  for (const int status : {200, 204, 206, 301, 304, 400, 401, 403, 404, 412, 501}) {
    CloudCall call = Sending(Repeat::kRead);
    EXPECT_NE(Finished(call.On(CloudCall::Answer{Reply(status, "")}, kStart, prng)), nullptr)
        << status;
  }
  CloudCall lost = Sending(Repeat::kRead);
  EXPECT_TRUE(std::holds_alternative<CloudCall::Wait>(
      lost.On(CloudCall::Answer{Fail(Unavailable("reset"))}, kStart, prng)));
  for (const Error& error : {PermissionDenied("tls"), DeadlineExceeded("late"),
                             ResourceExhausted("too large"), InvalidArgument("url")}) {
    CloudCall call = Sending(Repeat::kRead);
    EXPECT_NE(Finished(call.On(CloudCall::Answer{Fail(error)}, kStart, prng)), nullptr)
        << error.ToString();
  }
}

TEST(CloudCallTest, NoRepeatBeginsAfterTheDeadline) {
  Prng prng(1);
  CloudCall call = Sending(Repeat::kRead);
  const auto command =
      call.On(CloudCall::Answer{Reply(503, "")}, kDeadline - Duration::Milliseconds(20), prng);
  EXPECT_NE(Finished(command), nullptr);
}

TEST(CloudCallDeathTest, AnEventThatNobodyExpectsIsOurOwnMistake) {
  CloudCall call = Sending(Repeat::kRead);
  EXPECT_DEATH((void)call.On(CloudCall::Woke{}), "in state");
}

// Adds a header after a while, or never.
class SlowAuthorizer final : public RequestAuthorizer {
 public:
  SlowAuthorizer(Loop& loop, Duration delay) : loop_(loop), delay_(delay) {}
  Pending Authorize(HttpRequest request, Done done) override {
    ++asked_;
    request.headers.push_back({.name = "authorization", .value = std::to_string(asked_)});
    return loop_.CallAfter(delay_,
                           [request = std::move(request), done = std::move(done)]() mutable {
                             done(std::move(request));
                           });
  }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  Loop& loop_;
  Duration delay_;
  int asked_ = 0;
};

class CloudCallRunnerTest : public testing::Test {
 public:
  std::optional<Result<HttpResponse>> Run(RequestAuthorizer& authorizer, Repeat repeat) {
    std::optional<Result<HttpResponse>> answer;
    HttpRequest request;
    request.url = "https://store.example/";
    const Pending pending =
        RunCloudCall({.loop = loop, .http = http, .authorizer = authorizer},
                     {.request = request,
                      .repeat = repeat,
                      .deadline = loop.Now() + Duration::Seconds(3),
                      .prng = Prng(1)},
                     [&](Result<HttpResponse> said) { answer = std::move(said); });
    EXPECT_FALSE(answer.has_value()) << "answered from inside the call";
    scheduler.RunFor(Duration::Seconds(10));
    return answer;
  }

  sim::SimScheduler scheduler{1};
  sim::SimLoop loop{scheduler, Timestamp()};
  ScriptedHttp http{loop};
};

TEST_F(CloudCallRunnerTest, ARepeatedReadSucceedsAndIsAuthorisedAnew) {
  SlowAuthorizer authorizer(loop, Duration::Milliseconds(1));
  int asked = 0;
  http.Answer([&](const HttpRequest&) -> Result<HttpResponse> {
    if (++asked == 1) return Fail(Unavailable("reset"));
    return Reply(asked < 3 ? 500 : 200, "");
  });
  const auto answer = Run(authorizer, Repeat::kRead);
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ((*answer)->status, 200);
  ASSERT_EQ(http.requests().size(), 3U);
  EXPECT_EQ(authorizer.asked(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(http.requests()[i].headers.size(), 1U) << "one credential per request";
  }
  EXPECT_LT(http.requests()[2].deadline, http.requests()[0].deadline);
}

TEST_F(CloudCallRunnerTest, CredentialsThatNeverComeEndTheCallInTime) {
  SlowAuthorizer authorizer(loop, Duration::Hours(1));
  const Instant start = loop.Now();
  std::optional<Instant> end;
  HttpRequest request;
  request.url = "https://store.example/";
  const Pending pending =
      RunCloudCall({.loop = loop, .http = http, .authorizer = authorizer},
                   {.request = request, .deadline = start + Duration::Seconds(3), .prng = Prng(1)},
                   [&](const Result<HttpResponse>& answer) {
                     EXPECT_FALSE(answer.has_value());
                     end = loop.Now();
                   });
  scheduler.RunFor(Duration::Seconds(10));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(*end - start, Duration::Seconds(3));
  EXPECT_TRUE(http.requests().empty());
}

TEST_F(CloudCallRunnerTest, NothingRunsOnceThePendingIsGone) {
  http.Answer(Reply(503, ""));
  SlowAuthorizer authorizer(loop, Duration::Milliseconds(1));
  for (int steps = 0; steps < 8; ++steps) {
    bool called = false;
    {
      HttpRequest request;
      request.url = "https://store.example/";
      const Pending pending = RunCloudCall({.loop = loop, .http = http, .authorizer = authorizer},
                                           {.request = request,
                                            .repeat = Repeat::kRead,
                                            .deadline = loop.Now() + Duration::Seconds(3),
                                            .prng = Prng(1)},
                                           [&](const auto&) { called = true; });
      for (int i = 0; i < steps && !called; ++i) scheduler.Step();
    }
    const bool before = called;
    scheduler.RunFor(Duration::Minutes(1));
    EXPECT_EQ(called, before) << steps;
  }
}

}  // namespace
}  // namespace nstance::cloud
