// WatchedHttpServer: ports/http_server.h for a process whose loop may be stuck, on a thread of its
// own.
//
// Pages are answered by the handler on the home loop, as by LoopHttpServer. One of them is not: the
// page that tells whether the home loop turns is answered by the thread, with 200 `ok` while the
// loop has turned within the last 10 s, and with 503 when it has not.
//
//   WatchedHttpServer server(loop);
//   server.Listen("127.0.0.1", 8990, page);
//
// Made, used and destroyed on the home loop's thread; the home loop outlives it. In the clear only.
//
// Guarantees, each held by a test:
//   - a loop that is stuck is told as such, and as sound again when it turns
//   - handlers run on the home loop, and their replies may come later, or not at all
//   - destroying the server leaves no thread and calls nothing
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "adapters/http_server/loop_http_server.h"
#include "base/time.h"
#include "ports/http_server.h"
#include "ports/loop.h"

namespace nstance {

class WatchedHttpServer final : public HttpServer {
 public:
  struct Options {
    HttpServerLimits limits = {};
    std::string alive_path = "/healthz";
    Duration watchdog = Duration::Seconds(10);
    Duration beat = Duration::Seconds(1);  // How often the home loop shows that it turns.
  };
  // `home` has the clock of RealLoop.
  explicit WatchedHttpServer(Loop& home) : WatchedHttpServer(home, Options()) {}
  WatchedHttpServer(Loop& home, Options options);
  ~WatchedHttpServer() override;

  [[nodiscard]] Result<std::uint16_t> Listen(const std::string& host, std::uint16_t port,
                                             HttpPage page) override;
  // Always kFailedPrecondition.
  [[nodiscard]] Status UseTls(const RpcTlsMaterial& material) override;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace nstance
