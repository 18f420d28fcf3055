// I-29: an agent that keeps retrying within its token's life and reaches the leader gets its
// certificate, whatever answers were lost.
//
//   - the token that a machine is started with is the one whose hash its record has
//   - the key that a record takes from an agent is on that agent's disk at that moment: it may die
//     before it hears of it, and has to come back with the same key
//   - in calm, with one leader all the time, nobody is without a certificate for half a minute
//     while its token is good
//
// Of an identity that was copied to another machine, either may be the one that joins.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "crypto/clock_skew.h"
#include "crypto/registration_token.h"
#include "sim/checkers/checkers.h"
#include "sim/checkers/leaders.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

constexpr Duration kPatience = Duration::Seconds(30);

class I29WhoeverRetriesJoins final : public Checker {
 public:
  explicit I29WhoeverRetriesJoins(CheckerWorld& world) : Checker("I-29", world) {}

  void OnVm(const SimVmChange& change) override {
    if (change.before || change.method != SimProviderMethod::kCreate) return;
    const SimVm& vm = *change.vm;
    if (!vm.request || !vm.shown.instance_id) return;
    const InstanceRecord* record = world().truth().Find(*vm.shown.instance_id);
    if (record == nullptr || record->nonce_sha256.empty()) return;
    // As the template of setting.cc has it: the token is the first line.
    const std::string token = vm.request->user_data.substr(0, vm.request->user_data.find('\n'));
    if (crypto::TokenSha256Hex(token) == record->nonce_sha256) return;
    Violated(fmt::format("{} ({}) was made by {} with a token that its record does not know",
                         vm.shown.shown_id, vm.provider_id, change.process));
  }

  void OnChange(const SimChange& change) override {
    const TruthChange& last = world().truth().last();
    if (last.kind != TruthChange::Kind::kRecord || IsByHand(change)) return;
    const InstanceRecord* after = world().truth().Find(*last.id);
    if (after == nullptr || after->public_key_pem.empty()) return;
    if (last.record && last.record->public_key_pem == after->public_key_pem) return;
    const Result<crypto::PublicKey> key = crypto::PublicKey::FromPem(after->public_key_pem);
    const auto on_disk = world().KeysOnDisk(*last.id);
    if (!key.has_value() || !on_disk || world().AgentCloned(*last.id)) return;
    if (std::ranges::find(*on_disk, key->ToPem()) != on_disk->end()) return;
    Violated(fmt::format("{} took a key for {} that is not on its disk", change.process,
                         last.id->text()));
  }

  void EverySecond() override {
    if (!world().calm()) return;
    leaders_.Look(world());
    std::map<std::string, Instant> able;
    for (const AgentStanding& agent : world().AgentStandings()) {
      if (!IsAble(agent)) continue;
      const auto before = able_.find(agent.vm->provider_id);
      const Instant since = before == able_.end() ? world().now() : before->second;
      able.emplace(agent.vm->provider_id, since);
      if (world().now() - std::max(since, leaders_.Of(agent.shard)->since) <= kPatience) continue;
      Violated(fmt::format("{} ({}) has been there for {} of calm and has no certificate",
                           agent.id.text(), agent.vm->provider_id,
                           FormatDuration(world().now() - since)));
    }
    able_ = std::move(able);
  }

 private:
  bool IsAble(const AgentStanding& agent) const {
    if (!agent.up || agent.has_joined || agent.vm == nullptr) return false;
    if (!world().InCore(agent.shard)) return false;
    if (world().AgentCloned(agent.id)) return false;
    if (agent.vm->shown.status != ProviderStatus::kRunning || leaders_.Of(agent.shard) == nullptr) {
      return false;
    }
    const InstanceRecord* record = world().truth().Find(agent.id);
    if (record == nullptr || !record->nonce || record->blocked) return false;
    using enum InstancePhase;
    const bool wanted =
        record->phase == kCreating || record->phase == kProvisioned || record->phase == kRegistered;
    // Of two machines with one token, one joins.
    if (!wanted || world().cloud().VmsOf(agent.id).size() != 1) return false;
    const Timestamp begin = Timestamp::FromUnix(record->nonce->iat) - crypto::kClockSkew;
    return begin <= world().wall() && world().wall() < Timestamp::FromUnix(record->nonce->exp);
  }

  Leaders leaders_;
  std::map<std::string, Instant> able_;  // By provider id: since when it could have joined.
};

}  // namespace

std::unique_ptr<Checker> MakeI29(CheckerWorld& world) {
  return std::make_unique<I29WhoeverRetriesJoins>(world);
}

}  // namespace nstance::sim
