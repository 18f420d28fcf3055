// ResponseHead: the head of an HTTP answer, collected line by line and checked.
//
// Strict where a loose reading would let an answer be cut or mixed up with the next one: folded
// lines, lines without a colon, names that are no tokens and two different lengths are refused.
// Interim answers (1xx) are counted and dropped, so are trailers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "ports/http.h"

namespace nstance::http {

// Of everything before the body, interim answers included, and of the trailers after it.
inline constexpr std::size_t kMaxHeadBytes = std::size_t{64} * 1024;
inline constexpr std::size_t kMaxHeadLines = 256;

// RFC 9110 token: what names of headers consist of.
[[nodiscard]] bool IsToken(std::string_view text);
// No control characters but tabs.
[[nodiscard]] bool IsFieldValue(std::string_view text);
[[nodiscard]] std::string LowerCase(std::string_view text);
// Without blanks and tabs at both ends.
[[nodiscard]] std::string_view TrimBlanks(std::string_view text);

class ResponseHead final {
 public:
  // One line with its line end. kResourceExhausted above a limit, kUnavailable when malformed.
  [[nodiscard]] Status Add(std::string_view line);

  // True from the empty line of the final answer on; `answer()` is whole then.
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] const HttpResponse& answer() const { return answer_; }
  [[nodiscard]] HttpResponse& answer() { return answer_; }

 private:
  [[nodiscard]] Status AddStatusLine(std::string_view line);
  [[nodiscard]] Status AddHeader(std::string_view line);

  HttpResponse answer_;
  std::size_t bytes_ = 0;
  std::size_t lines_ = 0;
  bool complete_ = false;
};

}  // namespace nstance::http
