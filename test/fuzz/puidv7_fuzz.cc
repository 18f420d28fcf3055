// Ids and names: any bytes give an id or an error; the strict reader takes nothing that the lenient
// one does not, keeps the spelling, and what either read comes back from its own text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/name.h"
#include "base/puidv7.h"

namespace nstance {
namespace {

void CheckId(std::string_view text) {
  const Result<Puidv7> strict = ParsePuidv7(text);
  const Result<Puidv7> lenient = ReadPuidv7(text);
  if (strict) {
    CHECK(strict->text() == text);
    CHECK(lenient.has_value() && *lenient == *strict);
    CHECK(ParsePuidv7(text, strict->prefix()).has_value());
    CHECK(!ParsePuidv7(text, strict->prefix() == "abc" ? "abd" : "abc").has_value());
  } else {
    CHECK(strict.error().code == Code::kInvalidArgument && !strict.error().message.empty());
  }
  if (!lenient) return;
  CHECK(lenient->text().size() == Puidv7::kTextLength);
  const Result<Puidv7> again = ReadPuidv7(lenient->text());
  CHECK(again.has_value() && *again == *lenient && again->uuid() == lenient->uuid());
  CHECK(Puidv7(lenient->prefix(), lenient->uuid()).text() == lenient->text());
  CHECK(lenient->UuidText().size() == 36);
  CHECK(lenient->StorageKey().size() == 40);
  CHECK(lenient->created_at() >= Timestamp());
}

void CheckNames(std::string_view text) {
  const Result<TenantId> name = TenantId::Parse(text);
  CHECK(name.has_value() == CheckName(text, "tenant").has_value());
  if (!name) {
    CHECK(name.error().code == Code::kInvalidArgument && !name.error().message.empty());
    return;
  }
  // The rule once more, said differently.
  CHECK(name->text() == text && !text.empty() && text.size() <= kMaxNameLength);
  CHECK(!text.starts_with('-') && !text.ends_with('-') && !text.contains("--"));
  CHECK(std::ranges::all_of(
      text, [](char c) { return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }));
}

}  // namespace
}  // namespace nstance

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  nstance::CheckId(text);
  nstance::CheckNames(text);
  return 0;
}
