// Group planning: what should happen next to make a group match its spec?
//
// PlanGroup() is a pure function. It does no I/O, reads no clock, draws no random numbers and keeps
// nothing between calls, so the server, `plan`, `why`, the simulator and the tests all run the same
// code. It is level-triggered: the plan depends on the view alone, never on the event that caused
// the call. A lost event costs latency, not correctness, and planning twice is harmless.
//
// Words. Members are managed, unclaimed instances before `draining` that do not leave with this
// plan; one whose leaving is held is a member. A rotation is open while a member's `replaces` names
// a live member that is due, suspect, or doomed and held; such a pair fills one slot. Slots are
// compared with `size`, members with `size + surge`. Ready is registered and healthy.
//
// One pass:
//   1. verdicts (verdict.h); orders; drains that are over; what leaves without the brake leaves:
//   spot notices, VMs that
//      never registered, dead ones whose stream is down
//   2. slots above size: victims, as many as are needed even if everything doomed leaves
//   3. forced expiry whose gate is open, then dead ones as the brake allows
//   4. empty slots: drains are revoked, then instances created, as places, surge and back-off allow
//   5. unhealthy ones and orders with a drain, each with its replacement, as the brake allows; then
//      victims once more, now also among those that had to stay
//   6. the rotation: advance the open one, or start one; expiry of on-demand instances
//   7. everything else that is due becomes a hold; replan_at
//
// Guarantees, each held by a test:
//   1. A plan never raises members above size + surge.
//   2. Scale-down (except of named members) and priority-4 rotation never take ready instances
//      below min(size, ready before).
//   3. A replacement is committed before or with the drain that needs it.
//   4. One rotation per group at a time.
//   5. One "not found" destroys nothing.
//   6. On-demand and claimed instances change no count and are no victims.
//   7. Planning twice gives the same actions; planning after applying them gives none (but mass
//      silence is judged anew: who leaves changes the share of silent agents).
//   8. The result does not depend on the order of instances.
//   9. An open intent is never contradicted.
//   and: between now and replan_at the actions stay the same; the brake's budgets are never
//   exceeded; under a restraint nothing is scaled down, rotated or removed.
//
// Readings of the specification where it is silent or allows two; each is the safer one for
// running VMs:
//   - "No replacement can be made" (forced expiry goes on without one): an input is missing, every
//     subnet is full, or three creations in a row have failed. A single failure only waits.
//   - A registered member whose health is `unknown` ranks as a victim after late ones and before
//     ready ones: else guarantee 2 could break after a change of leader.
//   - A blocked member is no victim while another is left, even a ready one (the special rule wins
//     over guarantee 2). A corrupt one is never a victim.
//   - Guarantee 2 for rotation is kept by asking again, at the drain, what was asked at the start:
//     every other member is healthy, with the same exceptions.
//   - Revoking needs an empty slot, not a memory that `size` rose: when a replacement dies while
//     the old one drains, the old one comes back. It must be healthy and not named for removal.
//   - An empty slot is filled before an unhealthy instance is drained, also where that costs the
//     last place for a creation (I-22 before the order of priorities).
//   - Forced expiry without a replacement takes one instance; the next waits until its slot is
//     full.
//   - While class no-registration has failed, "one creation at a time" means one unregistered
//     member at a time. It is reset only by an instance that registered after the failure.
//   - An accepted deletion that waits for the brake counts as a member, but is no reason to choose
//     another victim.
//   - A creation that came to nothing in this very plan blocks creations of the same plan: its
//     back-off begins with it.
//   - Before the first complete listing of the provider nothing is deleted and only spot notices
//     are drained; ordered deletions are made durable.
//   - An order that wants a drain and finds the brake shut stays undone, with hold `brake`: the
//     server answers its caller with the time. Only deletions without a drain are accepted early.
//   - Under restraint config-invalid forced expiry waits as well, and so does the expiry of
//     on-demand instances. Under tenant-undefined even drains that have run out wait.
#pragma once

#include "base/time.h"
#include "core/fleet/plan.h"
#include "core/fleet/view.h"

namespace nstance::fleet {

// REQUIRES: 0 <= size, 1 <= surge (validation has checked); ids of instances differ.
[[nodiscard]] Plan PlanGroup(const GroupView& view, Instant now);

}  // namespace nstance::fleet
