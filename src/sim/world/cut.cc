#include "sim/world/cut.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/number.h"

namespace nstance::sim {
namespace {

constexpr int kMostServers = 9;  // Their names keep the order of their numbers.
constexpr int kMostInstances = 10'000;
constexpr int kMostSteps = 10'000;

struct NumberPart {
  std::string_view name;
  std::optional<int> Cut::* member;
  int least;
  int most;
};
constexpr std::array kNumbers = {
    NumberPart{"a", &Cut::servers_a, 1, kMostServers},
    NumberPart{"b", &Cut::servers_b, 0, kMostServers},
    NumberPart{"workers", &Cut::workers, 0, kMostInstances},
    NumberPart{"api", &Cut::api, 0, kMostInstances},
    NumberPart{"edge", &Cut::edge, 0, kMostInstances},
    NumberPart{"steps", &Cut::steps_per_turn, 1, kMostSteps},
};

struct TimePart {
  std::string_view name;
  std::optional<Duration> Cut::* member;
  bool may_be_zero;
};
constexpr std::array kTimes = {
    TimePart{"hostile", &Cut::hostile, false}, TimePart{"window", &Cut::consistency_window, true},
    TimePart{"age", &Cut::eligible_age, true}, TimePart{"drain", &Cut::drain_timeout, true},
    TimePart{"life", &Cut::agent_life, false},
};

std::vector<std::string_view> Parts(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(',');
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Status Wrong(std::string_view part, std::string_view allowed) {
  return Fail(InvalidArgument(fmt::format("--cut: \"{}\": {}", part, allowed)));
}

Result<Duration> ParseTime(std::string_view part, std::string_view value, bool may_be_zero) {
  const Result<Duration> time = ParseDuration(value);
  const Duration least = may_be_zero ? Duration() : Duration::Nanoseconds(1);
  if (time.has_value() && *time >= least) return time;
  const std::string_view bound = may_be_zero ? "0s or more" : "above 0s";
  return Fail(InvalidArgument(
      fmt::format("--cut: \"{}\": takes a length of time, {}, such as 1m30s", part, bound)));
}

Status ParsePart(std::string_view part, Cut& cut) {
  const std::size_t at = part.find('=');
  if (at == std::string_view::npos) return Wrong(part, "is no name=value");
  const std::string_view name = part.substr(0, at);
  const std::string_view value = part.substr(at + 1);
  for (const NumberPart& known : kNumbers) {
    if (name != known.name) continue;
    const auto number = ParseNumber<int>(value);
    if (!number || *number < known.least || *number > known.most) {
      return Wrong(part, fmt::format("takes a number from {} to {}", known.least, known.most));
    }
    cut.*known.member = number;
    return {};
  }
  for (const TimePart& known : kTimes) {
    if (name != known.name) continue;
    ASSIGN_OR_RETURN(cut.*known.member, ParseTime(part, value, known.may_be_zero));
    return {};
  }
  if (name == "disks") {
    if (value != "0") return Wrong(part, "takes 0 only");
    cut.no_disks = true;
    return {};
  }
  const auto event = ParseNumber<std::size_t>(name);
  if (!event) {
    return Wrong(
        part,
        "names none of a, b, workers, api, edge, steps, hostile, window, age, drain, life, "
        "disks, nor the number of an event");
  }
  ASSIGN_OR_RETURN(cut.lengths[*event], ParseTime(part, value, true));
  return {};
}

void ApplyToSetting(const Cut& cut, Setting& setting) {
  setting.servers_a = cut.servers_a.value_or(setting.servers_a);
  setting.servers_b = cut.servers_b.value_or(setting.servers_b);
  setting.workers = cut.workers.value_or(setting.workers);
  setting.api = cut.api.value_or(setting.api);
  setting.edge = cut.edge.value_or(setting.edge);
  setting.consistency_window = cut.consistency_window.value_or(setting.consistency_window);
  setting.eligible_age = cut.eligible_age.value_or(setting.eligible_age);
  setting.drain_timeout = cut.drain_timeout.value_or(setting.drain_timeout);
  setting.agent_life = cut.agent_life.value_or(setting.agent_life);
  if (cut.steps_per_turn) setting.steps_per_turn = static_cast<std::size_t>(*cut.steps_per_turn);
  if (cut.no_disks) setting.database_seed = 0;
}

}  // namespace

Result<Scenario> Apply(const Cut& cut, const Scenario& drawn) {
  Scenario left = drawn;
  const auto missing = [&](std::string_view flag, std::size_t event) {
    return Fail(InvalidArgument(fmt::format("{}: seed {} has {} events, from 0; there is no {}",
                                            flag, drawn.seed, drawn.events.size(), event)));
  };
  for (const auto& [event, length] : cut.lengths) {
    if (event >= left.events.size()) return missing("--cut", event);
    left.events[event].length = length;
  }
  if (cut.keep) {
    std::vector<Event> kept;
    kept.reserve(cut.keep->size());
    for (const std::size_t event : *cut.keep) {
      if (event >= left.events.size()) return missing("--keep", event);
      kept.push_back(left.events[event]);
    }
    left.events = std::move(kept);
  }
  left.hostile = cut.hostile.value_or(left.hostile);
  ApplyToSetting(cut, left.setting);
  return left;
}

Result<std::vector<std::size_t>> ParseKeep(std::string_view text) {
  std::vector<std::size_t> events;
  if (text == "none") return events;
  for (const std::string_view part : Parts(text)) {
    const auto event = ParseNumber<std::size_t>(part);
    if (!event) {
      return Fail(InvalidArgument(fmt::format(
          "--keep: \"{}\" is no number; it takes numbers with commas, or \"none\"", part)));
    }
    events.push_back(*event);
  }
  return events;
}

Status ParseCut(std::string_view text, Cut& cut) {
  for (const std::string_view part : Parts(text)) RETURN_IF_ERROR(ParsePart(part, cut));
  return {};
}

std::string FormatCut(const Cut& cut) {
  std::vector<std::string> parts;
  for (const NumberPart& part : kNumbers) {
    if (cut.*part.member) parts.push_back(fmt::format("{}={}", part.name, *(cut.*part.member)));
  }
  for (const TimePart& part : kTimes) {
    if (!(cut.*part.member)) continue;
    parts.push_back(fmt::format("{}={}", part.name, FormatDuration(*(cut.*part.member))));
  }
  if (cut.no_disks) parts.emplace_back("disks=0");
  for (const auto& [event, length] : cut.lengths) {
    parts.push_back(fmt::format("{}={}", event, FormatDuration(length)));
  }
  std::string flags;
  if (cut.keep) {
    flags +=
        cut.keep->empty() ? " --keep none" : fmt::format(" --keep {}", fmt::join(*cut.keep, ","));
  }
  if (!parts.empty()) flags += fmt::format(" --cut {}", fmt::join(parts, ","));
  return flags;
}

}  // namespace nstance::sim
