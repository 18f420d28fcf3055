// PeerClient: HTTP to a peer from a test's own thread, one request at a time, awaited.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "ports/http.h"
#include "test/support/loop_runner.h"

namespace nstance::test {

class PeerClient final {
 public:
  [[nodiscard]] Result<HttpResponse> Send(HttpRequest request) {
    std::optional<Result<HttpResponse>> answer;
    const Pending pending = client_.Send(
        std::move(request), [&](Result<HttpResponse> said) { answer = std::move(said); });
    if (!RunUntil(loop_, [&] { return answer.has_value(); }, Duration::Seconds(60))) {
      return Fail(DeadlineExceeded("no answer"));
    }
    return *std::move(answer);
  }

  // Asks again and again, 20 ms apart, until `enough` says so; false when that takes too long.
  [[nodiscard]] bool SendUntil(const HttpRequest& request,
                               const std::function<bool(const Result<HttpResponse>&)>& enough,
                               Duration limit) {
    const Instant end = loop_.Now() + limit;
    while (!enough(Send(request))) {
      const Instant next = loop_.Now() + Duration::Milliseconds(20);
      if (next > end) return false;
      (void)RunUntil(loop_, [&] { return loop_.Now() >= next; });
    }
    return true;
  }

 private:
  RealLoop loop_;
  CurlHttpClient client_{{.io = loop_, .home = loop_}};
};

}  // namespace nstance::test
