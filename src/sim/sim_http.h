// SimHttp: a network without web servers: every request fails, after a moment.
#pragma once

#include <utility>

#include "ports/http.h"
#include "ports/loop.h"

namespace nstance::sim {

class SimHttp final : public HttpClient {
 public:
  explicit SimHttp(Loop& loop) : loop_(loop) {}

  [[nodiscard]] Pending Send(HttpRequest /*request*/, Done done) override {
    return loop_.CallAfter(Duration::Milliseconds(10), [done = std::move(done)]() mutable {
      done(Fail(Unavailable("no route to host")));
    });
  }
  [[nodiscard]] Pending Stream(HttpRequest /*request*/, HttpStreamEvents events) override {
    return loop_.CallAfter(Duration::Milliseconds(10), [events = std::move(events)]() mutable {
      events.end(Fail(Unavailable("no route to host")));
    });
  }

 private:
  Loop& loop_;
};

}  // namespace nstance::sim
