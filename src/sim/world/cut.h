// Cut: how a run is smaller than its seed has drawn it: which events it keeps and how long they
// last, how many servers and instances there are, how long faults go on, and what is as simple as
// it can be. A failing seed is made smaller by cuts (shrink.h), and shown again by its cut:
//
//   --keep 7,19                                            the events, "none" for none of them
//   --cut a=1,b=0,workers=1,hostile=3m10s,disks=0,19=2s    the rest, in any order
//
//   a, b                   servers of the shard: a from 1, b from 0
//   workers, api, edge     first sizes of the groups
//   steps                  of planning in one turn, from 1
//   hostile                the time of faults and work, above 0
//   window, age            consistency window of the provider; age at which instances expire (0s:
//                          never)
//   drain, life            time to drain; life of an agent's certificate, above 0
//   disks=0                no SQLite on simulated disks
//   a number               how long the event of that number lasts
//
// Nothing is drawn anew: what is not named is as the seed has drawn it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "sim/world/scenario.h"

namespace nstance::sim {

struct Cut {
  // Numbers of events, as the scenario was drawn. Empty: all of them.
  std::optional<std::vector<std::size_t>> keep = std::nullopt;
  std::map<std::size_t, Duration> lengths = {};  // By the number of the event.
  std::optional<int> servers_a = std::nullopt;
  std::optional<int> servers_b = std::nullopt;
  std::optional<int> workers = std::nullopt;
  std::optional<int> api = std::nullopt;
  std::optional<int> edge = std::nullopt;
  std::optional<int> steps_per_turn = std::nullopt;
  std::optional<Duration> hostile = std::nullopt;
  std::optional<Duration> consistency_window = std::nullopt;
  std::optional<Duration> eligible_age = std::nullopt;
  std::optional<Duration> drain_timeout = std::nullopt;
  std::optional<Duration> agent_life = std::nullopt;
  bool no_disks = false;

  friend bool operator==(const Cut&, const Cut&) = default;
};

// What is left. An error names an event that `drawn` does not have.
[[nodiscard]] Result<Scenario> Apply(const Cut& cut, const Scenario& drawn);

// "7,19" and "none", for --keep.
[[nodiscard]] Result<std::vector<std::size_t>> ParseKeep(std::string_view text);
// The rest, for --cut: added to what `cut` has. An error says which part is wrong, and what is
// allowed.
[[nodiscard]] Status ParseCut(std::string_view text, Cut& cut);

// " --keep 7,19 --cut a=1": the flags from which the two above make the same cut. Empty when
// nothing is cut.
[[nodiscard]] std::string FormatCut(const Cut& cut);

}  // namespace nstance::sim
