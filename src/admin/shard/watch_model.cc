#include "admin/shard/watch_model.h"

#include <algorithm>
#include <limits>

namespace nstance::admin {
namespace {

constexpr std::size_t kMaxFilter = 64;
constexpr auto kFarAway = static_cast<std::int64_t>(1) << 40;

}  // namespace

WatchModel::WatchModel(Setup setup) : setup_(std::move(setup)), view_(setup_.view) {
  for (const std::string& name : setup_.shards) shards_.push_back({.name = name});
}

// --- From servers --------------------------------------------------------------------------------

void WatchModel::OnUp(std::size_t shard, Timestamp now) {
  WatchedShard& at = shards_.at(shard);
  at.link = WatchedShard::Link::kLive;
  at.since = now;
  at.why.clear();
  at.events_offered = true;
}

void WatchModel::OnLost(std::size_t shard, const Error& why, Timestamp now) {
  WatchedShard& at = shards_.at(shard);
  if (at.link != WatchedShard::Link::kLost) at.since = now;
  at.link = WatchedShard::Link::kLost;
  at.why = why.message;
}

void WatchModel::OnGroup(std::size_t shard, const api::GroupEvent& event) {
  if (!event.group || !Wants(event.group->key)) return;
  const Id id(shard, event.group->key);
  if (event.type == api::GroupEventType::kDelete) {
    groups_.erase(id);
  } else if (event.type == api::GroupEventType::kUpsert) {
    groups_[id].status = *event.group;
  }
}

bool WatchModel::OnEvent(std::size_t shard, const api::Event& event) {
  WatchedEvent watched{.shard = shard, .event = event};
  if (std::ranges::find(events_, watched) != events_.end()) return false;
  if (const auto group = groups_.find({shard, event.group}); group != groups_.end()) {
    group->second.last_event = event;
  }
  if (const auto instance = instances_.find({shard, event.instance_id});
      instance != instances_.end() && event.phase != api::InstancePhase::kUnspecified) {
    instance->second.phase = event.phase;
    instance->second.reason = event.reason;
  }
  events_.push_front(std::move(watched));
  if (events_.size() > kMostEvents) events_.pop_back();
  return true;
}

void WatchModel::OnGroups(std::size_t shard, const std::vector<api::GroupStatus>& groups) {
  std::map<std::string, const api::GroupStatus*> present;
  for (const api::GroupStatus& status : groups) {
    if (Wants(status.key)) present.emplace(status.key, &status);
  }
  std::erase_if(groups_, [&](const auto& entry) {
    return entry.first.first == shard && !present.contains(entry.first.second);
  });
  for (const auto& [key, status] : present) groups_[{shard, key}].status = *status;
}

void WatchModel::OnInstances(std::size_t shard, std::vector<api::Instance> instances) {
  std::erase_if(instances_, [&](const auto& entry) { return entry.first.first == shard; });
  for (api::Instance& instance : instances) {
    if (!Wants(instance.group)) continue;
    const Id id(shard, instance.instance_id);
    instances_.insert_or_assign(id, std::move(instance));
  }
}

void WatchModel::OnHolds(std::size_t shard, const std::vector<api::Hold>& holds) {
  shards_.at(shard).plan_offered = true;
  for (auto& [id, group] : groups_) {
    if (id.first != shard) continue;
    group.holds = static_cast<int>(std::ranges::count(holds, id.second, &api::Hold::group));
  }
}

// --- From the terminal ---------------------------------------------------------------------------

void WatchModel::Show(WatchView view) {
  view_ = view;
  top_ = 0;
}

void WatchModel::Edit(const Key& key) {
  switch (key.kind) {
    case KeyKind::kCharacter:
      if (filter_.size() < kMaxFilter) filter_ += key.character;
      break;
    case KeyKind::kBackspace:
      if (!filter_.empty()) filter_.pop_back();
      break;
    case KeyKind::kEscape: filter_.clear(); [[fallthrough]];
    case KeyKind::kEnter: editing_ = false; break;
    default: break;
  }
  top_ = 0;
}

void WatchModel::Scroll(std::int64_t by, std::size_t page, std::size_t rows) {
  const auto most = static_cast<std::int64_t>(rows > page ? rows - page : 0);
  // Rows may have gone since the last key.
  const std::int64_t from = std::min(static_cast<std::int64_t>(top_), most);
  top_ = static_cast<std::size_t>(std::clamp<std::int64_t>(from + by, 0, most));
}

WatchModel::Reaction WatchModel::OnKey(const Key& key, std::size_t page, std::size_t rows) {
  if (editing_) {
    Edit(key);
    return Reaction::kDraw;
  }
  const auto step = static_cast<std::int64_t>(std::max<std::size_t>(1, page));
  switch (key.kind) {
    case KeyKind::kUp: Scroll(-1, page, rows); return Reaction::kDraw;
    case KeyKind::kDown: Scroll(1, page, rows); return Reaction::kDraw;
    case KeyKind::kPageUp: Scroll(-step, page, rows); return Reaction::kDraw;
    case KeyKind::kPageDown: Scroll(step, page, rows); return Reaction::kDraw;
    case KeyKind::kHome: Scroll(-kFarAway, page, rows); return Reaction::kDraw;
    case KeyKind::kEnd: Scroll(kFarAway, page, rows); return Reaction::kDraw;
    case KeyKind::kEscape:
      filter_.clear();
      top_ = 0;
      return Reaction::kDraw;
    case KeyKind::kCharacter: break;
    default: return Reaction::kDraw;
  }
  switch (key.character) {
    case 'q': return Reaction::kQuit;
    case 'g': Show(WatchView::kGroups); return Reaction::kViewChanged;
    case 'i': Show(WatchView::kInstances); return Reaction::kViewChanged;
    case 'e': Show(WatchView::kEvents); return Reaction::kViewChanged;
    case '/':
      editing_ = true;
      filter_.clear();
      top_ = 0;
      return Reaction::kDraw;
    default: return Reaction::kDraw;
  }
}

}  // namespace nstance::admin
