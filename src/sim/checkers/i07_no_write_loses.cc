// I-7: `seq` rises by one per journal write and falls in no object; no accepted write loses what
// another set.
//
//   journal   a take-over keeps every open intent; an intent that stays open keeps its ack
//   groups    a take-over keeps every group; every write is stamped
//   records   what one writer has set (provider id, registration, key, generation, deletion, ...)
//             does not vanish, and what is fixed at creation does not change
#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

bool Lost(const std::string& before, const std::string& after) {
  return !before.empty() && before != after;
}
template <class T>
bool Lost(const std::optional<T>& before, const std::optional<T>& after) {
  return before && !(after && *before == *after);
}

// The first member that the write has lost; empty: none.
std::string_view LostMember(const InstanceRecord& before, const InstanceRecord& after) {
  if (Lost(before.provider_instance_id, after.provider_instance_id)) return "provider_instance_id";
  if (Lost(before.registered_at, after.registered_at)) return "registered_at";
  if (!before.public_key_pem.empty() && after.public_key_pem.empty()) return "public_key_pem";
  if (!before.cert_serial.empty() && after.cert_serial.empty()) return "cert_serial";
  if (before.cert_expires_at && !after.cert_expires_at) return "cert_expires_at";
  if (after.generation < before.generation) return "generation";
  if (Lost(before.nonce_sha256, after.nonce_sha256)) return "nonce_sha256";
  if (Lost(before.nonce, after.nonce)) return "nonce";
  if (Lost(before.request_sha256, after.request_sha256)) return "request_sha256";
  if (Lost(before.subnet_id, after.subnet_id)) return "subnet_id";
  if (Lost(before.request_id, after.request_id)) return "request_id";
  if (Lost(before.replaces, after.replaces)) return "replaces";
  if (Lost(before.infra_config_hash, after.infra_config_hash)) return "infra_config_hash";
  if (Lost(before.blocked, after.blocked)) return "blocked";
  if (Lost(before.deletion, after.deletion)) return "deletion";
  if (Lost(before.failure, after.failure)) return "failure";
  if (!std::ranges::all_of(before.unknown, [&](const json::Member& member) {
        return std::ranges::find(after.unknown, member) != after.unknown.end();
      })) {
    return "a member that is not ours";
  }
  if (before.created_at != after.created_at) return "created_at";
  if (before.config != after.config) return "config";
  const bool revoked =
      before.phase == InstancePhase::kDraining && after.phase == InstancePhase::kRegistered;
  if (before.drain && !after.drain && !revoked) return "drain";
  if (before.drain && after.drain && Lost(before.drain->acked_at, after.drain->acked_at)) {
    return "drain.acked_at";
  }
  return {};
}

class I07NoWriteLoses final : public Checker {
 public:
  explicit I07NoWriteLoses(CheckerWorld& world) : Checker("I-7", world) {}

  void OnChange(const SimChange& change) override {
    if (IsByHand(change)) return;
    const TruthChange& last = world().truth().last();
    if (last.shard == nullptr) return;
    const ShardTruth& truth = world().truth().Of(*last.shard);
    switch (last.kind) {
      case TruthChange::Kind::kJournal: return OnJournal(change, last, truth);
      case TruthChange::Kind::kGroups: return OnGroups(change, last, truth);
      case TruthChange::Kind::kRecord: return OnRecord(change, last, truth);
      case TruthChange::Kind::kLease:
      case TruthChange::Kind::kOther: return;
    }
  }

 private:
  void Complain(const SimChange& change, std::string_view what) {
    Violated(fmt::format("{} by {}: {}", change.key.text(), change.process, what));
  }

  void OnJournal(const SimChange& change, const TruthChange& last, const ShardTruth& truth) {
    if (!truth.journal) return Complain(change, "it is gone, or does not read");
    const Journal& after = *truth.journal;
    if (!last.journal) return;
    const Journal& before = *last.journal;
    if (after.seq != before.seq + 1) {
      return Complain(change, fmt::format("seq {} after {}", after.seq, before.seq));
    }
    std::map<std::string_view, const Intent*> open;
    for (const Intent& intent : after.intents) open[intent.id] = &intent;
    for (const Intent& intent : before.intents) {
      const auto at = open.find(intent.id);
      if (at == open.end()) {
        if (after.epoch == before.epoch) continue;
        return Complain(change, fmt::format("the take-over lost the intent {}", intent.id));
      }
      if (Lost(intent.acked_at, at->second->acked_at)) {
        return Complain(change, fmt::format("the intent {} lost its ack", intent.id));
      }
    }
  }

  void OnGroups(const SimChange& change, const TruthChange& last, const ShardTruth& truth) {
    if (!truth.groups_stamp) return Complain(change, "it is gone, or has no stamp");
    if (!last.groups_stamp) return;
    if (truth.groups_stamp->seq < last.groups_stamp->seq) {
      return Complain(
          change, fmt::format("seq {} after {}", truth.groups_stamp->seq, last.groups_stamp->seq));
    }
    if (truth.groups_stamp->epoch != last.groups_stamp->epoch && truth.dynamic != last.dynamic) {
      Complain(change, "the take-over changed the groups");
    }
  }

  void OnRecord(const SimChange& change, const TruthChange& last, const ShardTruth& truth) {
    const auto at = truth.records.find(*last.id);
    if (!last.record || at == truth.records.end()) return;
    const InstanceRecord& before = *last.record;
    const InstanceRecord& after = at->second;
    if (after.seq < before.seq || after.epoch < before.epoch) {
      return Complain(change, fmt::format("epoch {} seq {} after epoch {} seq {}", after.epoch,
                                          after.seq, before.epoch, before.seq));
    }
    const std::string_view lost = LostMember(before, after);
    if (!lost.empty()) Complain(change, fmt::format("{} was lost or changed", lost));
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI07(CheckerWorld& world) {
  return std::make_unique<I07NoWriteLoses>(world);
}

}  // namespace nstance::sim
