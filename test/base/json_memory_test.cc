// How much memory a text can make the parser take: every allocation of this program is counted
// while texts go in that were chosen to be small and to become large.
#include <malloc.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace {

std::size_t live_bytes = 0;
std::size_t peak_bytes = 0;

}  // namespace

void* operator new(std::size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) std::abort();
  live_bytes += malloc_usable_size(block);
  if (live_bytes > peak_bytes) peak_bytes = live_bytes;
  return block;
}

void operator delete(void* block) noexcept {
  if (block != nullptr) live_bytes -= malloc_usable_size(block);
  std::free(block);
}

void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

namespace nstance::json {
namespace {

constexpr std::size_t kFactor = 32;

std::string Repeated(std::string_view unit, std::string_view front, std::string_view back) {
  std::string text(front);
  while (text.size() < 100'000) text += unit;
  return text += back;
}

std::string Nested(int depth) {
  const auto size = static_cast<std::size_t>(depth);
  return std::string(size, '[') + "0" + std::string(size, ']') + ",";
}

std::string DistinctKeys() {
  std::string text = "{";
  for (int i = 0; i < 12'000; ++i) text += fmt::format("\"{:x}\":0,", i);
  return text += "\"\":0}";
}

TEST(JsonMemoryTest, StaysBelowThirtyTwoTimesTheText) {
  const std::vector<std::string> texts = {
      Repeated("0,", "[", "0]"),
      Repeated("0,", "[", "]"),
      Repeated("[],", "[", "0]"),
      Repeated("{},", "[", "0]"),
      Repeated("[0],", "[", "0]"),
      Repeated("[0,],", "[", "0]"),
      Repeated("\"\",", "[", "0]"),
      Repeated("\"0123456789abcdef\",", "[", "0]"),
      Repeated("\"\\u0000\\n\",", "[", "0]"),
      Repeated("{\"\":0},", "[", "0]"),
      Repeated("{\"\":{\"\":[]}},", "[", "0]"),
      Repeated(Nested(2), "[", "0]"),
      Repeated(Nested(62), "[", "0]"),
      DistinctKeys(),
      Repeated("\"\":0,", "{", "\"\":0}"),
      // Wrong from early on, right to the eye of whoever only counts.
      Repeated("\"\",", "{", "}"),
      Repeated("{\"\",", "[", "]"),
      Repeated(":,", "{", "}"),
      Repeated("0,", "[", ""),
      Repeated("0,", "[", ",]"),
      Repeated("[", "", ""),
      Repeated("[[],", "", ""),
      Repeated("/**/,", "[", "]"),
      Repeated("x", "\"", "\""),
      Repeated("x", "\"\\n", "\""),
  };
  for (const std::string& text : texts) {
    for (const bool collect : {false, true}) {
      const std::size_t before = live_bytes;
      peak_bytes = before;
      {
        std::vector<DuplicateKey> duplicates;
        const Result<Value> value =
            Parse(text, {.syntax = Syntax::kJsonc, .duplicates = collect ? &duplicates : nullptr});
        // A refusal is fine here, as long as it is cheap.
      }
      EXPECT_LE(peak_bytes - before, kFactor * text.size())
          << text.substr(0, 20) << " took " << (peak_bytes - before) / text.size() << " times";
      EXPECT_EQ(live_bytes, before);
    }
  }
}

}  // namespace
}  // namespace nstance::json
