// HTTP as a port: one client for everything outward (object stores, clouds, Kubernetes).
//
// A request is a value; the answer is a value, or, for streams such as watches, a sequence of
// events. The adapter (adapters/http) keeps connections, bounds what runs at once and enforces
// every limit given here. Names in headers are compared without regard to case and stored in lower
// case.
//
// Outcomes. Methods other than GET and HEAD change something. Their errors are kNotDone only when
// the request surely never left: no connection, no TLS session, refused before sending. Everything
// after that (time-out, reset, cut or oversized answer) is kMaybeDone, and the client never sends
// such a request a second time by itself.
//
// Codes: kUnavailable (could not connect, connection lost, malformed answer), kDeadlineExceeded,
// kResourceExhausted (answer above its limit; client's queue full, then kNotDone), kInvalidArgument
// (malformed request), kPermissionDenied (TLS: the peer is not who it should be). An HTTP status is
// no error here: 404 and 500 are answers, and the caller decides what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ports/pending.h"

namespace nstance {

enum class HttpMethod : std::uint8_t { kGet, kHead, kPut, kPost, kPatch, kDelete };

[[nodiscard]] constexpr bool ChangesSomething(HttpMethod method) {
  return method != HttpMethod::kGet && method != HttpMethod::kHead;
}

struct HttpHeader {
  std::string name;
  std::string value;
};

// AWS Signature Version 4. The adapter signs with what is given here and sends no other
// credentials.
struct AwsSignature {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // Empty: none.
  std::string region;
  std::string service;
};

struct HttpRequest {
  HttpMethod method = HttpMethod::kGet;
  // http:// or https://, path percent-encoded by the caller. The query is sorted when it is signed.
  std::string url;
  std::vector<HttpHeader> headers;
  std::string body;

  // From the call to the last byte of the answer, the time spent in the queue included. For
  // streams: until the answer's headers.
  Duration deadline = Duration::Seconds(30);
  // Streams only: longest silence between two pieces of the body. Zero: no limit.
  Duration idle_limit;
  // Of the body; for streams, of what waits to be handed over.
  std::size_t max_response_bytes = std::size_t{1} * 1024 * 1024;
  // How many redirects to follow; 0 hands 3xx to the caller. Only for GET and HEAD, never to plain
  // HTTP from HTTPS, and credentials stay with the first host.
  int max_redirects = 0;
  std::optional<AwsSignature> aws_signature;
};

struct HttpResponse {
  int status = 0;
  std::vector<HttpHeader> headers;
  std::string body;

  // The first header of that name (lower case), or null pointer.
  [[nodiscard]] const std::string* Header(std::string_view name) const {
    for (const HttpHeader& header : headers) {
      if (header.name == name) return &header.value;
    }
    return nullptr;
  }
};

// Events of a stream, in this order: head once, then data any number of times, then end once.
struct HttpStreamEvents {
  std::move_only_function<void(HttpResponse head)> head;  // Body empty.
  std::move_only_function<void(std::string data)> data;
  std::move_only_function<void(Status end)> end;  // The only event when there was no answer.
};

class HttpClient {
 public:
  HttpClient() = default;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  virtual ~HttpClient() = default;

  using Done = std::move_only_function<void(Result<HttpResponse>)>;

  // Both are called on the loop that the client was made for, and answer there (ports/pending.h).
  // Destroying the Pending closes the connection if the request has begun.
  [[nodiscard]] virtual Pending Send(HttpRequest request, Done done) = 0;
  [[nodiscard]] virtual Pending Stream(HttpRequest request, HttpStreamEvents events) = 0;
};

}  // namespace nstance
