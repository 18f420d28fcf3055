#include "adapters/http/prepared_request.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <curl/curl.h>
#include <fmt/core.h>
#include <openssl/evp.h>

#include "adapters/http/response_head.h"
#include "base/check.h"
#include "base/text.h"

namespace nstance::http {
namespace {

constexpr std::size_t kMaxUrlBytes = std::size_t{16} * 1024;
constexpr std::size_t kMaxSignatureWord = 64;
// curl_url_get() and curl_url_set() take flags as unsigned, and curl.h defines them as int.
constexpr unsigned kPathAsIs = CURLU_PATH_AS_IS;
constexpr unsigned kDefaultPort = CURLU_DEFAULT_PORT;
constexpr unsigned kUrlEncode = CURLU_URLENCODE;

// What the connection is made of; a caller that sets these could make two requests of one.
constexpr auto kConnectionHeaders = std::to_array<std::string_view>(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer",
     "transfer-encoding", "upgrade", "proxy-authorization", "proxy-connection"});
constexpr auto kSignatureHeaders = std::to_array<std::string_view>(
    {"authorization", "date", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"});
// All that another host may see.
constexpr auto kHarmlessHeaders =
    std::to_array<std::string_view>({"accept", "accept-encoding", "accept-language", "if-match",
                                     "if-modified-since", "if-none-match", "range"});

bool IsOneOf(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsVisible(char c) { return c > ' ' && c < '\x7f'; }

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlDeleter>;

// Empty when the part is missing.
std::string Part(const Url& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return {};
  std::string value(text);
  curl_free(text);
  return value;
}

Status CheckUrlText(std::string_view url) {
  if (url.size() > kMaxUrlBytes) {
    return Fail(InvalidArgument(fmt::format("URL above {} bytes", kMaxUrlBytes)));
  }
  if (!std::ranges::all_of(url, IsVisible) || url.contains('\\')) {
    return Fail(InvalidArgument("URL with a blank, a backslash, or a character outside ASCII"));
  }
  if (url.contains('#')) return Fail(InvalidArgument("URL with a fragment"));
  return {};
}

std::string HexSha256(std::string_view bytes) {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  return HexEncode(std::span(digest).first(size));
}

// The text with every escape undone and then made again as AWS does: all but unreserved characters
// and those of `kept`.
Result<std::string> Canonical(std::string_view text, std::string_view kept) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const auto byte = HexDecode(text.substr(i + 1, 2));
      if (!byte.has_value() || byte->size() != 1) {
        return Fail(InvalidArgument("URL with a percent sign that escapes nothing"));
      }
      c = static_cast<char>(byte->front());
      i += 2;
    }
    if (IsAlphanumeric(c) || std::string_view("-._~").contains(c) || kept.contains(c)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Result<std::string> CanonicalQuery(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> parameters;
  while (!query.empty()) {
    const std::string_view parameter = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), parameter.size() + 1));
    if (parameter.empty()) continue;
    const std::size_t equals = std::min(parameter.find('='), parameter.size());
    ASSIGN_OR_RETURN(std::string key, Canonical(parameter.substr(0, equals), ""));
    ASSIGN_OR_RETURN(std::string value,
                     Canonical(parameter.substr(std::min(equals + 1, parameter.size())), ""));
    parameters.emplace_back(std::move(key), std::move(value));
  }
  std::ranges::sort(parameters);
  std::string out;
  for (const auto& [key, value] : parameters) {
    if (!out.empty()) out += '&';
    out.append(key).append("=").append(value);
  }
  return out;
}

Status CheckPathOfOtherService(std::string_view path) {
  if (path.contains('%') || path.contains("//") || path.contains("/.")) {
    return Fail(InvalidArgument("signing an escaped, empty or dotted path segment is for s3 only"));
  }
  return {};
}

// The URL that is both sent and signed.
Result<std::string> CanonicalUrl(std::string_view url, std::string_view service) {
  const std::size_t authority = url.find("://") + 3;
  const std::size_t path_at = std::min(url.find_first_of("/?", authority), url.size());
  const std::size_t query_at = std::min(url.find('?', path_at), url.size());
  ASSIGN_OR_RETURN(std::string path, Canonical(url.substr(path_at, query_at - path_at), "/"));
  if (path.empty()) path = "/";
  if (service != "s3") RETURN_IF_ERROR(CheckPathOfOtherService(path));
  ASSIGN_OR_RETURN(const std::string query,
                   CanonicalQuery(url.substr(std::min(query_at + 1, url.size()))));
  std::string out(url.substr(0, path_at));
  out += path;
  if (!query.empty()) out.append("?").append(query);
  return out;
}

Status CheckSignatureWord(std::string_view what, std::string_view word) {
  const bool ok = !word.empty() && word.size() <= kMaxSignatureWord &&
                  std::ranges::all_of(word, [](char c) { return IsAlphanumeric(c) || c == '-'; });
  if (ok) return {};
  return Fail(InvalidArgument(fmt::format("{} {} cannot be signed with", what, Quote(word))));
}

Status CheckSignature(const AwsSignature& signature) {
  RETURN_IF_ERROR(CheckSignatureWord("region", signature.region));
  RETURN_IF_ERROR(CheckSignatureWord("service", signature.service));
  if (signature.access_key.empty() || !std::ranges::all_of(signature.access_key, IsVisible)) {
    return Fail(InvalidArgument("access key is empty or holds other than visible characters"));
  }
  if (signature.secret_key.empty() || !std::ranges::all_of(signature.secret_key, IsVisible)) {
    return Fail(InvalidArgument("secret key is empty or holds other than visible characters"));
  }
  if (!std::ranges::all_of(signature.session_token, IsVisible)) {
    return Fail(InvalidArgument("session token holds other than visible characters"));
  }
  return {};
}

// What libcurl's signer would get wrong.
Status CheckSignedHeaders(const std::vector<HttpHeader>& headers) {
  std::vector<std::string> names = {"host", "x-amz-date"};  // Which libcurl adds.
  for (const HttpHeader& header : headers) {
    if (header.value.empty()) {
      return Fail(InvalidArgument(fmt::format("header {} without value", Quote(header.name))));
    }
    names.push_back(header.name);
  }
  std::ranges::sort(names);
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (!names[i].starts_with(names[i - 1])) continue;
    // It sorts "name:value" whole, so what stands before the colon in ASCII comes too early.
    if (names[i] == names[i - 1] || names[i][names[i - 1].size()] < ':') {
      return Fail(InvalidArgument(fmt::format("header {} together with {} cannot be signed",
                                              Quote(names[i - 1]), Quote(names[i]))));
    }
  }
  return {};
}

