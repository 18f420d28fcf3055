// The phases in the life of an instance.
//
//   phase       | durable where    | leaves to                                  | counts to size
//   ------------+------------------+--------------------------------------------+------------------
//   intended    | journal          | creating, gone (cancelled)                 | yes
//   creating    | journal, record  | provisioned, registered (the agent was     | yes
//               |                  | faster), failed, gone (cancelled)          |
//   provisioned | record           | registered, deleting                       | yes
//   registered  | record           | draining, deleting                         | yes
//   draining    | journal, record  | registered (revoked), deleting             | no
//   deleting    | journal, record  | gone                                       | no
//   gone        | tombstone record | -                                          | no
//   failed      | record           | gone                                       | no
//
// A record may be written again in its phase (facts arrive). Nothing leaves `gone`; only
// draining -> registered goes back.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace nstance {

enum class InstancePhase : std::uint8_t {
  kIntended,
  kCreating,
  kProvisioned,
  kRegistered,
  kDraining,
  kDeleting,
  kGone,
  kFailed,
};

// "intended", "creating", ...
[[nodiscard]] std::string_view PhaseName(InstancePhase phase);
// kInvalidArgument for any other word.
[[nodiscard]] Result<InstancePhase> ParsePhase(std::string_view name);

// Whether a record in `from` may next be written in `to`; true for the same phase.
[[nodiscard]] bool MayFollow(InstancePhase from, InstancePhase to);

// intended, creating, provisioned, registered.
[[nodiscard]] bool CountsTowardSize(InstancePhase phase);

}  // namespace nstance
