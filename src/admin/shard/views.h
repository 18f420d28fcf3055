// Answers of servers as text for people. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/table.h"
#include "base/time.h"
#include "ports/api/events.h"
#include "ports/api/groups.h"
#include "ports/api/instances.h"
#include "ports/api/plan.h"

namespace nstance::admin {

struct Look {
  Timestamp now = {};
  Paint paint = Paint::kPlain;
};

[[nodiscard]] Tone ToneOfHealth(const api::Instance& instance);
[[nodiscard]] Tone ToneOfPhase(api::InstancePhase phase);

// Drain reason and the time that is left, claim, drift; empty when there is nothing to note.
[[nodiscard]] std::string NoteOf(const api::Instance& instance, Timestamp now);
// The IPv4 address, else the IPv6 one.
[[nodiscard]] std::string IpOf(const api::Instance& instance);

enum class Width : std::uint8_t { kNormal, kWide };

// SHARD, INSTANCE, GROUP, ...
class InstanceTable final {
 public:
  InstanceTable(Width width, Look look);
  void Add(const std::string& shard, const api::Instance& instance);
  [[nodiscard]] std::string Text() const { return table_.Text(look_.paint); }

 private:
  Width width_;
  Look look_;
  Table table_;
};

class GroupTable final {
 public:
  GroupTable(Width width, Look look);
  void Add(const std::string& shard, const api::GroupStatus& status);
  [[nodiscard]] std::string Text() const { return table_.Text(look_.paint); }

 private:
  Width width_;
  Look look_;
  Table table_;
};

// PRIORITY, ACTION, INSTANCE, REASON, DETAIL; then what is held; then when the planner looks again,
// or "Nothing to do.".
[[nodiscard]] std::string PlanText(const api::PlanResponse& plan, const Look& look);
// CODE, SUBJECT, UNTIL, DETAIL under "Held:"; empty without holds.
[[nodiscard]] std::string HoldsText(const std::vector<api::Hold>& holds, const Look& look);
// PRIORITY, ACTION, ...; empty without actions.
[[nodiscard]] std::string ActionsText(const std::vector<api::Action>& actions, const Look& look);
// TIME, TYPE, SUBJECT, WHAT under "History:"; empty without events.
[[nodiscard]] std::string HistoryText(const std::vector<api::Event>& events, const Look& look);

// Names to the left, values to the right of them; those without a value are left out.
using Facts = std::vector<std::pair<std::string_view, std::string>>;
[[nodiscard]] std::string FactsText(const Facts& facts);
[[nodiscard]] Facts FactsOf(const api::GroupStatus& status);
[[nodiscard]] Facts FactsOf(const api::Instance& instance, Timestamp now);

// One line without its newline: "14:05:10  dc1-zone-a  workers  knd...  registered  reason: text".
[[nodiscard]] std::string EventLine(const std::string& shard, const api::Event& event,
                                    const Look& look);
// What happened, in short: phase, reason, message.
[[nodiscard]] std::string EventText(const api::Event& event);

}  // namespace nstance::admin
