// The head of an HTTP/1.x request: bytes in, a question or a status to refuse it with out.
//
// Strict, because nothing legitimate needs more: lines end in CR LF, header names are tokens, no
// folded lines, one Host, no body. Total: any bytes give an answer, in time linear in their number.
//
//   400   malformed; Transfer-Encoding together with Content-Length
//   405   a method other than GET and HEAD
//   413   a body
//   431   more than kMaxHeaders headers (the caller: more than kMaxHeadBytes before the empty line)
//   505   a version other than 1.0 and 1.1
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string_view>

#include "ports/http_server.h"

namespace nstance::http_server {

inline constexpr std::size_t kMaxHeadBytes = std::size_t{8} * 1024;
inline constexpr std::size_t kMaxHeaders = 64;

enum class BodyWanted : std::uint8_t { kYes, kNo };  // kNo: HEAD.

struct Head {
  HttpQuestion question = {};
  BodyWanted body = BodyWanted::kYes;
};

struct Refusal {
  int status = 400;
  std::string_view why = {};
};

// The length of the head at the front of `bytes`, its empty line included; npos while that is not
// there.
[[nodiscard]] std::size_t FindHeadEnd(std::string_view bytes);

// REQUIRES: `head` ends with its empty line.
[[nodiscard]] std::expected<Head, Refusal> ParseHead(std::string_view head);

// "HTTP/1.1 200 OK" with all headers; with or without the body.
[[nodiscard]] std::string FormatAnswer(const HttpAnswer& answer, BodyWanted body);

}  // namespace nstance::http_server
