// ScriptedHttp: an HTTP client without a network. A function answers, after a delay on any loop,
// and what was asked is kept.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ports/http.h"
#include "ports/loop.h"

namespace nstance::test {

class ScriptedHttp final : public HttpClient {
 public:
  using Script = std::function<Result<HttpResponse>(const HttpRequest&)>;

  explicit ScriptedHttp(Loop& loop, Script script = {}) : loop_(loop), script_(std::move(script)) {}

  void Answer(Script script) { script_ = std::move(script); }
  // Everybody gets this.
  void Answer(Result<HttpResponse> answer) {
    script_ = [answer = std::move(answer)](const HttpRequest&) { return answer; };
  }
  void set_delay(Duration delay) { delay_ = delay; }

  [[nodiscard]] const std::vector<HttpRequest>& requests() const { return requests_; }
  [[nodiscard]] const HttpRequest& last() const {
    CHECK(!requests_.empty());
    return requests_.back();
  }

  [[nodiscard]] Pending Send(HttpRequest request, Done done) override {
    requests_.push_back(std::move(request));
    return loop_.CallAfter(delay_,
                           [this, at = requests_.size() - 1, done = std::move(done)]() mutable {
                             Result<HttpResponse> answer = script_(requests_.at(at));
                             done(std::move(answer));
                           });
  }

  [[nodiscard]] Pending Stream(HttpRequest /*request*/, HttpStreamEvents /*events*/) override {
    CHECK(false, "streams are not scripted");
  }

 private:
  Loop& loop_;
  Script script_;
  Duration delay_ = Duration::Milliseconds(1);
  std::vector<HttpRequest> requests_;
};

// An answer with its length, as honest servers give it.
[[nodiscard]] inline HttpResponse Reply(int status, std::string body,
                                        std::vector<HttpHeader> headers = {}) {
  headers.push_back({.name = "content-length", .value = std::to_string(body.size())});
  return {.status = status, .headers = std::move(headers), .body = std::move(body)};
}

// The value of a header of a request (lower case), or nothing.
[[nodiscard]] inline std::optional<std::string> HeaderOf(const HttpRequest& request,
                                                         std::string_view name) {
  for (const HttpHeader& header : request.headers) {
    if (header.name == name) return header.value;
  }
  return std::nullopt;
}

}  // namespace nstance::test
