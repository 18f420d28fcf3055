// Fault points: the places where the simulator may interfere with the code that it runs.
//
//   AtStep(Step::kC4);
//   call_ = provider.Create(...);            // The port call that the step is about.
//
//   if (Planted(Plant::kForgetsIntent)) ...  // A bug that the simulator has to find.
//
// A step is told right before its effect, in the turn that starts it; the simulator may then let
// the process die before it (F1), fail or lose its call (F3 to F10), move its clocks (F11), pause
// it (F12), cut it off (F13), or let it die when the answer comes (F2). Steps without a port call
// of their own (a decision, an event) are told where they happen.
//
// Only builds with NSTANCE_SIM have any of this: elsewhere both functions are constants, and what
// depends on them is not in the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nstance {

// The steps of faults.md section 4, in its order.
// clang-format off
enum class Step : std::uint8_t {
  kNone,
  kC0, kC1, kC2, kC3, kC4, kC5, kC6,            // Create.
  kR1, kR2, kR3, kR4, kR5, kR6, kR7, kR8, kR9,  // Register.
  kH1, kH2, kH3, kH4, kH5, kH6, kH7,            // Health.
  kD1, kD2, kD3, kD4, kD5, kD6, kD7,            // Drain.
  kX1, kX2, kX3, kX4, kX5, kX6, kX7,            // Delete.
  kG1, kG2, kG3, kG4, kG5, kG6, kG7, kG8,       // Group upsert.
  kL1, kL2, kL3, kL4, kL5, kL6, kL7, kL8,       // Leader change.
  kW1, kW2, kW3, kW4, kW5, kW6, kW7, kW8,       // Certificates.
  kK1, kK2, kK3, kK4, kK5, kK6, kK7,            // Config refresh.
  kO1, kO2, kO3, kO4, kO5, kO6, kO7, kO8,       // Operator import.
  kP1, kP2, kP3, kP4, kP5, kP6, kP7, kP8, kP9,  // Claim from a warm pool.
};
// clang-format on
inline constexpr std::size_t kStepCount = static_cast<std::size_t>(Step::kP9);  // Without kNone.

// "C4"; empty for kNone.
[[nodiscard]] std::string_view StepName(Step step);
[[nodiscard]] std::optional<Step> ParseStep(std::string_view name);

