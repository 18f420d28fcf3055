#include "core/fleet/hold_news.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/fleet/explain.h"

namespace nstance::fleet {
namespace {

using Kind = HoldNews::Kind;

auto NameOf(const Hold& hold) { return std::tie(hold.instance, hold.code); }

struct Change {
  Kind kind = Kind::kBegan;
  const Hold* hold = nullptr;
};

std::vector<Change> Changes(std::span<const Hold> before, std::span<const Hold> after) {
  std::vector<Change> out;
  auto was = before.begin();
  auto is = after.begin();
  while (was != before.end() || is != after.end()) {
    const bool over = is == after.end() || (was != before.end() && NameOf(*was) < NameOf(*is));
    if (over) {
      out.push_back({.kind = Kind::kOver, .hold = &*was++});
    } else if (was == before.end() || NameOf(*is) < NameOf(*was)) {
      out.push_back({.kind = Kind::kBegan, .hold = &*is++});
    } else {
      ++was;
      ++is;
    }
  }
  return out;
}

void Append(std::vector<HoldNews>& out, std::span<const Change> alike) {
  if (alike.size() > kFewHolds) {
    HoldNews& news = out.emplace_back(HoldNews{.kind = alike[0].kind, .hold = *alike[0].hold});
    for (const Change& change : alike) news.instances.push_back(*change.hold->instance);
    return;
  }
  for (const Change& change : alike) {
    HoldNews& news = out.emplace_back(HoldNews{.kind = change.kind, .hold = *change.hold});
    if (change.hold->instance) news.instances.push_back(*change.hold->instance);
  }
}

}  // namespace

std::vector<HoldNews> CompareHolds(std::span<const Hold> before, std::span<const Hold> after) {
  std::vector<Change> changes = Changes(before, after);
  std::vector<HoldNews> out;
  if (changes.empty()) return out;
  // What is alike stands together; of a code the group's own hold first, by itself.
  const auto kin = [](const Change& change) {
    return std::tuple(change.kind, change.hold->code, change.hold->instance.has_value());
  };
  std::ranges::stable_sort(changes, {}, kin);
  auto first = changes.begin();
  while (first != changes.end()) {
    const auto last = std::find_if(
        first, changes.end(), [&](const Change& change) { return kin(change) != kin(*first); });
    Append(out, {first, last});
    first = last;
  }
  return out;
}

std::string Describe(const HoldNews& news, Instant now) {
  std::string out = news.kind == Kind::kOver ? fmt::format("no longer: {}", Because(news.hold.code))
                                             : Shortened(Describe(news.hold));
  if (news.kind == Kind::kBegan && news.hold.until && *news.hold.until > now) {
    out += fmt::format(", for {}", ForPeople(*news.hold.until - now));
  }
  if (news.instances.size() > 1) out += fmt::format("; {} instances", news.instances.size());
  return out;
}

}  // namespace nstance::fleet
