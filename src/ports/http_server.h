// HttpServer: a small HTTP server for pages about a process: health, readiness, metrics.
//
// GET and HEAD only, one request per connection, no body; plain, or TLS for all of it. What is
// malformed, too large or too slow is answered or closed by the adapter; a handler sees sound
// requests only.
//
//   HttpPage page = [](const HttpQuestion& q, HttpReply reply) {
//     if (q.path == "/healthz") return reply({.status = 200, .body = "ok\n"});
//     reply({.status = 404, .body = "not found\n"});
//   };
//
// Handlers run on the loop. The reply may come later, from any later task of the same loop, and at
// most once; dropping it unanswered closes the connection, and so does a reply that takes longer
// than 10 s. It may outlive the server and does nothing then.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "ports/rpc.h"

namespace nstance {

struct HttpQuestion {
  std::string path = {};   // As sent, "/readyz"; never decoded.
  std::string query = {};  // What follows the first `?`, as sent.
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
};

using HttpReply = std::move_only_function<void(HttpAnswer answer)>;
using HttpPage = std::move_only_function<void(const HttpQuestion& question, HttpReply reply)>;

class HttpServer {
 public:
  HttpServer() = default;
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Closes the listener and all connections.
  virtual ~HttpServer() = default;

  // Listens on a literal address (empty host: all of them); port 0 is chosen. Answers with the
  // port. kUnavailable: it cannot be bound. REQUIRES: not called before.
  [[nodiscard]] virtual Result<std::uint16_t> Listen(const std::string& host, std::uint16_t port,
                                                     HttpPage page) = 0;
  // The certificate for connections from now on. REQUIRES: the server was made for TLS.
  // kInvalidArgument: certificate and key cannot be used; what was there before stays.
  [[nodiscard]] virtual Status UseTls(const RpcTlsMaterial& material) = 0;
};

}  // namespace nstance
