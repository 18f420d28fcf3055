#include "base/fault_point.h"

#include <array>

namespace nstance {
namespace {

constexpr std::array<std::string_view, kStepCount + 1> kNames = {
    "",   "C0", "C1", "C2", "C3", "C4", "C5", "C6", "R1", "R2", "R3", "R4", "R5", "R6", "R7",
    "R8", "R9", "H1", "H2", "H3", "H4", "H5", "H6", "H7", "D1", "D2", "D3", "D4", "D5", "D6",
    "D7", "X1", "X2", "X3", "X4", "X5", "X6", "X7", "G1", "G2", "G3", "G4", "G5", "G6", "G7",
    "G8", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "W1", "W2", "W3", "W4", "W5", "W6",
    "W7", "W8", "K1", "K2", "K3", "K4", "K5", "K6", "K7", "O1", "O2", "O3", "O4", "O5", "O6",
    "O7", "O8", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9",
};

constexpr std::array<std::string_view, kPlantCount + 1> kPlantNames = {
    "",
    "drops-epoch-check",
    "doubt-is-done",
    "doubt-is-not-done",
    "conflict-is-done",
    "puts-unconditionally",
    "forces-record",
    "no-margin",
    "deadline-from-answer",
    "lease-by-wall-clock",
    "takes-lease-early",
    "doubtful-renew-counts",
    "ignores-clock-gone-back",
    "takes-over-unwritten",
    "take-over-keeps-epoch",
    "take-over-keeps-seq",
    "skips-budget",
    "signs-after-loss",
    "keeps-listeners-open",
    "answers-before-durable",
    "groups-from-cache",
    "invalid-config-applied",
    "forgets-intent",
    "new-id-after-timeout",
    "other-bytes",
    "no-backoff",
    "failed-keeps-slot",
    "no-surge-limit",
    "two-rotations",
    "on-demand-counted",
    "c5-overwrites",
    "vm-stays-unnamed",
    "counts-draining",
    "drains-unreplaced",
    "old-leaders-health",
    "no-mass-silence",
    "believes-empty-listing",
    "first-not-found",
    "ignores-settle",
    "unheard-is-not-silent",
    "reused-id-is-trouble",
    "waits-for-listing",
    "restarts-drain-deadline",
    "vanished-notice-cancels",
    "any-ack",
    "counts-on-unsettled",
    "answers-drain-early",
    "ack-in-memory",
    "brake-forgets",
    "expiry-unlimited",
    "deletes-before-intent",
    "no-tag-check",
    "tombstone-at-once",
    "tombstone-by-own-clock",
    "buried-stays-open",
    "late-creation-stays",
    "certificate-before-log",
    "repeat-makes-new",
    "accepts-any-key",
    "keeps-generation",
    "clone-is-fine",
    "deny-list-forgotten",
    "deleted-keeps-stream",
    "tenant-left-out",
    "foreign-watcher",
    "new-key-each-try",
    "join-key-in-memory",
    "takes-lease-late",
    "keeps-lease-at-stop",
    "old-rows",
    "token-in-log",
    "user-data-in-record",
};

}  // namespace

std::string_view StepName(Step step) { return kNames.at(static_cast<std::size_t>(step)); }

std::optional<Step> ParseStep(std::string_view name) {
  for (std::size_t i = 1; i < kNames.size(); ++i) {
    if (kNames.at(i) == name) return static_cast<Step>(i);
  }
  return std::nullopt;
}

std::string_view PlantName(Plant plant) { return kPlantNames.at(static_cast<std::size_t>(plant)); }

std::optional<Plant> ParsePlant(std::string_view name) {
  for (const Plant plant : kPlants) {
    if (PlantName(plant) == name) return plant;
  }
  return std::nullopt;
}

#ifdef NSTANCE_SIM

namespace {
thread_local FaultPoints* fault_points = nullptr;
}  // namespace

void SetFaultPoints(FaultPoints* points) { fault_points = points; }

void AtStep(Step step) {
  if (fault_points != nullptr && step != Step::kNone) fault_points->OnStep(step);
}

bool Planted(Plant plant) { return fault_points != nullptr && fault_points->IsPlanted(plant); }

#endif

}  // namespace nstance
