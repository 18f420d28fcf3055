// What happened, for people: events of groups and instances, and the stories that `why` tells.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/fleet/explain.h"
#include "core/fleet/hold_news.h"
#include "core/fleet/planner.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

constexpr Duration kErrorGap = Duration::Minutes(1);

// Empty: nothing that people would call a change.
std::string GroupNews(const MergedGroup* before, const MergedGroup* after) {
  if (after == nullptr) return "the group was deleted";
  if (before == nullptr) return fmt::format("the group was made, size {}", after->group.size());
  if (before->group.size() != after->group.size()) {
    return fmt::format("its size went from {} to {}", before->group.size(), after->group.size());
  }
  if (after->frozen && before->frozen != after->frozen) {
    return "nothing can be made of it: " + after->frozen->message;
  }
  if (before->infra_hash != after->infra_hash) {
    return "its configuration changed: instances that differ are replaced one after the other";
  }
  if (before->runtime_hash != after->runtime_hash) return "the files of its instances changed";
  return before->etag == after->etag ? std::string() : std::string("its definition changed");
}

// The same error over and over is told once a minute.
bool WasToldLately(const EventRing& history, const std::string& text, Timestamp now) {
  for (std::size_t i = 0; i < history.size(); ++i) {
    const api::Event& event = *history.at(i);
    if (event.type == "error" && event.message == text && now - *event.time < kErrorGap) {
      return true;
    }
  }
  return false;
}

std::optional<InstanceId> ReplacedBy(const Instance& instance) {
  if (const InstanceRecord* record = instance.record()) return record->replaces;
  return instance.create ? instance.create->intent.replaces : std::nullopt;
}

}  // namespace

// --- Events --------------------------------------------------------------------------------------

// Into the log of the tenant and the rings of group and instance, and to whoever watches.
EventRef Fleet::Engine::Note(const GroupName& group, Entry* entry, api::Event event) {
  event.time = deps_.loop.WallNow();
  event.group = group.second.text();
  if (entry != nullptr) {
    event.instance_id = entry->instance.id.text();
    event.phase = ApiPhase(entry->instance.phase());
  }
  EventRef made = events_.Add(group.first, std::move(event));
  if (entry != nullptr) entry->history.Add(made);
  const auto state = group_states_.find(group);
  if (state != group_states_.end()) state->second.history.Add(made);
  owner_.event(group.first, made);
  return made;
}

void Fleet::Engine::NoteLeadership() {
  std::set<TenantId> tenants = {DefaultTenant()};
  for (const auto& [tenant, unused] : groups_->config->config.tenants) tenants.insert(tenant);
  for (const auto& [tenant, unused] : by_tenant_) tenants.insert(tenant);
  for (const TenantId& tenant : tenants) {
    const EventRef made = events_.Add(
        tenant, {.time = deps_.loop.WallNow(),
                 .type = "leader",
                 .message = fmt::format("a new leader, epoch {}: the history begins here",
                                        deps_.leader.epoch)});
    owner_.event(tenant, made);
  }
}

void Fleet::Engine::NoteGroup(const GroupName& name, const MergedGroup* before,
                              const MergedGroup* after) {
  std::string news = GroupNews(before, after);
  if (!news.empty()) Note(name, nullptr, {.type = "group", .message = std::move(news)});
}

// The create intent is durable.
void Fleet::Engine::NoteIntended(Entry& entry) {
  if (!entry.instance.create) return;
  const Intent& intent = entry.instance.create->intent;
  const Result<fleet::Reason> reason = fleet::ParseReason(intent.reason);
  std::string text = "a new instance";
  if (intent.replaces) {
    text += " in place of " + intent.replaces->text();
  } else if (reason.has_value()) {
    text += fmt::format(": {}", fleet::Because(*reason));
  }
  Note({intent.tenant, intent.group}, &entry,
       {.type = "phase", .reason = intent.reason, .message = std::move(text)});
}

// The record is durable.
void Fleet::Engine::NotePhase(Entry& entry, InstancePhase before) {
  const InstanceRecord& record = *entry.instance.record();
  if (record.phase == before) return;
  Note({record.tenant, record.group}, &entry,
       {.type = "phase",
        .reason = std::string(fleet::ReasonOf(record)),
        .message = fleet::PhaseNews(before, record)});
}

void Fleet::Engine::NoteError(Entry& entry, const std::string& text) {
  if (WasToldLately(entry.history, fleet::Shortened(text), deps_.loop.WallNow())) return;
  Note({entry.instance.tenant, entry.instance.group}, &entry, {.type = "error", .message = text});
}

void Fleet::Engine::Raise(const Alarm& alarm) {
  Entry* entry = alarm.instance_id ? Find(*alarm.instance_id) : nullptr;
  const std::string shown =
      entry == nullptr ? alarm.detail : entry->instance.id.text() + ": " + alarm.detail;
  owner_.alarm(alarm.name, shown);
  const std::string text = fmt::format("alarm {}: {}", alarm.name, alarm.detail);
  if (entry != nullptr) return TellError(*entry, text);
  if (!alarm.tenant) return;
  const std::string group = alarm.group ? alarm.group->text() : std::string();
  const Timestamp now = deps_.loop.WallNow();
  owner_.event(
      *alarm.tenant,
      events_.Add(*alarm.tenant, {.time = now, .type = "error", .group = group, .message = text}));
  owner_.error_event(*alarm.tenant,
                     {.group = group, .instance_id = {}, .error = text, .timestamp = now});
}

