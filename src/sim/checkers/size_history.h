// SizeHistory: which sizes of a group its leader may believe in.
//
// A size that operators set is known to the leader at once, since it writes it; for `kLag` an
// earlier one may still decide (an answer was lost, a commit is on its way). A size of the
// configuration file is applied when somebody asks for it, and after a failed load or from a cached
// copy any earlier one may be in force: so all that were ever stored count, of files that validate.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sim/checkers/seen.h"
#include "sim/world/truth.h"

namespace nstance::sim {

class SizeHistory {
 public:
  static constexpr Duration kLag = Duration::Minutes(2);

  struct Bounds {
    int least = 0;
    int most = 0;
  };

  // Of every change; truth is the new one.
  void OnChange(const SimChange& change, const Truth& truth);
  // A group that nobody has ever defined has size 0.
  [[nodiscard]] Bounds Of(const ShardId& shard, const GroupName& group, Instant now) const;
  // Whether the file ever said so.
  [[nodiscard]] bool WasStored(const ShardId& shard, const GroupName& group, int size) const;

 private:
  struct Entry {
    Instant at;
    std::optional<int> set;  // By operators; empty: the file's size holds.
  };
  struct Group {
    std::vector<Entry> entries;  // Oldest first.
    std::set<int> stored;        // In the file, ever.
  };

  void OnConfig(const ShardId& shard, std::string_view text);
  void OnGroups(Instant at, const Truth& truth);

  std::map<std::pair<ShardId, GroupName>, Group> groups_;
};

}  // namespace nstance::sim
