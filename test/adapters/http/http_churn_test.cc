// Random requests, streams, cancellations, deadlines and clients that die, against servers that do
// the same. Nothing is asserted but what always holds: one answer at most, none after a
// cancellation or the client's end, a change seen at most once, and every request answered in the
// end. Sanitizers watch the rest. A failure prints the seed that replays the choices (not the
// timing).
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "test/adapters/http/http_fixture.h"

namespace nstance::test {
namespace {

constexpr int kOperations = 400;
constexpr std::uint64_t kSeeds = 4;

// What the server does is written in the target: "/kind/number".
void Misbehave(RawConnection& connection) {
  while (const auto request = connection.ReadRequest()) {
    const std::string target = request->Target();
    const std::string kind = target.substr(1, target.find('/', 1) - 1);
    if (kind == "close") return;
    if (kind == "reset") return connection.Reset();
    if (kind == "hang") return connection.WaitForClose();
    if (kind == "cut") {
      connection.Write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
      return;
    }
    if (kind == "garbage") {
      connection.Write("garbage\r\n\r\n");
      return;
    }
    if (kind == "large") {
      connection.Write(Answer(200, std::string(300'000, 'a')));
    } else {
      connection.Write(Answer(200, "a"));
    }
  }
}

class Churn {
 public:
  Churn(HttpHarness& harness, std::uint64_t seed)
      : harness_(harness), prng_(seed), server_(Misbehave) {
    MakeClient();
  }

  void Run() {
    for (int i = 0; i < kOperations; ++i) {
      Step();
      if (prng_.Chance(1, 4)) Turn();
    }
    EXPECT_TRUE(RunUntil(harness_.home, [this] { return open_.empty(); }))
        << open_.size() << " requests were never answered";
    std::map<std::string, int> seen;
    for (const RawRequest& request : server_.requests()) {
      if (request.Method() != "GET") ++seen[request.Target()];
    }
    for (const auto& [target, times] : seen) EXPECT_EQ(times, 1) << target;
  }

 private:
  void MakeClient() {
    harness_.MakeClient({.max_in_flight = 4, .max_streams = 2, .max_waiting = 20});
  }

  void Step() {
    switch (prng_.Below(20)) {
      case 0:
        // The old client goes with all that it has not answered.
        MakeClient();
        open_.clear();
        return;
      case 1:
      case 2:
      case 3:
      case 4: return CancelOne();
      case 5:
      case 6:
      case 7: return StartStream();
      default: return StartRequest();
    }
  }

  void Turn() {
    harness_.home.Post([this] { harness_.home.Stop(); });
    harness_.home.Run();
  }

  HttpRequest RandomRequest() {
    static constexpr std::array kKinds = {"close",   "reset", "hang", "cut",
                                          "garbage", "large", "good", "good"};
    static constexpr std::array kMethods = {HttpMethod::kGet, HttpMethod::kPut,
                                            HttpMethod::kDelete};
    HttpRequest request;
    request.method = kMethods.at(prng_.Below(kMethods.size()));
    request.url = server_.Url(std::string("/") + kKinds.at(prng_.Below(kKinds.size())) + "/" +
                              std::to_string(++number_));
    if (request.method == HttpMethod::kPut) request.body = std::string(prng_.Below(100'000), 'b');
    request.deadline = Duration::Milliseconds(prng_.Between(1, 300));
    request.max_response_bytes = prng_.Chance(1, 2) ? 10'000 : 1'000'000;
    request.idle_limit = Duration::Milliseconds(200);
    return request;
  }

  void StartRequest() {
    const int number = number_ + 1;
    open_[number] = harness_.client->Send(RandomRequest(), [this, number](const auto&) {
      EXPECT_EQ(open_.erase(number), 1U) << "answered twice or after the end";
      if (prng_.Chance(1, 8)) CancelOne();
      if (prng_.Chance(1, 8) && number_ < 2 * kOperations) StartRequest();
    });
  }

  void StartStream() {
    const int number = number_ + 1;
    open_[number] = harness_.client->Stream(
        RandomRequest(),
        {.head = [this, number](const auto&) { ExpectOpen(number); },
         .data =
             [this, number](const auto&) {
               ExpectOpen(number);
               if (prng_.Chance(1, 10)) open_.erase(number);
             },
         .end = [this, number](const auto&) { EXPECT_EQ(open_.erase(number), 1U); }});
  }

  void ExpectOpen(int number) { EXPECT_TRUE(open_.contains(number)) << "an event after the end"; }

  void CancelOne() {
    if (open_.empty()) return;
    auto at = open_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(prng_.Below(open_.size())));
    open_.erase(at);
  }

  HttpHarness& harness_;
  Prng prng_;
  RawHttpServer server_;
  int number_ = 0;
  std::map<int, Pending> open_;
};

class HttpChurnTest : public HttpClientFixture {};
INSTANTIATE_TEST_SUITE_P(Loops, HttpChurnTest,
                         testing::Values(Arrangement::kOneLoop, Arrangement::kTwoLoops),
                         ArrangementName);

TEST_P(HttpChurnTest, WhateverHappensTheRulesHold) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Churn(*this, seed).Run();
  }
}

}  // namespace
}  // namespace nstance::test
