// StepFaults: faults that strike at a step of the code (base/fault_point.h), and the count of which
// step has met which fault.
//
// A step is told in the turn that starts its effect. What strikes the process (F1, F2 of a step
// without a call, F11 to F13) happens at once; what strikes a call (F2 to F10) is kept for the next
// call of the same turn that it can happen to.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/fault_point.h"
#include "base/prng.h"
#include "sim/sim_object_store.h"
#include "sim/sim_provider.h"
#include "sim/world/agent_node.h"
#include "sim/world/scenario.h"
#include "sim/world/server_node.h"

namespace nstance::sim {

// How often each step met each fault: [step][fault].
using Cells = std::array<std::array<std::uint64_t, kFaults + 1>, kStepCount + 1>;

// Of a wall clock: forward or back, from a second to ten years.
[[nodiscard]] Duration DrawJumpAtStep(Prng& prng);

class StepFaults final {
 public:
  // What the world does for it.
  struct Acts {
    std::function<void(ServerNode&)> die_now;         // F1: nothing after this leaves the machine.
    std::function<void(ServerNode&)> die_after_task;  // F2.
    std::function<void(ServerNode&, Duration)> jump_wall;
    std::function<void(ServerNode&, Duration)> pause;
    std::function<void(ServerNode&, const Event&)> cut;
    std::function<void(ServerNode&, Duration)> lag;             // F9 of what changes something.
    std::function<void(Duration)> list_twice;                   // F10 of a listing.
    std::function<void(Duration)> reuse_ids;                    // F10 of a look at one VM.
    std::function<void(const std::string& key)> rival_touches;  // F5.
    std::function<void(AgentMachine&, const Event&)> strike_agent;
    std::function<void(std::string_view who, std::string what)> note;
  };

  // Looks at the provider can lag behind, or cannot (its consistency window is zero).
  enum class Looks : std::uint8_t { kLag, kDoNot };
  StepFaults(const std::vector<Event>& events, Looks looks, Acts acts);

  void OnStep(ServerNode& node, Step step);
  // Of an agent: only what strikes a process.
  void OnAgentStep(AgentMachine& agent, Step step);
  // A task has ended: what was told in it counts no longer.
  void EndOfTask();
  void Stop() { events_.clear(); }

  [[nodiscard]] SimVerdict OfStore(ServerNode& node, SimMethod method, const std::string& key,
                                   SimFate drawn);
  [[nodiscard]] SimVerdict OfProvider(ServerNode& node, SimProviderMethod method, SimFate drawn);

  [[nodiscard]] const Cells& cells() const { return cells_; }
  [[nodiscard]] const std::array<std::uint64_t, kStepCount + 1>& passings() const {
    return passings_;
  }
  // A fault that concerns a process for a while: the step that it passes meets it.
  void Hit(Step step, Fault fault);

 private:
  struct Waiting {
    Event event;
    bool over = false;
  };
  struct Armed {
    Event event;
    ServerNode* node = nullptr;
    std::size_t number = 0;  // Among the events.
  };

  // Counts the passing, and returns the numbers of those that are due at it.
  [[nodiscard]] std::vector<std::size_t> Pass(Step step);
  void Arm(ServerNode& node, std::size_t number);
  void Strike(ServerNode& node, std::size_t number);
  void HitAll(Fault fault);
  [[nodiscard]] std::optional<Event> Take(const std::function<bool(const Event&)>& fits);

  std::vector<Waiting> events_;
  Looks looks_;
  Acts acts_;
  std::vector<Step> steps_;   // Told in this task and not yet followed by a call.
  std::vector<Armed> armed_;  // For the next call of this task.
  std::array<std::uint64_t, kStepCount + 1> passings_{};
  Cells cells_{};
};

}  // namespace nstance::sim
