#include "core/config/args.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace nstance::config {

json::Object MergeArgs(const json::Object& base, const json::Object& over) {
  json::Object merged = base;
  std::map<std::string_view, std::size_t> at;
  for (std::size_t i = 0; i < base.size(); ++i) at.emplace(base[i].key, i);
  for (const json::Member& member : over) {
    const auto found = at.find(member.key);
    if (found == at.end()) {
      merged.push_back(member);
      continue;
    }
    json::Value& target = merged[found->second].value;
    const json::Object* below = target.if_object();
    const json::Object* above = member.value.if_object();
    target = below != nullptr && above != nullptr ? json::Value::Map(MergeArgs(*below, *above))
                                                  : member.value;
  }
  return merged;
}

}  // namespace nstance::config
