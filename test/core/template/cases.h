// Templates written by hand, one table per part of the language, rendered with Sample(). The unit
// test checks them against what stands here, the test with the Go peer against Go.
#pragma once

#include <span>
#include <string_view>

namespace nstance::test {

struct TemplateCase {
  std::string_view source;
  std::string_view output;  // Or the error's text.
};

[[nodiscard]] std::span<const TemplateCase> OutputCases();
[[nodiscard]] std::span<const TemplateCase> PrintfCases();
[[nodiscard]] std::span<const TemplateCase> ExecErrorCases();
[[nodiscard]] std::span<const TemplateCase> ParseErrorCases();

}  // namespace nstance::test
