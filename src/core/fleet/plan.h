// Plan: what to do next for one group, why other things wait, and when to look again.
//
// Actions stand in the order of their priority. All of one plan belong into one journal commit, so
// that a replacement is durable with the drain that needs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"
#include "core/fleet/backoff.h"
#include "core/fleet/words.h"

namespace nstance::fleet {

enum class ActionKind : std::uint8_t {
  kCreate,       // Open a create intent under a new id.
  kDrain,        // Open a drain intent.
  kRevokeDrain,  // Close the drain intent; the instance is registered again.
  kDelete,       // Begin the deletion: open the intent if none is open (it replaces a drain), then
                 // the record, then the rest of server.md 9.
  kOpenDelete,   // Only make an ordered deletion durable: its start waits for the brake.
  kLook,         // Ask the provider about the VM now.
};
// "create", "drain", "cancel-drain", "delete", "accept-delete", "look" (wire.md 7.6 Action.kind).
[[nodiscard]] std::string_view Word(ActionKind kind);

struct Action {
  ActionKind kind = ActionKind::kLook;
  Reason reason = Reason::kScaleUp;
  int priority = 5;                                   // 1 to 5, server.md 5.
  std::optional<InstanceId> instance = std::nullopt;  // Empty: kCreate.
  std::optional<InstanceId> replaces = std::nullopt;  // kCreate: whom it stands in for.
  std::string subnet = {};                            // kCreate.
  Duration length = {};                               // kDrain: until the deletion.
  bool ordered = false;                               // kDrain, kDelete, kOpenDelete.
  // Counts in the brake. kDrain and kDelete: TenantBrake::Note() when it begins.
  bool counted = false;
  // kDelete: a creation that came to nothing; CreationBackoff::OnFailure() with it.
  std::optional<FailureClass> failure = std::nullopt;
  friend bool operator==(const Action&, const Action&) = default;
};

// Why something that looks due is not being done.
struct Hold {
  HoldCode code = HoldCode::kBrake;
  std::optional<InstanceId> instance = std::nullopt;  // Empty: the group.
  std::string detail = {};                            // A last error, a number; may be empty.
  std::optional<Instant> until = std::nullopt;        // Empty: until something changes.
  friend bool operator==(const Hold&, const Hold&) = default;
};

struct GroupCounts {
  int members = 0;   // As the plan leaves them.
  int slots = 0;     // Filled slots, likewise.
  int ready = 0;     // Members that are registered and healthy.
  int creating = 0;  // Members before registration.
  int draining = 0;
  friend bool operator==(const GroupCounts&, const GroupCounts&) = default;
};

struct Plan {
  std::vector<Action> actions = {};
  std::vector<Hold> holds = {};  // By instance, then code.
  // When time alone, with no new event, could change the plan. Empty if it never can.
  std::optional<Instant> replan_at = std::nullopt;
  // One that registered after the last failure has been healthy for a minute:
  // CreationBackoff::OnRegistrationProven(). In the order of time it comes before the failures of
  // this plan's actions.
  bool registration_proven = false;
  // Creations that wait for places only: what ShareCreations() is asked with.
  int creations_waiting = 0;
  GroupCounts counts = {};
  friend bool operator==(const Plan&, const Plan&) = default;
};

// The clause that follows "because": "its group was deleted", "size + surge is reached".
[[nodiscard]] std::string_view Because(Reason reason);
[[nodiscard]] std::string_view Because(HoldCode code);

// One sentence for people: "drain knc...: the configuration of the group changed; replaced by ...".
[[nodiscard]] std::string Describe(const Action& action);
[[nodiscard]] std::string Describe(const Hold& hold);

}  // namespace nstance::fleet
