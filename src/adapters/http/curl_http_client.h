// CurlHttpClient: ports/http.h on libcurl, with its sockets on a RealLoop.
//
// Two loops take part. `home` is where callers live: they call there and are answered there. `io`
// is where the sockets live. They may be the same loop, and then no thread is crossed; otherwise
// requests and answers cross as values and callbacks never leave home.
//
// Guarantees, each held by a test for both arrangements:
//   - a request that changes something is sent at most once. libcurl alone would repeat it on a
//     fresh connection when a kept one dies before the first byte of the answer
//   - at most max_in_flight requests and max_streams streams have begun; up to max_waiting of each
//     wait in the order of their calls; what comes on top is answered kResourceExhausted
//   - connections are reused one request at a time. One on which the peer has said something
//     unasked is not used again: what it said would pass for the next answer
//   - HTTP/1.1 only; no cookies, no .netrc, no proxy of the environment, no decompression: a body
//     is handed over as it came, with its content-encoding header
//   - the head of an answer is bounded (response_head.h), the body by the request; a stream whose
//     reader is slow stops reading from its socket
//   - TLS 1.2 at least, the peer's chain and name are always verified
//   - messages name the method, host and port, never the path, the query, headers or bodies
// What a signed request may not hold is told in prepared_request.h.
//
// An answer that tells no length and is not chunked ends when the peer closes; whether it is whole
// only its reader can tell. Deadlines count from the turn in which io picks the request up. Behind
// a proxy, HttpAddresses speaks of the proxy's address. The system's roots take libcurl 50 ms or
// more to parse, on io, at the first TLS connection of a client.
//
// Threads: the constructor, Send(), Stream(), the Pendings and the destructor belong to home. The
// destructor never waits: callbacks are gone when it returns, and sockets are closed by a last task
// on io (at once when io is home, or when io is destroyed). `io` and `home` must outlive the
// client; io may end any time later.
//
// Memory: at most (max_in_flight + max_waiting) times the largest answer allowed, when home stands
// still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapters/real_loop/real_loop.h"
#include "ports/http.h"

namespace nstance {

enum class CertificateRoots : std::uint8_t {
  kBundle,           // ca_bundle alone.
  kBundleAndSystem,  // Either may vouch for the peer.
};

struct HttpClientOptions {
  std::size_t max_in_flight = 32;
  std::size_t max_streams = 32;
  std::size_t max_waiting = 1024;
  // Requests (not streams) to one host and port at once, and so its connections.
  std::size_t max_connections_per_host = 32;
  // Unused connections that are kept, to all hosts together; the longest unused goes first.
  std::size_t max_warm_connections = 32;
  Duration max_warm_age = Duration::Seconds(90);

  // PEM; empty: the system's roots.
  std::string ca_bundle = {};
  CertificateRoots roots = CertificateRoots::kBundle;
  // PEM, shown to peers that ask; empty: none. The chain may follow the certificate.
  std::string client_certificate = {};
  std::string client_key = {};

  // Addresses of names that are not looked up: "host:port:address[,address...]".
  std::vector<std::string> fixed_addresses = {};
  // "http://host:port"; empty: none, whatever the environment says.
  std::string proxy = {};
  std::string user_agent = "nstance";
};

namespace http {
class CurlEngine;
struct Channel;
class HomeSide;
}  // namespace http

class CurlHttpClient final : public HttpClient {
 public:
  struct Deps {
    RealLoop& io;
    Loop& home;
    HttpClientOptions options = {};
  };

  explicit CurlHttpClient(Deps deps);
  ~CurlHttpClient() override;

  [[nodiscard]] Pending Send(HttpRequest request, Done done) override;
  [[nodiscard]] Pending Stream(HttpRequest request, HttpStreamEvents events) override;

 private:
  RealLoop& io_;
  const bool one_loop_;
  std::shared_ptr<http::Channel> channel_;
  std::shared_ptr<http::HomeSide> home_;
  std::shared_ptr<http::CurlEngine> engine_;
};

}  // namespace nstance