Status CheckHeader(const HttpHeader& header) {
  if (!IsToken(header.name)) {
    return Fail(InvalidArgument(fmt::format("{} is no name of a header", Quote(header.name))));
  }
  if (!IsFieldValue(header.value)) {
    return Fail(
        InvalidArgument(fmt::format("header {} holds a control character", Quote(header.name))));
  }
  if (IsOneOf(kConnectionHeaders, LowerCase(header.name))) {
    return Fail(
        InvalidArgument(fmt::format("header {} belongs to the connection", Quote(header.name))));
  }
  return {};
}

// Lower case, trimmed and checked.
Result<std::vector<HttpHeader>> CheckedHeaders(const std::vector<HttpHeader>& headers) {
  std::vector<HttpHeader> checked;
  std::size_t bytes = 0;
  for (const HttpHeader& header : headers) {
    RETURN_IF_ERROR(CheckHeader(header));
    bytes += header.name.size() + header.value.size() + 4;
    checked.push_back(
        {.name = LowerCase(header.name), .value = std::string(TrimBlanks(header.value))});
  }
  if (bytes > kMaxHeadBytes || checked.size() > kMaxHeadLines) {
    return Fail(InvalidArgument(
        fmt::format("headers above {} bytes or {} lines", kMaxHeadBytes, kMaxHeadLines)));
  }
  return checked;
}

bool Has(const std::vector<HttpHeader>& headers, std::string_view name) {
  return std::ranges::find(headers, name, &HttpHeader::name) != headers.end();
}

Status PrepareSigned(const HttpRequest& request, Target& target, std::vector<HttpHeader>& headers) {
  const AwsSignature& signature = *request.aws_signature;
  RETURN_IF_ERROR(CheckSignature(signature));
  for (const HttpHeader& header : headers) {
    if (IsOneOf(kSignatureHeaders, header.name)) {
      return Fail(
          InvalidArgument(fmt::format("header {} belongs to the signature", Quote(header.name))));
    }
  }
  ASSIGN_OR_RETURN(target.url, CanonicalUrl(target.url, signature.service));
  headers.push_back({.name = "x-amz-content-sha256", .value = HexSha256(request.body)});
  if (!signature.session_token.empty()) {
    headers.push_back({.name = "x-amz-security-token", .value = signature.session_token});
  }
  if (SendsBody(request) && !Has(headers, "content-type")) {
    headers.push_back({.name = "content-type", .value = "application/octet-stream"});
  }
  return CheckSignedHeaders(headers);
}

Status CheckLimits(const HttpRequest& request) {
  if (!ChangesSomething(request.method) && !request.body.empty()) {
    return Fail(InvalidArgument("a body with GET or HEAD"));
  }
  if (request.max_redirects < 0) return Fail(InvalidArgument("max_redirects below 0"));
  if (request.max_redirects > 0 && ChangesSomething(request.method)) {
    return Fail(InvalidArgument("redirects are followed for GET and HEAD only"));
  }
  if (request.max_redirects > 0 && request.aws_signature.has_value()) {
    return Fail(InvalidArgument("redirects are not followed for signed requests"));
  }
  return {};
}

}  // namespace

