// I-25: an agent that stays healthy and connected is never replaced for health reasons.
//
// Of an agent that nothing was ever done to and that has its streams open: no drain or deletion for
// `unhealthy`; and, as long as the provider has told the truth, none because its VM was stopped or
// gone while it runs. One that no server would hear for so long that it was rightly given up (their
// clocks were wrong, say) has not stayed: for a moment after its return the verdict may still be on
// its way to the journal.
//
// RU7, of whatever agent: nobody goes as `provider-gone` whose VM is there, unless the provider has
// denied it for T_vis.
//
// And faults.md 4.3 F13: nobody goes as `unhealthy` while many are silent at once, for then it is
// our side that is suspected. Many are more than 30 % of a group's registered members, and three at
// least, whose machines run and whose streams are down; judged for as long as is surely within
// T_mass. Whoever leaves already, for whatever reason, is no member any more. On-demand instances
// are outside all counts (DESIGN.md 5). Groups of fewer than three are judged with others of their
// tenant, and not here.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "core/fleet/times.h"
#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

constexpr std::size_t kLeastSilent = 3;
constexpr Duration kSecond = Duration::Seconds(1);
constexpr Duration kBetweenDenials = Duration::Minutes(1);  // A look in between finds it.
constexpr Duration kBetweenLooks = Duration::Seconds(5);    // Agents are many.
constexpr Duration kNotices = Duration::Seconds(30);  // A ping after 20 s, 10 s for its answer.

class I25TheHealthyStay final : public Checker {
 public:
  explicit I25TheHealthyStay(CheckerWorld& world) : Checker("I-25", world) {}

  void OnChange(const SimChange& change) override {
    if (world().truth().last().kind != TruthChange::Kind::kJournal) return;
    for (const Intent* intent : NewIntents(world().truth())) {
      if (intent->kind != IntentKind::kDrain && intent->kind != IntentKind::kDelete) continue;
      const bool vm_gone =
          intent->reason == "provider-gone" || intent->reason == "provider-stopped";
      if (intent->reason != "unhealthy" && !(vm_gone && !lied_)) continue;
      if (intent->reason == "provider-gone" && IsThereFor(intent->instance_id)) {
        Violated(fmt::format("{} takes {} for gone, whose VM is there", change.process,
                             intent->instance_id.text()));
      }
      if (intent->kind == IntentKind::kDelete && drained_.contains(intent->instance_id)) continue;
      if (intent->kind == IntentKind::kDrain) drained_.insert(intent->instance_id);
      const InstanceId& id = intent->instance_id;
      if (intent->reason == "unhealthy") JudgeSilence(change, *intent);
      if (!world().AgentUnharmed(id) || !world().AgentServing(id)) continue;
      if (vm_gone && !Runs(id)) continue;
      if (!vm_gone && HasJustComeBack(id)) continue;
      Violated(fmt::format("{} replaces {} ({}), whose agent is healthy and connected",
                           change.process, id.text(), intent->reason));
    }
  }

  void EverySecond() override {
    const SimCloudLies& lies = world().cloud().lies();
    if (lies.finds_nothing) {
      const bool anew = !denied_last_ || world().now() - *denied_last_ > kBetweenDenials;
      if (anew) denied_first_ = world().now();
      denied_last_ = world().now();
      lied_ = lied_ || *denied_last_ + kSecond - denied_first_ >= Believed();
    }
    lied_ = lied_ || lies.unmarked_for > Duration();
    if (world().now() < next_look_) return;
    next_look_ = world().now() + kBetweenLooks;
    LookForSilence();
  }

 private:
  void LookForSilence() {
    std::map<InstanceId, Instant> silent;
    for (const AgentStanding& agent : world().AgentStandings()) {
      const bool runs = agent.vm != nullptr && agent.vm->shown.status == ProviderStatus::kRunning;
      if (!runs || agent.serving || !agent.has_joined) continue;
      if (world().AgentServed(agent.id)) continue;  // It hears nothing, but it may be heard.
      const auto before = silent_.find(agent.id);
      silent.emplace(agent.id, before == silent_.end() ? world().now() : before->second);
    }
    for (const auto& [id, since] : silent_) {
      if (!silent.contains(id)) back_[id] = {.silent_since = since, .at = world().now()};
    }
    silent_ = std::move(silent);
  }

  bool HasJustComeBack(const InstanceId& id) const {
    const auto at = back_.find(id);
    if (at == back_.end()) return false;
    // Three intervals of a server whose clock runs twice as fast.
    const bool given_up =
        at->second.at - at->second.silent_since >= world().setting().interval * 3 / 2;
    return given_up && world().now() - at->second.at <= world().setting().store_timeout * 2;
  }

