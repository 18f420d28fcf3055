#include "server/services/plan_answer.h"

#include <string>
#include <utility>

#include "core/fleet/explain.h"

namespace nstance {
namespace {

// Tags, lengths and a timestamp.
constexpr std::size_t kFrame = 48;

std::size_t SizeOf(const api::Action& action) {
  return kFrame + action.kind.size() + action.group.size() + action.instance_id.size() +
         action.reason.size() + action.detail.size();
}

std::size_t SizeOf(const api::Hold& hold) {
  return kFrame + hold.code.size() + hold.group.size() + hold.instance_id.size() +
         hold.detail.size();
}

}  // namespace

api::Action ActionAnswer(const fleet::Action& action, const GroupKey& group) {
  return {.kind = std::string(fleet::Word(action.kind)),
          .group = group.text(),
          .instance_id = action.instance ? action.instance->text() : std::string(),
          .reason = std::string(fleet::Word(action.reason)),
          .priority = action.priority,
          .detail = fleet::Describe(action)};
}

api::Hold HoldAnswer(const fleet::Hold& hold, const GroupKey& group,
                     const fleet::ClockReading& clock) {
  api::Hold out = {.code = std::string(fleet::Word(hold.code)),
                   .group = group.text(),
                   .instance_id = hold.instance ? hold.instance->text() : std::string(),
                   .detail = fleet::Shortened(fleet::Describe(hold))};
  if (hold.until) out.until = fleet::WallTimeOf(*hold.until, clock);
  return out;
}

std::size_t AppendPlan(api::PlanResponse& answer, const fleet::Plan& plan, const GroupKey& group,
                       const fleet::ClockReading& clock) {
  std::size_t bytes = 0;
  for (const fleet::Action& action : plan.actions) {
    bytes += SizeOf(answer.actions.emplace_back(ActionAnswer(action, group)));
  }
  for (const fleet::Hold& hold : plan.holds) {
    bytes += SizeOf(answer.holds.emplace_back(HoldAnswer(hold, group, clock)));
  }
  if (plan.replan_at) {
    const Timestamp at = fleet::WallTimeOf(*plan.replan_at, clock);
    if (!answer.replan_at || at < *answer.replan_at) answer.replan_at = at;
  }
  return bytes;
}

std::vector<api::Event> HistoryAnswer(const EventRing* ring) {
  std::vector<api::Event> out;
  if (ring == nullptr) return out;
  out.reserve(ring->size());
  for (std::size_t i = 0; i < ring->size(); ++i) out.push_back(*ring->at(i));
  return out;
}

}  // namespace nstance
