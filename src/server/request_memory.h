// RequestMemory: which requests to change a group were applied, so that a repeat is not applied
// twice. The last 64 per group, in memory only: a repeat after a failover is applied again, which
// changes nothing when nothing else happened in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/name.h"
#include "core/group/group_upsert.h"

namespace nstance {

// Equal exactly for requests of equal content.
[[nodiscard]] std::string ContentOf(const UpsertRequest& request);

class RequestMemory final {
 public:
  static constexpr std::size_t kPerGroup = 64;
  enum class Verdict : std::uint8_t { kNew, kRepeat, kOtherContent };

  // REQUIRES: `id` is not empty.
  [[nodiscard]] Verdict Look(const TenantId& tenant, const GroupKey& key, std::string_view id,
                             std::string_view content) const;
  void Note(const TenantId& tenant, const GroupKey& key, std::string id, std::string content);
  void Forget(const TenantId& tenant, const GroupKey& key);

 private:
  struct Entry {
    std::string id;
    std::string content;
  };
  std::map<std::pair<TenantId, GroupKey>, std::deque<Entry>> groups_;
};

}  // namespace nstance