std::string_view MethodName(HttpMethod method) {
  switch (method) {
    case HttpMethod::kGet: return "GET";
    case HttpMethod::kHead: return "HEAD";
    case HttpMethod::kPut: return "PUT";
    case HttpMethod::kPost: return "POST";
    case HttpMethod::kPatch: return "PATCH";
    case HttpMethod::kDelete: return "DELETE";
  }
  return "GET";
}

bool MayBeLinkLocal(const std::string& ip) {
  in_addr four{};
  if (inet_pton(AF_INET, ip.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 16) == 0xA9FE;
  in6_addr six{};
  if (inet_pton(AF_INET6, ip.c_str(), &six) != 1) return true;
  if (IN6_IS_ADDR_V4MAPPED(&six)) return six.s6_addr[12] == 169 && six.s6_addr[13] == 254;
  in6_addr aws{};  // The metadata service of AWS, which is not link-local in IPv6.
  CHECK(inet_pton(AF_INET6, "fd00:ec2::254", &aws) == 1);
  return IN6_IS_ADDR_LINKLOCAL(&six) || IN6_ARE_ADDR_EQUAL(&six, &aws);
}

bool SendsBody(const HttpRequest& request) {
  return ChangesSomething(request.method) &&
         (request.method != HttpMethod::kDelete || !request.body.empty());
}

Result<Target> ParseTarget(std::string_view text) {
  RETURN_IF_ERROR(CheckUrlText(text));
  const Url url(curl_url());
  CHECK(url != nullptr);
  const CURLUcode code =
      curl_url_set(url.get(), CURLUPART_URL, std::string(text).c_str(), kPathAsIs);
  if (code != CURLUE_OK) {
    return Fail(InvalidArgument(fmt::format("malformed URL: {}", curl_url_strerror(code))));
  }
  Target target{.scheme = Part(url, CURLUPART_SCHEME),
                .host = LowerCase(Part(url, CURLUPART_HOST)),
                .port = Part(url, CURLUPART_PORT, kDefaultPort),
                .url = std::string(text)};
  // libcurl reads more schemes, and "http:/host" too.
  if (!text.starts_with("http://") && !text.starts_with("https://")) {
    return Fail(InvalidArgument("URL that begins with neither http:// nor https://"));
  }
  if (target.host.empty()) return Fail(InvalidArgument("URL without a host"));
  if (!Part(url, CURLUPART_USER).empty() || !Part(url, CURLUPART_PASSWORD).empty()) {
    return Fail(InvalidArgument("URL with a user name or password"));
  }
  return target;
}

Result<Target> ResolveRedirect(const Target& base, const std::string& location) {
  const Url url(curl_url());
  CHECK(url != nullptr);
  CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, base.url.c_str(), kPathAsIs);
  if (code == CURLUE_OK) {
    code = curl_url_set(url.get(), CURLUPART_URL, location.c_str(), kUrlEncode);
  }
  if (code == CURLUE_OK) code = curl_url_set(url.get(), CURLUPART_FRAGMENT, nullptr, 0);
  if (code != CURLUE_OK) {
    return Fail(Unavailable(fmt::format("malformed redirect: {}", curl_url_strerror(code))));
  }
  Result<Target> target = ParseTarget(Part(url, CURLUPART_URL));
  if (!target.has_value()) {
    return Fail(Unavailable(std::move(target).error().Under("malformed redirect").message));
  }
  return target;
}

bool SameHost(const Target& from, const Target& to) {
  if (from.host != to.host) return false;
  if (from.scheme == to.scheme) return from.port == to.port;
  return from.port == "80" && to.port == "443";
}

PreparedRequest PreparedRequest::ForOtherHost(Target other) const {
  PreparedRequest request{.target = std::move(other), .header_lines = {}};
  for (const std::string& line : header_lines) {
    const std::string_view name = std::string_view(line).substr(0, line.find_first_of(":;"));
    if (IsOneOf(kHarmlessHeaders, name)) request.header_lines.push_back(line);
  }
  return request;
}

Result<PreparedRequest> Prepare(const HttpRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  PreparedRequest prepared;
  ASSIGN_OR_RETURN(prepared.target, ParseTarget(request.url));
  ASSIGN_OR_RETURN(std::vector<HttpHeader> headers, CheckedHeaders(request.headers));
  if (request.aws_signature.has_value()) {
    RETURN_IF_ERROR(PrepareSigned(request, prepared.target, headers));
  } else if (SendsBody(request) && !Has(headers, "content-type")) {
    prepared.header_lines.emplace_back("content-type:");  // libcurl would claim it is a form.
  }
  for (const HttpHeader& header : headers) {
    prepared.header_lines.push_back(header.value.empty() ? header.name + ";"
                                                         : header.name + ": " + header.value);
  }
  // Taken out of libcurl's own set.
  if (!request.aws_signature.has_value()) prepared.header_lines.emplace_back("expect:");
  return prepared;
}

}  // namespace nstance::http
