#include "adapters/http_server/http_head.h"

#include <algorithm>
#include <string>

#include <fmt/core.h>

namespace nstance::http_server {
namespace {

constexpr std::string_view kEnd = "\r\n";

std::unexpected<Refusal> Refuse(int status, std::string_view why) {
  return std::unexpected(Refusal{.status = status, .why = why});
}

bool IsTokenCharacter(char c) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOthers.contains(c);
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsTokenCharacter);
}

// Of a target: printable ASCII without blanks.
bool IsVisible(char c) { return c > ' ' && c < 0x7f; }

// Of a header's value: no control characters but the tab.
bool IsValueCharacter(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

bool EqualsIgnoringCase(std::string_view a, std::string_view lower) {
  const auto fold = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, lower, {}, fold);
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Takes one line off the front. Only CR LF ends one, so a lone CR or LF stays in it and is refused.
std::string_view NextLine(std::string_view& rest) {
  const std::size_t end = rest.find(kEnd);
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(line.size() + kEnd.size(), rest.size()));
  return line;
}

// What the headers say that matters.
struct Headers {
  int hosts = 0;
  bool length = false;
  bool body = false;
  bool transfer = false;
};

std::expected<void, Refusal> TakeHeader(std::string_view line, Headers& headers) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return Refuse(400, "a header without a colon");
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = Trimmed(line.substr(colon + 1));
  if (!IsToken(name)) return Refuse(400, "a malformed header name");
  if (!std::ranges::all_of(value, IsValueCharacter)) {
    return Refuse(400, "a control character in a header");
  }
  if (EqualsIgnoringCase(name, "host")) ++headers.hosts;
  if (EqualsIgnoringCase(name, "transfer-encoding")) headers.transfer = true;
  if (EqualsIgnoringCase(name, "content-length")) {
    const bool digits =
        !value.empty() && std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || headers.length) return Refuse(400, "a malformed Content-Length");
    headers.length = true;
    headers.body = value.find_first_not_of('0') != std::string_view::npos;
  }
  return {};
}

struct RequestLine {
  std::string_view method;
  std::string_view target;
  std::string_view version;
};

std::expected<RequestLine, Refusal> ParseRequestLine(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return Refuse(400, "a malformed request line");
  }
  const RequestLine parts{.method = line.substr(0, first),
                          .target = line.substr(first + 1, last - first - 1),
                          .version = line.substr(last + 1)};
  if (!IsToken(parts.method) || !std::ranges::all_of(parts.target, IsVisible)) {
    return Refuse(400, "a malformed request line");
  }
  if (!parts.version.starts_with("HTTP/")) return Refuse(400, "a malformed request line");
  if (parts.version != "HTTP/1.1" && parts.version != "HTTP/1.0") {
    return Refuse(505, "HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  if (parts.method != "GET" && parts.method != "HEAD") {
    return Refuse(405, "GET and HEAD are allowed");
  }
  if (!parts.target.starts_with('/')) return Refuse(400, "the target begins with a slash");
  return parts;
}

std::expected<void, Refusal> CheckHeaders(const Headers& headers, std::string_view version) {
  if (headers.transfer && headers.length) {
    return Refuse(400, "Transfer-Encoding together with Content-Length");
  }
  if (headers.transfer || headers.body) return Refuse(413, "a request here has no body");
  if (headers.hosts > 1 || (headers.hosts == 0 && version == "HTTP/1.1")) {
    return Refuse(400, "exactly one Host is needed");
  }
  return {};
}

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

}  // namespace

std::size_t FindHeadEnd(std::string_view bytes) {
  const std::size_t at = bytes.find("\r\n\r\n");
  return at == std::string_view::npos ? at : at + 4;
}

std::expected<Head, Refusal> ParseHead(std::string_view head) {
  const auto line = ParseRequestLine(NextLine(head));
  if (!line) return std::unexpected(line.error());
  Headers headers;
  std::size_t count = 0;
  for (;;) {
    const std::string_view next = NextLine(head);
    if (next.empty()) break;
    if (++count > kMaxHeaders) return Refuse(431, "too many headers");
    if (const auto taken = TakeHeader(next, headers); !taken) {
      return std::unexpected(taken.error());
    }
  }
  if (const auto good = CheckHeaders(headers, line->version); !good) {
    return std::unexpected(good.error());
  }
  const std::size_t mark = std::min(line->target.find('?'), line->target.size());
  return Head{.question = {.path = std::string(line->target.substr(0, mark)),
                           .query = std::string(
                               line->target.substr(std::min(mark + 1, line->target.size())))},
              .body = line->method == "HEAD" ? BodyWanted::kNo : BodyWanted::kYes};
}

std::string FormatAnswer(const HttpAnswer& answer, BodyWanted body) {
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\n{}Connection: close\r\n\r\n",
      answer.status, ReasonOf(answer.status), answer.content_type, answer.body.size(),
      answer.status == 405 ? "Allow: GET, HEAD\r\n" : "");
  if (body == BodyWanted::kYes) text += answer.body;
  return text;
}

}  // namespace nstance::http_server
