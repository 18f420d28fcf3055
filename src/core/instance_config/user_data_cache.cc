#include "core/instance_config/user_data_cache.h"

#include <algorithm>
#include <utility>

namespace nstance {

std::optional<KeptUserData> UserDataCache::Find(const std::string& url) {
  const auto found = entries_.find(url);
  if (found == entries_.end()) return std::nullopt;
  found->second.used = ++uses_;
  return found->second.kept;
}

void UserDataCache::Keep(const std::string& url, KeptUserData kept) {
  if (kept.etag.empty() && kept.last_modified.empty()) {
    entries_.erase(url);
    return;
  }
  entries_.insert_or_assign(url, Entry{.kept = std::move(kept), .used = ++uses_});
  if (entries_.size() <= kMaxUrls) return;
  entries_.erase(
      std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.used; }));
}

}  // namespace nstance
