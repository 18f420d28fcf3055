// HealthPages: the health listener of nstance-server, which follows the configuration.
//
//   HealthPages pages(loop, [&](const auto& question, auto reply) { ... });
//   pages.Open(FirstHealthAddress(line));          // Before anything else is known.
//   pages.Follow(config.server.bind.health_addr);  // Another address: opened, then the old closed.
#pragma once

#include <functional>
#include <memory>

#include "adapters/http_server/watched_http_server.h"
#include "adapters/real_loop/real_loop.h"
#include "base/result.h"
#include "core/config/config.h"
#include "ports/http_server.h"
#include "server/process/command_line.h"

namespace nstance {

// --bind health=, else that of the last good configuration in --cachedir, else :8990.
[[nodiscard]] config::Address FirstHealthAddress(const ServerCommandLine& line);

class HealthPages final {
 public:
  using Page = std::function<void(const HttpQuestion& question, HttpReply reply)>;

  HealthPages(RealLoop& loop, Page page) : loop_(loop), page_(std::move(page)) {}

  // kUnavailable: it cannot be bound.
  [[nodiscard]] Status Open(const config::Address& address);
  // Nothing for the address that is open, nor when one of the two has port 0. An address that
  // cannot be bound leaves the old one in place.
  [[nodiscard]] Status Follow(const config::Address& address);

  // As it was asked for, and as really bound.
  [[nodiscard]] const config::Address& asked() const { return asked_; }
  [[nodiscard]] const config::Address& address() const { return bound_; }

 private:
  RealLoop& loop_;
  Page page_;
  config::Address asked_;
  config::Address bound_;
  std::shared_ptr<WatchedHttpServer> server_;
};

}  // namespace nstance
