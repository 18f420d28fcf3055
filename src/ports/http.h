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
// (malformed request), kPermissionDenied (TLS: the peer is not who it should be),
// kFailedPrecondition (a redirect or an address that the request does not allow; our own
// certificate is unusable). An HTTP status is no error here: 404 and 500 are answers, and the
// caller decides what they mean.
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
  std::string name = {};
  std::string value = {};
};

// AWS Signature Version 4. The adapter signs with what is given here and sends no other
// credentials: the request must not bring `authorization`, `date` or its own x-amz-date,
// x-amz-security-token and x-amz-content-sha256, and may not be redirected.
struct AwsSignature {
  std::string access_key = {};
  std::string secret_key = {};
  std::string session_token = {};  // Empty: none.
  std::string region = {};
  std::string service = {};
};

// Where a redirect may lead. Never to plain HTTP from HTTPS.
enum class HttpRedirectScope : std::uint8_t {
  kSameHost,  // The same host and port, or from its plain to its secure default port.
  kAnyHost,  // Another host sees neither a header that could hold a credential nor our certificate.
};

// Which addresses a request may reach, however a name resolves.
enum class HttpAddresses : std::uint8_t {
  kAny,
  // Not 169.254.0.0/16, fe80::/10 and fd00:ec2::254, where clouds answer with credentials.
  kNotLinkLocal,
};

struct HttpRequest {
  HttpMethod method = HttpMethod::kGet;
  // http:// or https://, ASCII, path and query percent-encoded by the caller, without user name and
  // fragment. When it is signed the path and the query are brought into the form that AWS signs.
  std::string url = {};
  // Names are tokens, values hold no control characters. What belongs to the connection (host,
  // content-length, transfer-encoding, connection, expect, ...) is the adapter's and refused here.
  std::vector<HttpHeader> headers = {};
  // Not for GET and HEAD.
  std::string body = {};

  // From the call to the last byte of the answer, the time spent in the queue included. For
  // streams: until the answer's headers.
  Duration deadline = Duration::Seconds(30);
  // Streams only: longest silence before a piece of the body, then kDeadlineExceeded. Zero: no
  // limit.
  Duration idle_limit = {};
  // Of the body; for streams, of what waits to be handed over (one piece may exceed it).
  std::size_t max_response_bytes = std::size_t{1} * 1024 * 1024;
  // How many redirects to follow; 0 hands 3xx to the caller. Only for GET and HEAD.
  int max_redirects = 0;
  HttpRedirectScope redirect_scope = HttpRedirectScope::kSameHost;
  HttpAddresses addresses = HttpAddresses::kAny;
  std::optional<AwsSignature> aws_signature = {};
};

struct HttpResponse {
  int status = 0;
  std::vector<HttpHeader> headers = {};
  std::string body = {};

  // The first header of that name (lower case), or null pointer.
  [[nodiscard]] const std::string* Header(std::string_view name) const {
    for (const HttpHeader& header : headers) {
      if (header.name == name) return &header.value;
    }
    return nullptr;
  }
};

// Events of a stream, in this order: head once, then data any number of times, then end once. Any
// of them may be left empty.
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