  void JudgeSilence(const SimChange& change, const Intent& intent) {
    LookForSilence();  // Somebody may have come back since the last look.
    // What lands now may have been decided before its process stood still, or its store was bad.
    const Instant sound = world().SoundSince(change.process);
    if (sound == Instant::Never() || sound + Late() > world().now()) return;
    const ShardId& shard = *world().truth().last().shard;
    std::vector<Instant> since;
    std::size_t members = 0;
    for (const auto& [id, record] : world().truth().Of(shard).records) {
      if (record.tenant != intent.tenant || record.group != intent.group) continue;
      if (record.phase != InstancePhase::kRegistered || record.on_demand) continue;
      if (Leaves(id) || record.blocked) continue;  // A blocked one is shut out by us.
      ++members;
      const auto at = silent_.find(id);
      // Longer than it takes until a silent one is late.
      if (at != silent_.end() && world().now() - at->second > Late()) {
        since.push_back(at->second);
      }
    }
    if (since.size() < kLeastSilent || since.size() * 10 <= members * 3) return;
    std::ranges::sort(since);
    const std::size_t many = std::max(kLeastSilent, members * 3 / 10 + 1);
    if (world().now() - since.at(many - 1) >= Patience()) return;
    Violated(fmt::format("{} lets {} go as unhealthy while {} of {} members of {}/{} are silent",
                         change.process, intent.instance_id.text(), since.size(), members,
                         intent.tenant.text(), intent.group.text()));
  }

  // A drain or deletion of it is open, and not by the write and for the reason that are judged.
  bool Leaves(const InstanceId& id) const {
    const TruthChange& last = world().truth().last();
    const auto leaves = [&](const Intent& intent) {
      return intent.instance_id == id &&
             (intent.kind == IntentKind::kDrain || intent.kind == IntentKind::kDelete);
    };
    if (last.journal && std::ranges::any_of(last.journal->intents, leaves)) return true;
    return std::ranges::any_of(
        world().truth().Of(*last.shard).journal->intents,
        [&](const Intent& intent) { return leaves(intent) && intent.reason != "unhealthy"; });
  }

  // What is left of T_mass when an agent notices that nobody hears it: servers miss its reports
  // before that. For one whose clock runs at twice the rate it is half as long.
  Duration Patience() const {
    const Duration whole = world().setting().times.t_mass;
    const bool right = world().RatesTrueSince() + whole < world().now();
    return (right ? whole * 3 / 4 : whole / 2) - kNotices;
  }

  Duration Late() const { return world().setting().interval + kBetweenLooks; }

  // T_vis by a clock that is as fast as a lease bears.
  Duration Believed() const {
    const Setting& setting = world().setting();
    return fleet::ForProvider(setting.times, setting.consistency_window).t_vis * 3 / 4;
  }

  bool IsThereFor(const InstanceId& id) const {
    if (world().RatesTrueSince() + world().setting().lease > world().now()) return false;
    const InstanceRecord* record = world().truth().Find(id);
    if (record == nullptr || record->provider_instance_id.empty()) return false;
    const SimVm* vm = world().cloud().Find(record->provider_instance_id);
    return vm != nullptr && vm->shown.instance_id == id && IsAlive(vm->shown.status);
  }

  bool Runs(const InstanceId& id) const {
    const InstanceRecord* record = world().truth().Find(id);
    if (record == nullptr) return false;
    const SimVm* vm = world().cloud().Find(record->provider_instance_id);
    // F10: another may have its provider id by now.
    return vm != nullptr && vm->shown.status == ProviderStatus::kRunning &&
           vm->shown.instance_id == id;
  }

  std::set<InstanceId> drained_;  // The end of a drain was judged with its beginning.
  bool lied_ = false;             // So long that it had to be believed.
  Instant denied_first_;          // Of a time in which the provider found nothing now and then.
  std::optional<Instant> denied_last_;
  Instant next_look_;
  struct Return {
    Instant silent_since;
    Instant at;  // When it was seen.
  };
  std::map<InstanceId, Return> back_;     // The last one of each.
  std::map<InstanceId, Instant> silent_;  // Whose machine runs and whose streams are down, since.
};

}  // namespace

std::unique_ptr<Checker> MakeI25(CheckerWorld& world) {
  return std::make_unique<I25TheHealthyStay>(world);
}

}  // namespace nstance::sim
