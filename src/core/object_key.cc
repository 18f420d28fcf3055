#include "core/object_key.h"

#include <fmt/core.h>

#include "base/text.h"

namespace nstance {
namespace {

constexpr std::size_t kMaxKeyLength = 1'024;

}  // namespace

Result<ObjectKey> ObjectKey::Parse(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Fail(InvalidArgument(fmt::format("{} is not an object key: {}", Quote(text), why)));
  };
  if (text.empty()) return bad("it is empty");
  if (text.size() > kMaxKeyLength) return bad("it is longer than 1024 bytes");
  for (const char c : text) {
    if (c < 0x21 || c > 0x7E || c == '\\') {
      return bad("only printable ASCII without blanks and backslashes is allowed");
    }
  }
  for (std::string_view rest = text;;) {
    const std::size_t end = rest.find('/');
    const std::string_view component = rest.substr(0, end);
    if (component.empty()) return bad("it has an empty component");
    if (component == "." || component == "..") return bad("it has a component . or ..");
    if (end == std::string_view::npos) return ObjectKey(std::string(text));
    rest.remove_prefix(end + 1);
  }
}

}  // namespace nstance
