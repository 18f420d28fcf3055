#include "admin/shard/views.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "admin/printable.h"
#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

std::string Pairs(const std::map<std::string, std::string>& pairs) {
  std::vector<std::string> texts;
  texts.reserve(pairs.size());
  for (const auto& [name, value] : pairs) {
    texts.push_back(fmt::format("{}={}", name, value));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string TimeText(const std::optional<Timestamp>& at) {
  return at ? FormatTimestamp(at->TruncatedToSecond()) : "";
}

std::vector<Column> InstanceColumns(Width width) {
  std::vector<Column> columns = {{"SHARD"},  {"INSTANCE"}, {"GROUP"}, {"PHASE"},
                                 {"HEALTH"}, {"TYPE"},     {"IP"},    {"AGE", Align::kRight}};
  if (width == Width::kWide) {
    columns.push_back({"AGENT"});
    columns.push_back({"CERT EXPIRES"});
  }
  columns.push_back({"NOTE"});
  return columns;
}

std::vector<Column> GroupColumns(Width width) {
  std::vector<Column> columns = {
      {"SHARD"}, {"GROUP"}, {"SIZE", Align::kRight}, {"TEMPLATE"}, {"STATIC"}};
  if (width == Width::kNormal) return columns;
  for (const char* heading : {"READY", "CREATING", "DRAINING", "WARM", "CLAIMED"}) {
    columns.push_back({heading, Align::kRight});
  }
  columns.push_back({"TYPE"});
  columns.push_back({"POOL"});
  return columns;
}

std::string Subject(const std::string& group, const std::string& instance) {
  return instance.empty() ? group : instance;
}

}  // namespace

Tone ToneOfHealth(const api::Instance& instance) {
  if (instance.health == "healthy") return Tone::kGood;
  if (instance.health == "unknown" || instance.health.empty()) return Tone::kDim;
  return instance.health == "late" ? Tone::kBusy : Tone::kBad;
}

Tone ToneOfPhase(api::InstancePhase phase) {
  switch (phase) {
    case api::InstancePhase::kRegistered: return Tone::kGood;
    case api::InstancePhase::kIntended:
    case api::InstancePhase::kCreating:
    case api::InstancePhase::kProvisioned:
    case api::InstancePhase::kDraining:
    case api::InstancePhase::kDeleting: return Tone::kBusy;
    case api::InstancePhase::kFailed: return Tone::kBad;
    default: return Tone::kDim;
  }
}

std::string NoteOf(const api::Instance& instance, Timestamp now) {
  std::vector<std::string> notes;
  if (!instance.reason.empty()) {
    notes.push_back(instance.delete_at ? fmt::format("{}, {} left", instance.reason,
                                                     Age(*instance.delete_at - now))
                                       : instance.reason);
  } else if (instance.delete_at) {
    notes.push_back(Age(*instance.delete_at - now) + " left");
  }
  if (!instance.claim_request_id.empty()) {
    notes.push_back("claimed as " + instance.claim_request_id);
  }
  if (instance.on_demand) notes.emplace_back("on demand");
  if (instance.drifted) notes.emplace_back("drifted");
  return fmt::format("{}", fmt::join(notes, "; "));
}

std::string IpOf(const api::Instance& instance) {
  return instance.private_ipv4.empty() ? instance.private_ipv6 : instance.private_ipv4;
}

InstanceTable::InstanceTable(Width width, Look look)
    : width_(width), look_(look), table_(InstanceColumns(width)) {}

void InstanceTable::Add(const std::string& shard, const api::Instance& instance) {
  std::vector<Cell> row = {
      shard,
      instance.instance_id,
      instance.group,
      Cell(std::string(PhaseWord(instance.phase)), ToneOfPhase(instance.phase)),
      Cell(instance.health, ToneOfHealth(instance)),
      instance.instance_type,
      IpOf(instance),
      AgeSince(instance.created_at, look_.now)};
  if (width_ == Width::kWide) {
    row.emplace_back(instance.agent_version);
    row.emplace_back(TimeText(instance.cert_expires_at));
  }
  row.emplace_back(NoteOf(instance, look_.now));
  table_.Add(std::move(row));
}

GroupTable::GroupTable(Width width, Look look)
    : width_(width), look_(look), table_(GroupColumns(width)) {}

void GroupTable::Add(const std::string& shard, const api::GroupStatus& status) {
  std::vector<Cell> row = {shard, status.key, std::to_string(status.size), status.template_name,
                           status.is_static ? std::string("yes") : std::string("no")};
  if (width_ == Width::kWide) {
    const bool full = status.ready >= status.size;
    row.emplace_back(std::to_string(status.ready), full ? Tone::kGood : Tone::kBusy);
    for (const std::int32_t count :
         {status.creating, status.draining, status.warm, status.claimed}) {
      row.emplace_back(std::to_string(count));
    }
    row.emplace_back(status.instance_type);
    row.emplace_back(status.subnet_pool);
  }
  table_.Add(std::move(row));
}

std::string ActionsText(const std::vector<api::Action>& actions, const Look& look) {
  if (actions.empty()) return "";
  Table table({{"PRIORITY", Align::kRight}, {"ACTION"}, {"INSTANCE"}, {"REASON"}, {"DETAIL"}});
  for (const api::Action& action : actions) {
    table.Add({std::to_string(action.priority), action.kind, action.instance_id, action.reason,
               action.detail});
  }
  return table.Text(look.paint);
}

std::string HoldsText(const std::vector<api::Hold>& holds, const Look& look) {
  if (holds.empty()) return "";
  Table table({{"CODE"}, {"SUBJECT"}, {"UNTIL"}, {"DETAIL"}});
  for (const api::Hold& hold : holds) {
    table.Add({Cell(hold.code, Tone::kBusy), Subject(hold.group, hold.instance_id),
               hold.until ? ClockTime(*hold.until, look.now) : std::string(), hold.detail});
  }
  return "Held:\n" + table.Text(look.paint);
}

std::string PlanText(const api::PlanResponse& plan, const Look& look) {
  std::string out = ActionsText(plan.actions, look) + HoldsText(plan.holds, look);
  if (plan.replan_at) {
    out += fmt::format("Next look: {}\n", ClockTime(*plan.replan_at, look.now));
  } else if (plan.actions.empty() && plan.holds.empty()) {
    out += "Nothing to do.\n";
  }
  return out;
}

std::string EventText(const api::Event& event) {
  std::string text;
  if (event.phase != api::InstancePhase::kUnspecified) text += PhaseWord(event.phase);
  if (!event.reason.empty()) text += (text.empty() ? "" : ": ") + Printable(event.reason);
  if (!event.message.empty()) text += (text.empty() ? "" : ": ") + Printable(event.message);
  return text.empty() ? Printable(event.type) : text;
}

std::string HistoryText(const std::vector<api::Event>& events, const Look& look) {
  if (events.empty()) return "";
  Table table({{"TIME"}, {"TYPE"}, {"SUBJECT"}, {"WHAT"}});
  for (const api::Event& event : events) {
    table.Add({event.time ? ClockTime(*event.time, look.now) : std::string(), event.type,
               Subject(event.group, event.instance_id), EventText(event)});
  }
  return "History:\n" + table.Text(look.paint);
}

std::string EventLine(const std::string& shard, const api::Event& event, const Look& look) {
  const std::string time = event.time ? ClockTime(*event.time, look.now) : "-";
  std::string line = fmt::format("{}  {}  {}", time, shard, Printable(event.type));
  for (const std::string& part : {event.group, event.instance_id}) {
    if (!part.empty()) line += "  " + Printable(part);
  }
  const std::string text = EventText(event);
  return text == Printable(event.type) ? line : line + "  " + text;
}

std::string FactsText(const Facts& facts) {
  std::size_t width = 0;
  for (const auto& [name, value] : facts) {
    if (!value.empty()) width = std::max(width, name.size());
  }
  std::string out;
  for (const auto& [name, value] : facts) {
    if (!value.empty()) out += fmt::format("  {:<{}}  {}\n", name, width, Printable(value));
  }
  return out;
}

Facts FactsOf(const api::GroupStatus& status) {
  Facts facts = {{"Size", std::to_string(status.size)},
                 {"Ready", std::to_string(status.ready)},
                 {"Creating", std::to_string(status.creating)},
                 {"Draining", std::to_string(status.draining)}};
  if (status.pool) {
    facts.emplace_back("Warm", std::to_string(status.warm));
    facts.emplace_back("Warming", std::to_string(status.warming));
    facts.emplace_back("Claimed", std::to_string(status.claimed));
  }
  facts.emplace_back("Template", status.template_name);
  facts.emplace_back("Instance type", status.instance_type);
  facts.emplace_back("Subnet pool", status.subnet_pool);
  facts.emplace_back("Draws from", status.draw_from);
  facts.emplace_back("Static", status.is_static ? "yes" : "no");
  facts.emplace_back("Variables", Pairs(status.vars));
  return facts;
}

Facts FactsOf(const api::Instance& instance, Timestamp now) {
  const auto with_age = [&](const std::optional<Timestamp>& at) {
    return at ? fmt::format("{} ({} ago)", TimeText(at), Age(now - *at)) : std::string();
  };
  return {{"Tenant", instance.tenant},
          {"Group", instance.group},
          {"Phase", std::string(PhaseWord(instance.phase))},
          {"Status", instance.status},
          {"Health", instance.health},
          {"Reason", instance.reason},
          {"Delete at", TimeText(instance.delete_at)},
          {"On demand", instance.on_demand ? "yes" : ""},
          {"Drifted", instance.drifted ? "yes" : ""},
          {"Provider id", instance.provider_instance_id},
          {"Instance type", instance.instance_type},
          {"Subnet", instance.subnet_id},
          {"IPv4", instance.private_ipv4},
          {"IPv6", instance.private_ipv6},
          {"Hostname", instance.hostname},
          {"Created", with_age(instance.created_at)},
          {"Registered", with_age(instance.registered_at)},
          {"Last seen", with_age(instance.last_seen)},
          {"Pool", instance.pool},
          {"Member state", instance.member_state},
          {"Claim", instance.claim_request_id},
          {"Claimed", with_age(instance.claimed_at)},
          {"Agent", instance.agent_version},
          {"Certificate ends", TimeText(instance.cert_expires_at)}};
}

}  // namespace nstance::admin
