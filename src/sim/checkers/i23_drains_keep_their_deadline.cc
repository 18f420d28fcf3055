// I-23: a drain ends at its ack or at its original deadline, across any number of leaders.
//
//   - deadline and length never change, in the journal or in the record
//   - a drain that ends for its own reason ends no sooner than its deadline, unless it was acked,
//     or its VM has died. Not judged while clocks were wrong since it began, nor when the provider
//     has said that VMs were not there.
//   - one that is not over when its deadline has passed ends at once, given a leader that has
//     everything it needs: it and its ways to store and provider are sound
//   - an ack with the id of another drain ends none: one that was told OK while the drain's ack was
//     written, and no other ack came
//   - one for a termination notice is never called off, whether the notice is repeated or not
// That it ends at all is I-24's.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/leaders.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

// For a leader: to list the provider and to write.
constexpr Duration kAtOnce = Duration::Seconds(10);
constexpr Duration kBetweenListings = Duration::Seconds(5);

class I23DrainsKeepTheirDeadline final : public Checker {
 public:
  explicit I23DrainsKeepTheirDeadline(CheckerWorld& world) : Checker("I-23", world) {}

  void OnChange(const SimChange& change) override {
    const Truth& truth = world().truth();
    const TruthChange& last = truth.last();
    if (last.kind == TruthChange::Kind::kRecord) return OnRecord(change, *last.id);
    if (last.kind != TruthChange::Kind::kJournal || !truth.Of(*last.shard).journal) return;
    // Its leader reads it again for a while before it gives it up (formats.md 6.2).
    if (IsByHand(change)) odd_at_ = change.at + kAtOnce;
    for (const Intent& intent : truth.Of(*last.shard).journal->intents) {
      if (intent.kind == IntentKind::kDrain) OnDrain(change, intent);
    }
    for (const Intent* intent : NewIntents(truth)) {
      if (intent->kind == IntentKind::kDelete) OnDelete(change, *intent);
    }
    if (!last.journal) return;
    for (const Intent& intent : last.journal->intents) {
      // Revoked, or over: the next drain of this instance is another.
      if (intent.kind == IntentKind::kDrain &&
          truth.IntentOf(*last.shard, intent.instance_id) == nullptr) {
        drains_.erase(intent.instance_id);
      }
    }
  }

  void OnAnswer(const OperatorAnswer& answer) override {
    const auto* ack = std::get_if<api::DrainAckRequest>(&answer.request);
    if (ack == nullptr || ack->drain_id.empty()) return;
    const Result<InstanceId> id = ParsePuidv7(ack->instance_id);
    if (!id.has_value()) return;
    if (ids_.contains(ack->drain_id)) {
      acknowledged_.insert(*id);
      return;
    }
    const auto written = acks_.find(*id);
    if (!answer.status.has_value() || written == acks_.end()) return;
    if (written->second >= answer.sent) mistaken_.try_emplace(*id, world().now());
  }

  void AtEnd() override {
    for (const auto& [id, at] : mistaken_) {
      // An operator that rests at the end of bad times hears no more answers.
      if (acknowledged_.contains(id) || at + Duration::Minutes(1) > world().calm_since()) continue;
      Violated(fmt::format("the drain of {} was ended by an ack of another drain", id.text()));
    }
  }

  void EverySecond() override {
    const SimCloudLies& lies = world().cloud().lies();
    if (lies.finds_nothing || lies.unmarked_for > Duration()) lied_at_ = world().now();
    const bool silent = lies.lists_nothing || lies.listed_twice > 0;
    if (lies.finds_nothing || silent || lies.forgets_token > 0) {
      odd_at_ = std::max(odd_at_.value_or(Instant()), world().now());
    }
    if (drains_.empty()) return;
    leaders_.Look(world());
    for (const auto& [id, drain] : drains_) JudgeLate(id, drain);
  }

 private:
  struct Drain {
    std::string reason;
    Timestamp deadline;
    Duration length;
    Instant since;
    bool acked = false;
    ShardId shard;
  };

  void OnDrain(const SimChange& change, const Intent& intent) {
    const auto [at, fresh] =
        drains_.try_emplace(intent.instance_id, Drain{.reason = intent.reason,
                                                      .deadline = intent.deadline,
                                                      .length = intent.length,
                                                      .since = change.at,
                                                      .shard = *world().truth().last().shard});
    at->second.acked = at->second.acked || intent.acked_at.has_value();
    if (intent.acked_at) acks_.try_emplace(intent.instance_id, change.at);
    ids_.insert(intent.id);
    if (!fresh) Compare(change, intent.instance_id, intent.deadline, intent.length);
  }

