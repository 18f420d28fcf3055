// PreparedRequest: an HttpRequest that was checked and put into the words of libcurl.
//
// Pure functions: nothing is sent here, and what is refused here was never sent. Every refusal is
// kInvalidArgument and names neither values of headers nor the query.
//
// Signed requests. libcurl 7.88 signs the path, the query and the list of headers literally as they
// are given, so they are brought into the canonical form first: path and query decoded once and
// encoded again as AWS does ("+" is a plus sign), the query sorted and every key with "=". What its
// signer gets wrong is refused:
//   - a header without a value, or given twice (it signs what is not sent, or does not merge them)
//   - one name that begins another ("x-amz-meta" and "x-amz-meta-a": it sorts them the wrong way)
//   - an escaped, empty or dotted path segment for a service other than s3 (which wants it escaped
//     twice and without dots)
//   - a region or service that is not [A-Za-z0-9-]{1,64} (it cuts them silently)
// A header that is taken out of libcurl's own set would be signed too. A signed body therefore
// always has a content type (application/octet-stream if none is given), and above 1 MiB the
// request carries `Expect: 100-continue`, which other requests never do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ports/http.h"

namespace nstance::http {

// Where a request goes.
struct Target {
  std::string scheme;  // "http" or "https".
  std::string host;    // Lower case.
  std::string port;    // Also when it is the scheme's own.
  std::string url;     // Exactly as it is sent.

  // "host:port", for messages and for counting.
  [[nodiscard]] std::string Authority() const { return host + ":" + port; }
};

[[nodiscard]] Result<Target> ParseTarget(std::string_view url);
// Where `location`, relative or not, leads from `base`. Errors are those of a bad answer:
// kUnavailable.
[[nodiscard]] Result<Target> ResolveRedirect(const Target& base, const std::string& location);
// HttpRedirectScope::kSameHost.
[[nodiscard]] bool SameHost(const Target& from, const Target& to);

// HttpAddresses::kNotLinkLocal: true also for what is no address.
[[nodiscard]] bool MayBeLinkLocal(const std::string& ip);

// "GET".
[[nodiscard]] std::string_view MethodName(HttpMethod method);

// Whether there is a body, be it empty: always with PUT, POST and PATCH, if given with DELETE.
[[nodiscard]] bool SendsBody(const HttpRequest& request);

struct PreparedRequest {
  Target target;
  // "name: value", or "name;" for an empty value, which is how libcurl wants it.
  std::vector<std::string> header_lines;

  // The same request for another host: without any header that could hold a credential.
  [[nodiscard]] PreparedRequest ForOtherHost(Target other) const;
};

// Reads the body of a signed request (its digest is a header); does not keep it.
[[nodiscard]] Result<PreparedRequest> Prepare(const HttpRequest& request);

}  // namespace nstance::http