// Bugs that can be planted, one at a time, each with the invariants that should find it.
// clang-format off
enum class Plant : std::uint8_t {
  kNone,
  // Leadership and storage.
  kDropsEpochCheck,  // Goes on although a record or the groups object shows a higher epoch. I-1.
  kDoubtIsDone,  // A write whose answer was lost counts as done, without reading back. I-8, I-9.
  kDoubtIsNotDone,  // A write whose answer was lost counts as not done. I-9.
  kConflictIsDone,  // A refused create (409, 412) is read as "exists, as good as ours". I-8, I-28.
  kPutsUnconditionally,  // Settled writes overwrite whatever is there. I-6.
  kForcesRecord,  // After a conflict the same record is sent again under the new version. I-7.
  kNoMargin,  // The holder leads to the very end of the lease. I-3.
  kDeadlineFromAnswer,  // The lease counts from the answer to the renewal. I-3.
  kLeaseByWallClock,  // A follower goes by the time in the lease and its own wall clock. I-3, I-4.
  kTakesLeaseEarly,  // A follower waits for half a lease only. I-3.
  kDoubtfulRenewCounts,  // A renewal whose answer was lost extends the deadline. I-3, I-9.
  kIgnoresClockGoneBack,  // A monotonic clock that went back changes nothing. I-3.
  kTakesOverUnwritten,  // A new leader acts before it has rewritten the journal. I-1, I-7.
  kTakeOverKeepsEpoch,  // The journal is taken over under the epoch that it has. I-2.
  kTakeOverKeepsSeq,  // The take-over has no number of its own. I-7.
  kSkipsBudget,  // Effects begin without asking what is left of the lease. I-1, I-3.
  kSignsAfterLoss,  // Signs without asking whether this server still leads. I-1.
  kKeepsListenersOpen,  // Who steps down keeps streams and listeners. I-5, I-25.
  kAnswersBeforeDurable,  // A change of a group is answered when its write begins. I-8.
  kGroupsFromCache,  // The take-over writes the groups of the cached copy. I-7, I-8.
  kInvalidConfigApplied,  // What does not validate (templates, identity) is applied. I-17, I-18.
  // Creations.
  kForgetsIntent,  // A create that times out is dropped: nobody owns it any more. I-14, I-24.
  kNewIdAfterTimeout,  // A create that times out is failed: another id takes its place. I-9.
  kOtherBytes,  // A create is repeated with another token in it. I-29.
  kNoBackoff,  // A refused create is tried again at once. I-12.
  kFailedKeepsSlot,  // A failed creation goes on counting toward the size. I-17.
  kNoSurgeLimit,  // Replacements are made beyond size + surge. I-18.
  kTwoRotations,  // Another rotation begins while one is open. I-18.
  kOnDemandCounted,  // On-demand instances count as managed ones. I-17.
  kC5Overwrites,  // The record of the provider id forgets the key that registered meanwhile. I-7.
  kVmStaysUnnamed,  // A registered instance whose creation nobody ended never learns its VM. I-14.
  // Health, drains, deletions.
  kCountsDraining,  // What drains counts as capacity. I-22.
  kDrainsUnreplaced,  // An unhealthy member goes before its replacement is certain. I-22.
  kOldLeadersHealth,  // A new leader counts the silence before its own time. I-25.
  kNoMassSilence,  // Many silent agents at once are believed to be unhealthy. I-25.
  kBelievesEmptyListing,  // An empty listing means that every VM is gone. I-25.
  kFirstNotFound,  // One "not found" is enough. I-25.
  kIgnoresSettle,  // One look that misses a new VM is enough: it had no time to appear. I-25.
  kUnheardIsNotSilent,  // Who never came to a new leader is silent only when stale. I-25.
  kReusedIdIsTrouble,  // A VM whose provider id is another's by now is not missing. I-14, I-17.
  kWaitsForListing,  // A leader that is listed nothing ends nothing, whatever it finds. I-14, I-23.
  kRestartsDrainDeadline,  // A new leader gives every drain its whole length again. I-23.
  kVanishedNoticeCancels,  // A spot notice that is not repeated cancels its drain. I-23.
  kAnyAck,  // An acknowledgement of another drain ends this one. I-23.
  kCountsOnUnsettled,  // Somebody leaves for a drain whose revocation is not certain. I-22.
  kAnswersDrainEarly,  // An order to drain is answered while the drain is being written. I-8.
  kAckInMemory,  // An acknowledgement is answered without being stored. I-8.
  kBrakeForgets,  // A new leader begins with an empty window of the brake. I-21.
  kExpiryUnlimited,  // Expiry and drift take from the budget of what was ordered. I-21.
  kDeletesBeforeIntent,  // The deletion begins while its intent is being written. I-1, I-19.
  kNoTagCheck,  // A deletion asks for whoever has its VM's provider id by now. I-1, I-20.
  kTombstoneAtOnce,  // A tombstone is removed with the next sweep. I-13.
  kTombstoneByOwnClock,  // The time of a tombstone is told by the leader's own clock. I-13.
  kBuriedStaysOpen,  // The intent of a deletion that has its tombstone is left open. I-24.
  kLateCreationStays,  // A VM that appears after its tombstone is left alone. I-14.
  // Identity and tenants.
  kCertificateBeforeLog,  // A certificate leaves although its log entry was not written. I-30.
  kRepeatMakesNew,  // The same token and key give another certificate: it is not consumed. I-7, I-28.
  kAcceptsAnyKey,  // A consumed token registers another key. I-7, I-28.
  kKeepsGeneration,  // A renewal does not raise the generation. I-28, I-40.
  kCloneIsFine,  // A renewal from an old generation with another key is granted. I-40.
  kDenyListForgotten,  // The deny list is not asked when somebody connects. I-36.
  kDeletedKeepsStream,  // The streams of a deleted instance stay open. I-36.
  kTenantLeftOut,  // Request ids of groups are remembered without the tenant. I-32.
  kForeignWatcher,  // Watchers are told of every tenant's instances. I-32.
  // The agent.
  kNewKeyEachTry,  // Every try to renew comes with a new key. I-37, I-40.
  kJoinKeyInMemory,  // The key of the registration is not on disk before it is shown. I-29.
  // Processes.
  kTakesLeaseLate,  // A follower waits for four leases. I-4.
  kKeepsLeaseAtStop,  // Who is told to stop ends without releasing the lease. I-44.
  kOldRows,  // The cache is not told of the end of an instance. I-10.
  kTokenInLog,  // The token that an agent shows is logged. I-33.
  kUserDataInRecord,  // The user data, which has the token, is stored with the record. I-33.
};
// clang-format on
inline constexpr std::size_t kPlantCount = static_cast<std::size_t>(Plant::kUserDataInRecord);

// All but kNone, in their order.
inline constexpr std::array<Plant, kPlantCount> kPlants = [] {
  std::array<Plant, kPlantCount> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all.at(i) = static_cast<Plant>(i + 1);
  return all;
}();

// "no-margin"; empty for kNone.
[[nodiscard]] std::string_view PlantName(Plant plant);
[[nodiscard]] std::optional<Plant> ParsePlant(std::string_view name);

#ifdef NSTANCE_SIM

inline constexpr bool kHasFaultPoints = true;

// Whoever runs the code: one simulated world on this thread.
class FaultPoints {
 public:
  FaultPoints() = default;
  FaultPoints(const FaultPoints&) = delete;
  FaultPoints& operator=(const FaultPoints&) = delete;
  virtual ~FaultPoints() = default;
  virtual void OnStep(Step step) = 0;
  [[nodiscard]] virtual bool IsPlanted(Plant plant) const = 0;
};

// Null: nobody listens. One thread, one world.
void SetFaultPoints(FaultPoints* points);
// kNone is not told.
void AtStep(Step step);
[[nodiscard]] bool Planted(Plant plant);

#else

inline constexpr bool kHasFaultPoints = false;

constexpr void AtStep(Step /*step*/) {}
[[nodiscard]] constexpr bool Planted(Plant /*plant*/) { return false; }

#endif

}  // namespace nstance
