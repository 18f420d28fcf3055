#include "adapters/http/response_head.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace nstance::http {
namespace {

constexpr std::size_t kMaxLengthDigits = 18;  // Fits 64 bits, signed.

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsTokenCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").contains(c);
}

Error Malformed(std::string_view what) {
  return Unavailable(fmt::format("malformed answer: {}", what));
}

}  // namespace

bool IsToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsTokenCharacter);
}

bool IsFieldValue(std::string_view text) {
  return std::ranges::none_of(
      text, [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == '\x7f'; });
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view TrimBlanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

Status ResponseHead::Add(std::string_view line) {
  bytes_ += line.size();
  lines_ += 1;
  if (bytes_ > kMaxHeadBytes) {
    return Fail(ResourceExhausted(fmt::format("headers above {} bytes", kMaxHeadBytes)));
  }
  if (lines_ > kMaxHeadLines) {
    return Fail(ResourceExhausted(fmt::format("more than {} lines of headers", kMaxHeadLines)));
  }
  if (complete_) return {};  // A trailer.
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) {
    complete_ = answer_.status >= 200;
    return {};
  }
  return line.starts_with("HTTP/") ? AddStatusLine(line) : AddHeader(line);
}

Status ResponseHead::AddStatusLine(std::string_view line) {
  const std::size_t blank = line.find(' ');
  const std::string_view code =
      blank == std::string_view::npos ? std::string_view() : line.substr(blank + 1, 3);
  const bool ends = blank + 4 >= line.size() || line[blank + 4] == ' ';
  if (code.size() != 3 || !ends || !std::ranges::all_of(code, IsDigit) || code[0] == '0') {
    return Fail(Malformed("its first line is no status line"));
  }
  answer_ = {};
  for (const char digit : code) answer_.status = (answer_.status * 10) + (digit - '0');
  return {};
}

Status ResponseHead::AddHeader(std::string_view line) {
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || !IsToken(name)) {
    return Fail(Malformed("a header without a proper name"));
  }
  HttpHeader header{.name = LowerCase(name),
                    .value = std::string(TrimBlanks(line.substr(colon + 1)))};
  if (!IsFieldValue(header.value)) return Fail(Malformed("a control character in a header"));
  if (header.name == "content-length") {
    const std::string* before = answer_.Header(header.name);
    // libcurl would read a longer number as "until the connection ends".
    if (!std::ranges::all_of(header.value, IsDigit) || header.value.empty() ||
        header.value.size() > kMaxLengthDigits || (before != nullptr && *before != header.value)) {
      return Fail(Malformed("its length is no number or told in two ways"));
    }
  }
  answer_.headers.push_back(std::move(header));
  return {};
}

}  // namespace nstance::http
