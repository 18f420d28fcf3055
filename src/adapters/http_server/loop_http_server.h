// LoopHttpServer: ports/http_server.h on a RealLoop, without a thread.
//
// Limits, each with a test:
//   connections     32; at the limit the oldest that has not asked yet is closed for a new one, and
//                   if all of them have asked, the new one
//   head            8 KiB and 64 headers, within 5 s of the connection: 431, 408
//   answer          the handler has 10 s; the client takes it in 5 s, or is closed
//   after that      what still comes is read and dropped, at most 64 KiB or 1 s, so that the answer
//                   is not destroyed by the kernel's reset
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "adapters/real_loop/real_loop.h"
#include "base/input_probe.h"
#include "base/time.h"
#include "ports/http_server.h"

namespace nstance {

struct HttpServerLimits {
  std::size_t connections = 32;
  Duration head = Duration::Seconds(5);
  Duration handler = Duration::Seconds(10);
  Duration answer = Duration::Seconds(5);
  Duration linger = Duration::Seconds(1);
};

class LoopHttpServer final : public HttpServer {
 public:
  struct Options {
    HttpServerLimits limits = {};
    InputSource source = {.interface = "http"};
    bool tls = false;  // Needs UseTls(); what connects before is closed.
  };
  explicit LoopHttpServer(RealLoop& loop) : LoopHttpServer(loop, Options()) {}
  LoopHttpServer(RealLoop& loop, Options options);
  ~LoopHttpServer() override;

  [[nodiscard]] Result<std::uint16_t> Listen(const std::string& host, std::uint16_t port,
                                             HttpPage page) override;
  [[nodiscard]] Status UseTls(const RpcTlsMaterial& material) override;

  // Open now; for tests.
  [[nodiscard]] std::size_t connections() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace nstance