  void OnRecord(const SimChange& change, const InstanceId& id) {
    const InstanceRecord* record = world().truth().Find(id);
    if (record == nullptr) return;
    const std::optional<InstanceRecord>& before = world().truth().last().record;
    if (before && before->drain && before->drain->reason == "spot-terminating" &&
        before->phase == InstancePhase::kDraining && record->phase == InstancePhase::kRegistered &&
        !IsByHand(change)) {
      return Violated(fmt::format("{} called off the drain of {}, whose end was announced",
                                  change.process, id.text()));
    }
    if (record->phase != InstancePhase::kDraining || !record->drain) return;
    if (drains_.contains(id)) Compare(change, id, record->drain->delete_at, record->drain->length);
  }

  void JudgeLate(const InstanceId& id, const Drain& drain) {
    if (world().wall() < drain.deadline + kAtOnce) return;
    const ActingLeader* leader = leaders_.Of(drain.shard);
    if (leader == nullptr) return;
    const Instant right = std::max(world().RatesTrueSince(), world().WallsTrueSince());
    if (right > Instant() && right + world().setting().lease > drain.since) return;
    // A listing that was lost on the way is given up before there is another.
    const Duration listed_again = world().setting().request_timeout + kBetweenListings;
    for (const Instant since : {leader->since, world().SoundSince(leader->process),
                                world().ProviderSoundSince(leader->process) + listed_again,
                                odd_at_.value_or(Instant())}) {
      if (since == Instant::Never() || since + kAtOnce > world().now()) return;
    }
    Violated(fmt::format("the drain of {} ({}) goes on {} after its deadline; {} leads", id.text(),
                         drain.reason, FormatDuration(world().wall() - drain.deadline),
                         leader->process));
  }

  void Compare(const SimChange& change, const InstanceId& id, Timestamp deadline, Duration length) {
    const Drain& drain = drains_.at(id);
    if (drain.deadline == deadline && drain.length == length) return;
    Violated(fmt::format("{} by {}: the drain of {} ends at {} ({}), not at {} ({})",
                         change.key.text(), change.process, id.text(), FormatTimestamp(deadline),
                         FormatDuration(length), FormatTimestamp(drain.deadline),
                         FormatDuration(drain.length)));
  }

  void OnDelete(const SimChange& change, const Intent& intent) {
    const auto at = drains_.find(intent.instance_id);
    if (at == drains_.end()) return;
    const Drain drain = std::move(at->second);
    drains_.erase(at);
    if (drain.acked || intent.ordered || intent.reason != drain.reason) return;
    const Instant right = std::max(world().RatesTrueSince(), world().WallsTrueSince());
    // Wall and monotonic time may part by what a leader's clock was off when it read the deadline.
    if (right + world().setting().lease > drain.since && right > Instant()) return;
    if (lied_at_ && *lied_at_ + Duration::Seconds(1) >= drain.since) return;
    if (world().wall() + Duration::Seconds(1) >= drain.deadline || HasDied(intent)) return;
    Violated(fmt::format("{} ended the drain of {} ({}) without an ack, {} before its deadline",
                         change.process, intent.instance_id.text(), drain.reason,
                         FormatDuration(drain.deadline - world().wall())));
  }

  bool HasDied(const Intent& intent) const {
    const InstanceRecord* record = world().truth().Find(intent.instance_id);
    if (record == nullptr) return true;
    const SimVm* vm = world().cloud().Find(record->provider_instance_id);
    // F10: another may have its provider id by now.
    return vm == nullptr || !IsAlive(vm->shown.status) ||
           vm->shown.instance_id != intent.instance_id;
  }

  std::map<InstanceId, Drain> drains_;      // Those that are open.
  std::set<std::string, std::less<>> ids_;  // Of all drains that ever were.
  std::map<InstanceId, Instant> acks_;      // When the first of an instance was written.
  std::set<InstanceId> acknowledged_;       // By the right id.
  std::map<InstanceId, Instant> mistaken_;  // Answered for another id, while the ack was written.
  std::optional<Instant> lied_at_;
  // The provider told something that is not so, or somebody wrote to the journal.
  std::optional<Instant> odd_at_;
  Leaders leaders_;
};

}  // namespace

std::unique_ptr<Checker> MakeI23(CheckerWorld& world) {
  return std::make_unique<I23DrainsKeepTheirDeadline>(world);
}

}  // namespace nstance::sim
