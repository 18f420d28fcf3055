// WatchModel: what `watch` knows and how it is being looked at. Pure: events and keys in, a state
// out that watch_screen.h draws.
//
// Memory is bounded: the latest 1,000 events, and what the servers have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/shard_command.h"
#include "base/error.h"
#include "base/time.h"
#include "ports/api/events.h"
#include "ports/api/groups.h"
#include "ports/api/instances.h"
#include "ports/api/plan.h"
#include "ports/terminal.h"

namespace nstance::admin {

struct WatchedShard {
  enum class Link : std::uint8_t { kConnecting, kLive, kLost };
  std::string name = {};
  Link link = Link::kConnecting;
  Timestamp since = {};
  std::string why = {};  // kLost.
  bool events_offered = true;
  bool plan_offered = true;
};

struct WatchedGroup {
  api::GroupStatus status = {};
  int holds = 0;
  std::optional<api::Event> last_event = std::nullopt;
};

struct WatchedEvent {
  std::size_t shard = 0;
  api::Event event = {};
  friend bool operator==(const WatchedEvent&, const WatchedEvent&) = default;
};

class WatchModel final {
 public:
  static constexpr std::size_t kMostEvents = 1'000;

  struct Setup {
    std::vector<std::string> shards = {};
    std::string tenant = {};
    std::string group = {};  // Only this one; empty: all.
    WatchView view = WatchView::kGroups;
  };
  explicit WatchModel(Setup setup);

  // --- From servers ---

  void OnUp(std::size_t shard, Timestamp now);
  void OnLost(std::size_t shard, const Error& why, Timestamp now);
  void OnEventsNotOffered(std::size_t shard) { shards_.at(shard).events_offered = false; }
  void OnGroup(std::size_t shard, const api::GroupEvent& event);
  // False: it is known already (a stream that begins anew tells the latest once more).
  bool OnEvent(std::size_t shard, const api::Event& event);
  // All that there are.
  void OnGroups(std::size_t shard, const std::vector<api::GroupStatus>& groups);
  void OnInstances(std::size_t shard, std::vector<api::Instance> instances);
  void OnHolds(std::size_t shard, const std::vector<api::Hold>& holds);
  void OnPlanNotOffered(std::size_t shard) { shards_.at(shard).plan_offered = false; }

  // --- From the terminal ---

  enum class Reaction : std::uint8_t { kDraw, kViewChanged, kQuit };
  // `page` rows are on the screen, of `rows` there are.
  Reaction OnKey(const Key& key, std::size_t page, std::size_t rows);

  // --- To be drawn ---

  using Id = std::pair<std::size_t, std::string>;  // Shard and key.
  [[nodiscard]] const Setup& setup() const { return setup_; }
  [[nodiscard]] const std::vector<WatchedShard>& shards() const { return shards_; }
  [[nodiscard]] const std::map<Id, WatchedGroup>& groups() const { return groups_; }
  [[nodiscard]] const std::map<Id, api::Instance>& instances() const { return instances_; }
  [[nodiscard]] const std::deque<WatchedEvent>& events() const { return events_; }  // Newest first.
  [[nodiscard]] WatchView view() const { return view_; }
  [[nodiscard]] const std::string& filter() const { return filter_; }
  [[nodiscard]] bool editing() const { return editing_; }
  [[nodiscard]] std::size_t top() const { return top_; }

 private:
  [[nodiscard]] bool Wants(const std::string& group) const {
    return setup_.group.empty() || setup_.group == group;
  }
  void Edit(const Key& key);
  void Show(WatchView view);
  void Scroll(std::int64_t by, std::size_t page, std::size_t rows);

  Setup setup_;
  std::vector<WatchedShard> shards_;
  std::map<Id, WatchedGroup> groups_;
  std::map<Id, api::Instance> instances_;
  std::deque<WatchedEvent> events_;
  WatchView view_;
  std::string filter_;
  bool editing_ = false;
  std::size_t top_ = 0;
};

}  // namespace nstance::admin
