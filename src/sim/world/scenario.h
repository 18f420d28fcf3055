// Scenario: what happens in one simulated run, drawn from its seed before the run begins.
//
// A scenario is a list of events: faults and work, each at its time or at the n-th passing of a
// step, each with a number from which everything else about it is drawn when it happens. So a run
// can be repeated with some of its events left out, which is how a failure is made smaller. Tasks
// are ordered, and answers delayed, by the seed alone.
//
// Swarm: each kind of event is left out of half of the scenarios.
//
// Some scenarios have more events, behind those that every scenario has: one seed in five the ones
// of a schedule (schedule.h), and one in three some faults at steps of those that runs have to hit
// (required_cells.h). One in five is a liveness run: each shard keeps one server, and others are
// lost for good; in one of six the trust bundle changes. In one of eight servers are restored from
// a saved state, and in another eighth the provider gives one name to two machines. One of six has
// what is rare otherwise, in one of ten a new leader is listed nothing, and half have occasions
// (occasions.h). Each is drawn apart from all else, so that the other seeds, and the other events,
// are what they would be without.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "base/time.h"
#include "sim/world/setting.h"

namespace nstance::sim {

enum class EventKind : std::uint8_t {
  // Servers.
  kKillServer,     // kill -9, and a restart after `length`.
  kStopServer,     // SIGTERM, and a restart after `length`.
  kRestartStorm,   // Every server within one lease.
  kPauseServer,    // F12.
  kJumpWall,       // F11: the wall clock of one server.
  kClockRate,      // F11: one server's clocks run slower or faster for a while.
  kLoseServer,     // For good, also in calm: it is dead, stands still, or is cut from the store.
  kRestoreServer,  // F12: one is saved, and comes back from that after `length` (World::Restore).
  kWornLease,      // F11: a leader's clock is as slow as its lease bears, or slower, and its store
                   // is bad: it holds its lease longer than others think. Only an occasion.
  kPauseAtLog,     // F12: whoever writes to the certificate log next stands still until the answer
                   // is there and its lease is over. Only an occasion.
  kUnlistedHeir,  // A leader ends in the middle of something, and the provider lists nothing to the
                  // next one.
  kLoseCache,     // F6: rows and files of one machine are gone, old, or cannot be used.
  // Ways.
  kStoreFaults,     // F3 to F6: one server's way to the store is bad for a while.
  kProviderFaults,  // F7 to F9: one server's way to the provider.
  kCutStore,        // F13 S, both ways or one.
  kCutProvider,     // F13 P.
  kCutAgents,       // F13 A: one server and some of the agents.
  kCutOperator,     // F13 O.
  kEmptyWorld,      // The provider lists nothing. Only in schedules.
  kTwoVms,          // F10: a creation makes two VMs.
  kReuseIds,        // F10: ids of VMs that are gone are used again; some go.
  kShortage,        // F7: the provider makes nothing for anybody, while a machine is ill.
  kTouchLease,      // F5: somebody deletes or spoils the lease of a shard.
  kBlink,           // F9: the provider denies everything for less than T_vis, and agents go for a
                    // moment, so that it is asked. Only an occasion.
  kLateCreation,    // F8: machines are made long after their creation was given up. Only an
                    // occasion.
  kNoCapacity,      // F7: the provider refuses most creations, and some are wanted. Only an
                    // occasion.
  kCloudLies,       // F10, the same, lags.
  // At a step: any fault class.
  kAtStep,
  // Machines and agents.
  kKillVm,      // It stops, fails or vanishes.
  kKillAgent,   // The process dies and starts again.
  kHangAgent,   // SIGSTOP for a while.
  kJumpAgent,   // Its wall clock jumps.
  kRogueVm,     // A machine with our marks that nobody asked for.
  kAgentStorm,  // Every agent's process within one lease. Only in schedules.
  kCloneVm,     // F10: another machine runs with a copy of its disk.
  kTwoHang,     // Two agents of one group hang at once. Only an occasion.
  kResetDisk,   // A machine that has joined begins anew, with its token and another key. Only an
                // occasion.
  kSpotNotice,  // The provider announces the end of a machine for a while. Only an occasion.
  // Work.
  kUpsertGroup,
  kScaleGroup,
  kDeleteGroup,
  kCreateInstance,
  kDeleteInstance,
  kEditConfig,
  kRefreshConfig,
  kMoodOfOperator,  // How it answers drains.
  kDenyIdentity,
  kRenameTemplate,  // Groups that were made by calls name one that is gone, for a while.
  kBrokenConfig,    // A file that does not validate is stored, and a refresh asked for. Only an
                    // occasion.
  kGreatShrink,     // A group of many is to become empty, and its leader dies meanwhile. Only an
                    // occasion.
  kSameRequest,     // Two tenants use one request id for one group name. Only an occasion.
  kChangeBundle,    // Other roots behind the first one of ca.crt; some machines get them too.
};
inline constexpr std::size_t kEventKinds = static_cast<std::size_t>(EventKind::kChangeBundle) + 1;
inline constexpr EventKind kFirstWork = EventKind::kUpsertGroup;

[[nodiscard]] std::string_view EventName(EventKind kind);

// The classes of faults.md 2.
enum class Fault : std::uint8_t {
  kNone,
  kF1,
  kF2,
  kF3,
  kF4,
  kF5,
  kF6,
  kF7,
  kF8,
  kF9,
  kF10,
  kF11,
  kF12,
  kF13,
};
inline constexpr std::size_t kFaults = 13;
[[nodiscard]] std::string FaultName(Fault fault);

struct Event {
  EventKind kind = EventKind::kKillServer;
  Duration at = {};      // From the start of the hostile phase; not for kAtStep.
  Duration length = {};  // How long it lasts, where it does.
  std::uint64_t draw = 0;
  // kAtStep.
  Step step = Step::kNone;
  std::uint32_t passing = 0;  // From 1.
  Fault fault = Fault::kNone;
  // Strikes at the first passing from that one on to which it can happen: a step may be passed by
  // calls of several kinds.
  bool insists = false;
  // What happens to one machine: which, counted in the order of their names. Empty: it is drawn.
  std::optional<std::size_t> machine = std::nullopt;
};
// "12.300 s: pause-server for 20 s", for people.
[[nodiscard]] std::string Describe(const Event& event);

// The named schedules of faults.md 2.
enum class Schedule : std::uint8_t {
  kNone,
  kLostAnswers,   // F4 and F8 on each call in turn.
  kClog,          // Links stop one by one and heal in another order.
  kPauseAtFence,  // F12 between L7 and each effect.
  kRestartStorm,  // Every process within one lease, several times.
  kEmptyWorld,    // The provider lists nothing for a while.
};
inline constexpr std::size_t kSchedules = static_cast<std::size_t>(Schedule::kEmptyWorld);
// "clog"; "none".
[[nodiscard]] std::string_view ScheduleName(Schedule schedule);
[[nodiscard]] std::optional<Schedule> ParseSchedule(std::string_view name);

struct Scenario {
  std::uint64_t seed = 0;
  Setting setting = {};
  Duration hostile = {};
  Schedule schedule = Schedule::kNone;
  std::vector<Event> events = {};
};

struct ScenarioOptions {
  std::uint64_t seed = 0;
  // Half of the events at steps is about this one, and some more are.
  std::optional<std::pair<Step, Fault>> cell = std::nullopt;
  // This one, or none, instead of what is drawn.
  std::optional<Schedule> schedule = std::nullopt;
  // A liveness run, whatever is drawn.
  bool liveness = false;
};
[[nodiscard]] Scenario DrawScenario(const ScenarioOptions& options);

}  // namespace nstance::sim
