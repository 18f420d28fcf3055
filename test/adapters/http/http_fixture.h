// What the tests of the HTTP client share: the two arrangements of loops, and calls that wait.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "test/support/loop_runner.h"
#include "test/support/raw_http_server.h"

namespace nstance::test {

enum class Arrangement : std::uint8_t { kOneLoop, kTwoLoops };

inline std::string ArrangementName(const testing::TestParamInfo<Arrangement>& info) {
  return info.param == Arrangement::kOneLoop ? "OneLoop" : "TwoLoops";
}

// A loop on a thread of its own until it is destroyed.
class LoopThread final {
 public:
  ~LoopThread() {
    loop_.Stop();
    thread_.join();
  }
  RealLoop& loop() { return loop_; }

 private:
  RealLoop loop_;
  std::thread thread_{[this] { loop_.Run(); }};
};

// What a stream has said so far.
struct StreamLog {
  std::optional<HttpResponse> head;
  std::string data;
  std::size_t bytes = 0;
  std::optional<Status> end;

  HttpStreamEvents Events() {
    return {.head = [this](HttpResponse said) { head = std::move(said); },
            .data =
                [this](std::string piece) {
                  bytes += piece.size();
                  data += piece;
                },
            .end = [this](Status said) { end = std::move(said); }};
  }
};

// A client with its loops. The one that is called `home` is turned by this thread, while it waits.
class HttpHarness {
 public:
  explicit HttpHarness(Arrangement arrangement) {
    if (arrangement == Arrangement::kTwoLoops) io_.emplace();
    MakeClient({});
  }

  void MakeClient(HttpClientOptions options) {
    client.reset();
    client = std::make_unique<CurlHttpClient>(CurlHttpClient::Deps{
        .io = io_.has_value() ? io_->loop() : home, .home = home, .options = std::move(options)});
  }

  // Sends and waits for the answer.
  Result<HttpResponse> Fetch(HttpRequest request) {
    std::optional<Result<HttpResponse>> answer;
    const Pending pending = client->Send(
        std::move(request), [&](Result<HttpResponse> said) { answer = std::move(said); });
    EXPECT_FALSE(answer.has_value()) << "answered from inside the call";
    if (!RunUntil(home, [&] { return answer.has_value(); })) return Fail(Internal("no answer"));
    return *std::move(answer);
  }

  // Streams to the end.
  StreamLog FetchStream(HttpRequest request) {
    StreamLog log;
    const Pending pending = client->Stream(std::move(request), log.Events());
    EXPECT_TRUE(RunUntil(home, [&] { return log.end.has_value(); }));
    return log;
  }

  RealLoop home;

 private:
  std::optional<LoopThread> io_;

 public:
  std::unique_ptr<CurlHttpClient> client;  // Goes before the loops.
};

class HttpClientFixture : public testing::TestWithParam<Arrangement>, public HttpHarness {
 protected:
  HttpClientFixture() : HttpHarness(GetParam()) {}
};

inline HttpRequest Get(std::string url) {
  return {.method = HttpMethod::kGet, .url = std::move(url)};
}
inline HttpRequest Put(std::string url, std::string body = "what is put") {
  return {.method = HttpMethod::kPut, .url = std::move(url), .body = std::move(body)};
}

inline void ExpectError(const Result<HttpResponse>& result, Code code, Outcome outcome) {
  ASSERT_FALSE(result.has_value()) << "answered " << result->status;
  EXPECT_EQ(CodeName(result.error().code), CodeName(code)) << result.error().ToString();
  EXPECT_EQ(result.error().outcome, outcome) << result.error().ToString();
}

}  // namespace nstance::test
