// I-12: storage and provider requests of idle shards stay within the budgets of load.md (LB1, LB5,
// LB6, LB10).
//
// Idle is a span of calm, a minute at least, in which nothing but leases was written. Requests are
// not counted by process, so the budgets of all servers are added up: every leader renews its
// lease and looks at the deny list and its configuration; every standby reads the lease too; the
// holder of the cluster's lease renews it, the others read it. The first and last seconds of a span
// belong to what was before and after it. A certificate that is issued ends it. A write that
// arrives late was sent before the calm, so a span begins when the last of them has arrived, or has
// been refused, which is no change.
//
// A creation that the provider refused is not tried again at once either: the group waits 5 s at
// least, until a creation of it succeeds. Told by the server's own clock, between what one process
// has decided.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

constexpr Duration kLeast = Duration::Minutes(1);
constexpr Duration kLeastBackoff = Duration::Milliseconds(4'900);  // 5 s; times are rounded.
constexpr Duration kOneTurn = Duration::Milliseconds(1);
constexpr Duration kAnswerUnderWay = Duration::Seconds(1);  // Longer than a store's answer takes.
constexpr std::int64_t kHour = 3'600;
constexpr std::int64_t kReadsPerHour = 420;  // Deny list and configuration.
constexpr std::int64_t kReadSlack = 10;      // Per server.
constexpr std::int64_t kWriteSlack = 2;

struct Requests {
  std::int64_t reads = 0;
  std::int64_t lease_writes = 0;
  std::int64_t other_writes = 0;
  std::int64_t listings = 0;  // Of the provider.
};

class I12IdleCostsLittle final : public Checker {
 public:
  explicit I12IdleCostsLittle(CheckerWorld& world) : Checker("I-12", world) {}

  void OnChange(const SimChange& change) override {
    if (change.key.text().starts_with("leader/")) return;
    Judge();
    begun_.reset();
    const TruthChange& last = world().truth().last();
    if (last.kind == TruthChange::Kind::kRecord) OnRecord(change, *last.id);
    if (last.kind == TruthChange::Kind::kJournal && !refused_.empty()) OnJournal(change);
  }
  void OnServerEnd(const ServerStanding& /*server*/) override { begun_.reset(); }
  // Somebody joins or renews. One who is given its certificate once more costs writes that change
  // nothing.
  void OnCertificate(const IssuedCertificate& /*issued*/) override { begun_.reset(); }

  void EverySecond() override {
    const bool late = world().bucket().late_writes() > 0;
    if (!world().calm() || !world().Healed() || late || !AllLead()) {
      begun_.reset();
      return;
    }
    last_ = Count();
    last_at_ = world().now();
    if (!begun_) begun_ = {.at = last_at_, .requests = last_};
  }

  void AtQuiet() override { Judge(); }

 private:
  struct Begin {
    Instant at;
    Requests requests;
  };

  // A refusal of a group's creation that no success has followed.
  struct Refusal {
    std::string process;
    Timestamp at;  // By the clock of that process.
    Instant stored_at;
  };

  void OnRecord(const SimChange& change, const InstanceId& id) {
    const InstanceRecord* record = world().truth().Find(id);
    if (record == nullptr || IsByHand(change)) return;
    const GroupName group = {record->tenant, record->group};
    if (record->phase == InstancePhase::kFailed && record->failure) {
      // The server may hear of a success that is already stored after it has heard of the refusal;
      // and a refusal may be stored long after it was heard, and after a success that followed it.
      const auto made = made_.find(group);
      if (made != made_.end() && record->failure->at - made->second < kAnswerUnderWay) return;
      refused_[group].push_back(
          {.process = change.process, .at = record->failure->at, .stored_at = world().now()});
    } else if (!record->provider_instance_id.empty()) {
      refused_.erase(group);
      made_.insert_or_assign(group, world().wall());
    }
  }

  void OnJournal(const SimChange& change) {
    for (const Intent* intent : NewIntents(world().truth())) {
      if (intent->kind != IntentKind::kCreate || intent->reason == "on-demand") continue;
      const auto refused = refused_.find({intent->tenant, intent->group});
      if (refused == refused_.end()) continue;
      for (const Refusal& refusal : refused->second) JudgeBackoff(change, *intent, refusal);
    }
  }

  void JudgeBackoff(const SimChange& change, const Intent& intent, const Refusal& refusal) {
    const Instant walls_true_since = world().WallsTrueSince();
    const bool by_wrong_clock =
        walls_true_since > Instant() && walls_true_since + kLeastBackoff * 2 > refusal.stored_at;
    if (by_wrong_clock) return;
    const Duration after = intent.opened_at - refusal.at;
    // What was decided in the same turn as the refusal knew nothing of it.
    if (refusal.process != change.process || after <= kOneTurn || after >= kLeastBackoff) return;
    Violated(fmt::format("{} makes {} for {}/{} {} after the provider refused one", change.process,
                         intent.instance_id.text(), intent.tenant.text(), intent.group.text(),
                         FormatDuration(after)));
  }

  [[nodiscard]] Requests Count() const {
    Requests sum;
    for (const auto& [counter, number] : world().bucket().counts()) {
      const auto& [method, key_class, result] = counter;
      const auto count = static_cast<std::int64_t>(number);
      switch (method) {
        case SimMethod::kGet:
        case SimMethod::kHead: sum.reads += count; break;
        case SimMethod::kList: break;
        default: (key_class == "leader" ? sum.lease_writes : sum.other_writes) += count;
      }
    }
    sum.listings = static_cast<std::int64_t>(world().cloud().Count(SimProviderMethod::kList));
    return sum;
  }

  // Every shard that has a server has a leader: nobody is on the way to become one.
  [[nodiscard]] bool AllLead() {
    servers_ = 0;
    std::set<ShardId> shards;
    std::set<ShardId> led;
    for (const ServerStanding& server : world().Servers()) {
      ++servers_;
      shards.insert(server.shard);
      if (server.acting && server.leads) led.insert(server.shard);
    }
    leaders_ = static_cast<std::int64_t>(led.size());
    return shards == led && !led.empty();
  }

  void Judge() {
    if (!begun_ || last_at_ - begun_->at < kLeast) return;
    const Setting& setting = world().setting();
    const std::int64_t seconds = (last_at_ - begun_->at).seconds() + 1;
    const auto times = [&](Duration every) { return seconds * 1'000 / every.milliseconds() + 1; };
    const std::int64_t renewals = times(setting.renew);
    const std::int64_t standbys = servers_ - leaders_;
    const Requests allowed = {.reads = servers_ * (seconds * kReadsPerHour / kHour + kReadSlack) +
                                       standbys * renewals + (servers_ - 1) * renewals,
                              .lease_writes = (leaders_ + 1) * (renewals + kWriteSlack),
                              .other_writes = kWriteSlack,
                              .listings = leaders_ * (times(setting.sweep) + 1)};
    const Requests& before = begun_->requests;
    Compare("reads", last_.reads - before.reads, allowed.reads);
    Compare("writes of leases", last_.lease_writes - before.lease_writes, allowed.lease_writes);
    Compare("other writes", last_.other_writes - before.other_writes, allowed.other_writes);
    Compare("listings of the provider", last_.listings - before.listings, allowed.listings);
  }

  void Compare(std::string_view what, std::int64_t seen, std::int64_t allowed) {
    if (seen <= allowed) return;
    Violated(fmt::format("{} {} by {} servers in {} of idleness; {} are allowed", seen, what,
                         servers_, FormatDuration(last_at_ - begun_->at), allowed));
  }

  std::optional<Begin> begun_;
  std::map<GroupName, std::vector<Refusal>> refused_;  // One turn may know an earlier one only.
  std::map<GroupName, Timestamp> made_;  // When the last success of a group was stored.
  Requests last_;
  Instant last_at_;
  std::int64_t servers_ = 0;
  std::int64_t leaders_ = 0;
};

}  // namespace

std::unique_ptr<Checker> MakeI12(CheckerWorld& world) {
  return std::make_unique<I12IdleCostsLittle>(world);
}

}  // namespace nstance::sim
