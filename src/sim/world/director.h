// Director: carries out a scenario's events in a world: what they do, to whom, and how it ends.
//
//   Director director(world, scenario.events);
//   director.Start();              // Every event at its time.
//   world.RunFor(scenario.hostile);
//   director.EndFaults();          // Everything is healed, up and in time again.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/prng.h"
#include "sim/world/scenario.h"
#include "sim/world/world.h"

namespace nstance::sim {

class Director final {
 public:
  Director(World& world, const std::vector<Event>& events) : world_(world), events_(events) {}
  Director(const Director&) = delete;
  Director& operator=(const Director&) = delete;

  void Start();
  // Returns how long late requests may still arrive.
  [[nodiscard]] Duration EndFaults();

 private:
  void Happen(const Event& event);
  void HappenToServer(const Event& event, Prng& prng);
  void HappenToWays(const Event& event, Prng& prng);
  void HappenToMachines(const Event& event, Prng& prng);
  void Work(const Event& event, Prng& prng);

  void WornLease(const Event& event, Prng& prng);
  // What a leader may leave undone for the next one.
  enum class Middle : std::uint8_t {
    kDeletion,  // The tombstone is stored, and the intent still open.
    kCreation,  // The agent has registered, and nobody was told of its VM.
    kDrain,     // It has begun.
  };
  void UnlistedHeir(const Event& event, Prng& prng);
  void Begin(Middle middle, const std::string& leader, Prng& prng);
  [[nodiscard]] bool IsInThe(Middle middle) const;
  // Looks every few milliseconds, so many times at most, and ends the leader when it is.
  void EndInThe(Middle middle, const std::string& leader, Duration unlisted, int looks);
  void LoseCache(ServerMachine& machine, Prng& prng);
  void LoseServer(ServerMachine& machine, Prng& prng);
  void RestoreServer(const std::string& name, Duration after, Prng& prng);
  void Heal(ServerMachine& machine);
  void CutLink(const Event& event, Prng& prng);
  void CutAgents(const Event& event, Prng& prng);
  void CutOperator(const Event& event, Prng& prng);
  void StoreFaults(const Event& event, Prng& prng);
  void ProviderFaults(const Event& event, Prng& prng);
  void EmptyWorld(const Event& event, Prng& prng);
  void Blink(Prng& prng);
  void NoCapacity(const Event& event, Prng& prng);
  void LateCreation(const Event& event, Prng& prng);
  void CloudLies(const Event& event, Prng& prng);
  void TwoVms(const Event& event);
  void Shortage(const Event& event, Prng& prng);
  void TouchLease(Prng& prng);
  void ReuseIds(const Event& event, Prng& prng);
  void AgentStorm(Prng& prng);
  void KillAgent(AgentMachine& agent, Duration length, Prng& prng);
  void TwoHang(const Event& event);
  void SpotNotice(const Event& event, Prng& prng);
  void KillVm(Prng& prng);
  void RogueVm(Prng& prng);
  void CloneVm(Prng& prng);
  void EditConfig(Prng& prng);
  void RenameTemplate(const Event& event, Prng& prng);
  void DenyIdentity(Prng& prng);
  void ChangeBundle(Prng& prng);
  void ChangeGroup(EventKind kind, Prng& prng);
  void GreatShrink(const Event& event);
  void SameRequest(Prng& prng);
  void BreakConfig(const Event& event, Prng& prng);
  void ChangeInstance(EventKind kind, Prng& prng);

  [[nodiscard]] std::vector<std::string> GroupsOf(const TenantId& tenant,
                                                  const ShardId& shard) const;
  [[nodiscard]] std::string PickMachine(const Event& event, Prng& prng) const;
  // The machine of whoever leads; empty: nobody.
  [[nodiscard]] std::string LeaderOf(const ShardId& shard) const;
  // Null: there is none.
  [[nodiscard]] AgentMachine* PickAgent(Prng& prng);
  void OnServer(const std::string& name, const std::function<void(ServerNode&)>& act);

  World& world_;
  const std::vector<Event>& events_;
  bool over_ = false;
  int made_groups_ = 0;
  int requests_ = 0;
  Duration late_ = {};
};

}  // namespace nstance::sim
