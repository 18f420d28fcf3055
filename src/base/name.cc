#include "base/name.h"

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance {
namespace {

constexpr std::string_view kRule =
    "1 to 32 lower-case letters and digits, with single hyphens between them";

bool IsNameCharacter(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

}  // namespace

Status CheckName(std::string_view text, std::string_view what) {
  const auto bad = [&](std::string_view why) {
    return Fail(
        InvalidArgument(fmt::format("{} is not a {} name: {}; {}", Quote(text), what, why, kRule)));
  };
  if (text.empty()) return bad("it is empty");
  if (text.size() > kMaxNameLength) return bad(fmt::format("it has {} characters", text.size()));
  char previous = '-';
  for (const char c : text) {
    if (c == '-') {
      if (previous == '-') return bad("a hyphen must stand between letters or digits");
    } else if (!IsNameCharacter(c)) {
      return bad(fmt::format("it contains {}", Quote(std::string_view(&c, 1))));
    }
    previous = c;
  }
  if (previous == '-') return bad("a hyphen must stand between letters or digits");
  return {};
}

const TenantId& DefaultTenant() {
  static const TenantId tenant = [] {
    Result<TenantId> parsed = TenantId::Parse("default");
    CHECK(parsed.has_value());
    return *std::move(parsed);
  }();
  return tenant;
}

}  // namespace nstance