// What a plan holds that the one before did not, and the other way round. Nothing is allocated when
// nothing changed.
void Fleet::Engine::NoteHolds(const GroupName& group, const std::vector<fleet::Hold>& before,
                              const std::vector<fleet::Hold>& after) {
  const auto is_brake = [](const fleet::Hold& hold) {
    return hold.code == fleet::HoldCode::kBrake;
  };
  for (const fleet::HoldNews& news : fleet::CompareHolds(before, after)) {
    const bool alone = news.instances.size() == 1;
    const EventRef made = Note(group, alone ? Find(news.instances.front()) : nullptr,
                               {.type = is_brake(news.hold) ? "brake" : "hold",
                                .reason = std::string(fleet::Word(news.hold.code)),
                                .message = fleet::Describe(news, deps_.loop.Now())});
    if (alone) continue;
    for (const InstanceId& id : news.instances) {
      if (Entry* entry = Find(id)) entry->history.Add(made);
    }
  }
  const auto is_silence = [](const fleet::Hold& hold) {
    return hold.code == fleet::HoldCode::kMassSilence;
  };
  if (std::ranges::any_of(after, is_silence) && std::ranges::none_of(before, is_silence)) {
    Raise({.name = "mass_silence",
           .detail = fmt::format("many agents of group {} are silent at once", group.second.text()),
           .tenant = group.first,
           .group = group.second});
  }
  if (std::ranges::any_of(after, is_brake) && std::ranges::none_of(before, is_brake)) {
    owner_.error_event(group.first, {.group = group.second.text(),
                                     .instance_id = {},
                                     .error = "the deletion brake holds deletions back",
                                     .timestamp = deps_.loop.WallNow()});
  }
}

const EventRing* Fleet::Engine::History(const GroupName& group) const {
  const auto at = group_states_.find(group);
  return at == group_states_.end() ? nullptr : &at->second.history;
}

// --- Previews and stories ------------------------------------------------------------------------

fleet::Plan Fleet::Engine::Preview(const GroupName& group, const GroupsSnapshot& groups) const {
  planned_.Add(1 + entries_.size());
  return fleet::PlanGroup(ViewOf(group, groups), deps_.loop.Now());
}

bool Fleet::Engine::Knows(const GroupName& group) const {
  if (groups_->Find(group.first, group.second) != nullptr) return true;
  const auto at = by_group_.find(group);
  return at != by_group_.end() && std::ranges::any_of(at->second, [&](const InstanceId& id) {
           return entries_.at(id)->instance.live();
         });
}

std::vector<GroupKey> Fleet::Engine::GroupsOf(const TenantId& tenant) const {
  std::set<GroupKey> keys;
  if (const auto at = groups_->groups.find(tenant); at != groups_->groups.end()) {
    for (const auto& [key, unused] : at->second) keys.insert(key);
  }
  for (const Instance* instance : OfTenant(tenant)) {
    if (instance->live()) keys.insert(instance->group);
  }
  return {keys.begin(), keys.end()};
}

std::optional<fleet::InstanceStory::Other> Fleet::Engine::OtherOf(const InstanceId& id) const {
  const Entry* entry = Find(id);
  if (entry == nullptr) return std::nullopt;
  return fleet::InstanceStory::Other{.id = id, .phase = entry->instance.phase()};
}

fleet::InstanceStory Fleet::Engine::StoryOf(const Instance& instance) const {
  const Instant now = deps_.loop.Now();
  const Timestamp wall = deps_.loop.WallNow();
  fleet::InstanceStory story = {.phase = instance.phase(),
                                .in_phase = now - instance.created_at,
                                .on_demand = instance.on_demand,
                                .corrupt = instance.corrupt,
                                .health = HealthOf(instance).state};
  if (instance.health.reported_at) story.last_report = now - *instance.health.reported_at;
  if (const InstanceRecord* record = instance.record()) {
    story.in_phase = wall - record->phase_at;
    story.reason = fleet::ReasonOf(*record);
    if (record->failure) story.failure = record->failure->message;
    if (record->drain) story.deleted_in = record->drain->delete_at - wall;
  } else if (instance.create) {
    story.reason = instance.create->intent.reason;
  }
  if (const Entry* entry = Find(instance.id); entry != nullptr && entry->creation != nullptr) {
    story.durable = !instance.create || instance.create->durable;
    story.in_queue = entry->creation->machine().waits_for_turn();
    story.trouble = entry->creation->machine().trouble();
  }
  if (instance.drain) {
    story.acked = instance.drain->intent.acked_at.has_value();
    story.deleted_in = instance.drain_deadline - now;
  }
  if (instance.vm_since) story.register_in = *instance.vm_since + times_.registration_timeout - now;
  if (const std::optional<InstanceId> old = ReplacedBy(instance)) story.replaces = OtherOf(*old);
  for (const InstanceId& id : by_group_.at({instance.tenant, instance.group})) {
    const Instance& other = entries_.at(id)->instance;
    if (other.live() && ReplacedBy(other) == instance.id) story.replacement = OtherOf(id);
  }
  return story;
}

fleet::GroupStory Fleet::Engine::StoryOf(const GroupName& name) const {
  const GroupFigures figures = Figures(name);
  const MergedGroup* group = groups_->Find(name.first, name.second);
  fleet::GroupStory story = {.size = group == nullptr ? 0 : group->group.size(),
                             .ready = figures.ready,
                             .creating = figures.creating,
                             .draining = figures.draining,
                             .removed = group == nullptr};
  const int known = story.ready + story.creating + story.draining;
  story.others = static_cast<int>(figures.instance_ids.size()) - known;
  if (const auto at = by_group_.find(name); story.removed && at != by_group_.end()) {
    // What is being deleted is still there.
    story.others =
        static_cast<int>(std::ranges::count_if(
            at->second, [&](const InstanceId& id) { return entries_.at(id)->instance.live(); })) -
        known;
  }
  return story;
}

}  // namespace nstance
