// JSON and JSONC: any bytes give a value or an error; a value that was read is written and read
// back as the same, and its canonical bytes are a fixed point.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"

namespace nstance::json {
namespace {

constexpr std::size_t kMaxBytes = 4'000;
constexpr int kDepth = 16;

void CheckPositions(const Value& value, std::size_t bytes) {
  CHECK(value.position().line >= 1 && value.position().line <= bytes + 1);
  CHECK(value.position().column >= 1 && value.position().column <= bytes + 1);
  if (const Array* items = value.if_array()) {
    for (const Value& item : *items) CheckPositions(item, bytes);
  } else if (const Object* members = value.if_object()) {
    for (const Member& member : *members) CheckPositions(member.value, bytes);
  }
}

void CheckValue(const Value& value, std::size_t bytes) {
  CheckPositions(value, bytes);
  for (const int indent : {0, 2}) {
    const std::string text = Write(value, {.indent = indent});
    const Result<Value> again = Parse(text, {.max_depth = kDepth});
    CHECK(again.has_value(), "{}: {}", text, again.error().message);
    CHECK(*again == value, "{}", text);
    CHECK(Write(*again, {.indent = indent}) == text, "{}", text);
  }
  const std::string canonical = WriteCanonical(value);
  const Result<Value> again = Parse(canonical, {.max_depth = kDepth});
  CHECK(again.has_value(), "{}: {}", canonical, again.error().message);
  CHECK(WriteCanonical(*again) == canonical, "{}", canonical);
}

void Check(std::string_view text) {
  const Result<Value> json = Parse(text, {.max_bytes = kMaxBytes, .max_depth = kDepth});
  const Result<Value> jsonc =
      Parse(text, {.syntax = Syntax::kJsonc, .max_bytes = kMaxBytes, .max_depth = kDepth});
  std::vector<DuplicateKey> duplicates;
  const Result<Value> collected = Parse(text, {.syntax = Syntax::kJsonc,
                                               .max_bytes = kMaxBytes,
                                               .max_depth = kDepth,
                                               .duplicates = &duplicates});
  if (json) {
    CHECK(jsonc.has_value() && *jsonc == *json, "JSON is JSONC");
    CheckValue(*json, text.size());
  }
  if (jsonc) {
    CHECK(collected.has_value() && *collected == *jsonc && duplicates.empty());
    CheckValue(*jsonc, text.size());
  } else {
    CHECK(!jsonc.error().message.empty());
    CHECK(!collected.has_value() || !duplicates.empty());
  }
  if (collected) CheckValue(*collected, text.size());
}

}  // namespace
}  // namespace nstance::json

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::json::Check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
