#include "sim/world/scenario.h"

#include <algorithm>
#include <iterator>
#include <span>

#include <fmt/format.h>

#include "base/prng.h"
#include "base/text.h"
#include "sim/world/occasions.h"
#include "sim/world/required_cells.h"
#include "sim/world/schedule.h"

namespace nstance::sim {
namespace {

constexpr std::array<std::string_view, kEventKinds> kEventNames = {
    "kill-server",   "stop-server",     "restart-storm",   "pause-server",    "jump-wall",
    "clock-rate",    "lose-server",     "restore-server",  "worn-lease",      "pause-at-log",
    "unlisted-heir", "lose-cache",      "store-faults",    "provider-faults", "cut-store",
    "cut-provider",  "cut-agents",      "cut-operator",    "empty-world",     "two-vms",
    "reuse-ids",     "shortage",        "touch-lease",     "blink",           "late-creation",
    "no-capacity",   "cloud-lies",      "at-step",         "kill-vm",         "kill-agent",
    "hang-agent",    "jump-agent",      "rogue-vm",        "agent-storm",     "clone-vm",
    "two-hang",      "reset-disk",      "spot-notice",     "upsert-group",    "scale-group",
    "delete-group",  "create-instance", "delete-instance", "edit-config",     "refresh-config",
    "operator-mood", "deny-identity",   "rename-template", "broken-config",   "great-shrink",
    "same-request",  "change-bundle",
};

constexpr std::array<std::string_view, kSchedules + 1> kScheduleNames = {
    "none", "lost-answers", "clog", "pause-at-fence", "restart-storm", "empty-world"};

// How often each kind happens at most, in a run that has it.
struct Share {
  EventKind kind;
  std::int64_t most;
  std::int64_t shortest_s;
  std::int64_t longest_s;
};
constexpr std::array kShares = {
    Share{EventKind::kKillServer, 4, 1, 60},       Share{EventKind::kStopServer, 2, 1, 60},
    Share{EventKind::kRestartStorm, 1, 1, 8},      Share{EventKind::kPauseServer, 3, 1, 120},
    Share{EventKind::kJumpWall, 2, 0, 0},          Share{EventKind::kClockRate, 1, 10, 300},
    Share{EventKind::kLoseCache, 2, 0, 0},         Share{EventKind::kStoreFaults, 3, 10, 240},
    Share{EventKind::kProviderFaults, 3, 10, 240}, Share{EventKind::kCutStore, 2, 2, 60},
    Share{EventKind::kCutProvider, 2, 5, 120},     Share{EventKind::kCutAgents, 2, 5, 120},
    Share{EventKind::kCutOperator, 1, 5, 120},     Share{EventKind::kCloudLies, 2, 10, 120},
    Share{EventKind::kAtStep, 8, 1, 60},           Share{EventKind::kKillVm, 4, 0, 0},
    Share{EventKind::kKillAgent, 4, 1, 30},        Share{EventKind::kHangAgent, 3, 10, 200},
    Share{EventKind::kJumpAgent, 2, 0, 0},         Share{EventKind::kRogueVm, 1, 0, 0},
    Share{EventKind::kUpsertGroup, 4, 0, 0},       Share{EventKind::kScaleGroup, 6, 0, 0},
    Share{EventKind::kDeleteGroup, 2, 0, 0},       Share{EventKind::kCreateInstance, 4, 0, 0},
    Share{EventKind::kDeleteInstance, 4, 0, 0},    Share{EventKind::kEditConfig, 3, 0, 0},
    Share{EventKind::kRefreshConfig, 2, 0, 0},     Share{EventKind::kMoodOfOperator, 3, 0, 0},
    Share{EventKind::kDenyIdentity, 1, 0, 0},
};
// Those of schedules, occasions and what else is drawn apart.
constexpr std::size_t kNotShared = 23;
static_assert(kShares.size() + kNotShared == kEventKinds);

// Steps that pass often, rarely, or once in a leadership need numbers of their own size.
std::uint32_t DrawPassing(Prng& prng) {
  switch (prng.Below(3)) {
    case 0: return 1 + static_cast<std::uint32_t>(prng.Below(3));
    case 1: return 1 + static_cast<std::uint32_t>(prng.Below(20));
    default: return 1 + static_cast<std::uint32_t>(prng.Below(120));
  }
}

Setting DrawSetting(Prng& prng) {
  Setting setting;
  setting.servers_a = static_cast<int>(prng.Between(2, 3));
  setting.servers_b = static_cast<int>(prng.Between(1, 2));
  setting.workers = static_cast<int>(prng.Between(3, 14));
  setting.api = static_cast<int>(prng.Between(1, 8));
  setting.edge = static_cast<int>(prng.Between(1, 6));
  setting.consistency_window = Duration::Seconds(prng.Chance(1, 2) ? 15 : 0);
  if (prng.Chance(1, 4)) setting.eligible_age = Duration::Minutes(prng.Between(3, 8));
  if (prng.Chance(1, 4)) setting.drain_timeout = Duration();
  // Renewals cost signatures; not every run has to spend its time on them.
  setting.agent_life = prng.Chance(1, 4) ? Duration::Minutes(15) : Duration::Hours(2);
  return setting;
}

Event DrawEvent(const Share& share, const ScenarioOptions& options, Duration hostile, Prng& prng) {
  Event event{.kind = share.kind,
              .at = prng.UpTo(hostile),
              .length = Duration::Seconds(share.shortest_s) +
                        prng.UpTo(Duration::Seconds(share.longest_s - share.shortest_s)),
              .draw = prng.Next()};
  if (share.kind != EventKind::kAtStep) return event;
  event.step = static_cast<Step>(1 + prng.Below(kStepCount));
  event.fault = static_cast<Fault>(1 + prng.Below(kFaults));
  if (options.cell && prng.Chance(1, 2)) {
    event.step = options.cell->first;
    event.fault = options.cell->second;
  }
  event.passing = DrawPassing(prng);
  return event;
}

Event DrawCell(std::pair<Step, Fault> cell, Prng& prng) {
  return {.kind = EventKind::kAtStep,
          .length = Duration::Seconds(1) + prng.UpTo(Duration::Seconds(59)),
          .draw = prng.Next(),
          .step = cell.first,
          // Most of the steps are passed a few times in a run.
          .passing =
              prng.Chance(1, 2) ? 1 + static_cast<std::uint32_t>(prng.Below(2)) : DrawPassing(prng),
          .fault = cell.second,
          .insists = true};
}

bool IsOfRenewal(Step step) { return step >= Step::kW1 && step <= Step::kW8; }

// With the occasion that some steps need: a certificate that ends soon, a write that lost.
void AddCell(Scenario& scenario, std::pair<Step, Fault> cell, Prng& prng) {
  scenario.events.push_back(DrawCell(cell, prng));
  if (IsOfRenewal(cell.first)) scenario.setting.agent_life = Duration::Minutes(15);
  if (cell.first != Step::kG3) return;
  scenario.events.push_back(DrawCell({Step::kG4, Fault::kF5}, prng));
}

// Some of the cells that runs have to hit, each as likely as the others: in a third of the seeds.
void AddCells(Scenario& scenario, Prng& prng) {
  if (!prng.Chance(1, 3)) return;
  for (std::int64_t count = prng.Between(8, 24); count > 0; --count) {
    AddCell(scenario, RequiredCells().at(prng.Below(RequiredCells().size())), prng);
  }
}

// Of the shard's servers, whose numbers begin with `first`, all but one may be lost for good.
std::vector<Event> DrawLosses(std::size_t first, int servers, Duration hostile, Prng& prng) {
  std::vector<std::size_t> machines;
  machines.reserve(static_cast<std::size_t>(servers));
  for (int i = 0; i < servers; ++i) machines.push_back(first + static_cast<std::size_t>(i));
  prng.Shuffle(std::span(machines));
  machines.resize(static_cast<std::size_t>(prng.Between(servers > 1 ? 1 : 0, servers - 1)));
  std::vector<Event> events;
  events.reserve(machines.size());
  for (const std::size_t machine : machines) {
    events.push_back({.kind = EventKind::kLoseServer,
                      .at = prng.UpTo(hostile),
                      .draw = prng.Next(),
                      .machine = machine});
  }
  return events;
}

// In one seed of eight.
void AddRestores(Scenario& scenario, Prng& prng) {
  if (!prng.Chance(1, 8)) return;
  for (std::int64_t count = prng.Between(1, 4); count > 0; --count) {
    // Sooner than others notice, or when somebody else has led for long.
    const Duration longest = prng.Chance(1, 2) ? scenario.setting.lease : Duration::Minutes(3);
    scenario.events.push_back({.kind = EventKind::kRestoreServer,
                               .at = prng.UpTo(scenario.hostile),
                               .length = Duration::Milliseconds(100) + prng.UpTo(longest),
                               .draw = prng.Next()});
  }
}

// In one seed of eight.
void AddTwins(Scenario& scenario, Prng& prng) {
  if (!prng.Chance(1, 8)) return;
  for (const EventKind kind : {EventKind::kTwoVms, EventKind::kReuseIds, EventKind::kCloneVm}) {
    for (std::int64_t count = prng.Between(0, 2); count > 0; --count) {
      scenario.events.push_back({.kind = kind,
                                 .at = prng.UpTo(scenario.hostile * 2 / 3),
                                 .length = Duration::Minutes(1) + prng.UpTo(Duration::Minutes(4)),
                                 .draw = prng.Next()});
    }
  }
  // Clones meet when they renew.
  if (prng.Chance(3, 4)) scenario.setting.agent_life = Duration::Minutes(15);
}

// What other events hardly ever bring about: in one seed of six.
void AddRarities(Scenario& scenario, Prng& prng) {
  if (!prng.Chance(1, 6)) return;
  for (const EventKind kind :
       {EventKind::kShortage, EventKind::kTouchLease, EventKind::kRenameTemplate}) {
    if (!prng.Chance(1, 2)) continue;
    scenario.events.push_back({.kind = kind,
                               .at = prng.UpTo(scenario.hostile * 2 / 3),
                               .length = Duration::Minutes(2) + prng.UpTo(Duration::Minutes(4)),
                               .draw = prng.Next()});
  }
}

// In one seed of ten.
void AddHeirs(Scenario& scenario, Prng& prng) {
  if (!prng.Chance(1, 10)) return;
  for (std::int64_t count = prng.Between(2, 4); count > 0; --count) {
    scenario.events.push_back({.kind = EventKind::kUnlistedHeir,
                               .at = prng.UpTo(scenario.hostile * 2 / 3),
                               .length = Duration::Minutes(1) + prng.UpTo(Duration::Minutes(2)),
                               .draw = prng.Next()});
  }
}

// In one seed of six. Running servers look every ten minutes, so the first one is early.
std::vector<Event> DrawBundles(Duration hostile, Prng& prng) {
  std::vector<Event> events;
  if (!prng.Chance(1, 6)) return events;
  for (std::int64_t changes = prng.Between(1, 3); changes > 0; --changes) {
    events.push_back({.kind = EventKind::kChangeBundle,
                      .at = prng.UpTo(events.empty() ? hostile / 3 : hostile),
                      .draw = prng.Next()});
  }
  return events;
}

// In one seed of five, each as often as the others.
Schedule DrawsSchedule(Prng& prng) {
  if (!prng.Chance(1, 5)) return Schedule::kNone;
  return static_cast<Schedule>(1 + prng.Below(kSchedules));
}

}  // namespace

std::string_view EventName(EventKind kind) {
  return kEventNames.at(static_cast<std::size_t>(kind));
}

std::string FaultName(Fault fault) { return fmt::format("F{}", static_cast<int>(fault)); }

std::string_view ScheduleName(Schedule schedule) {
  return kScheduleNames.at(static_cast<std::size_t>(schedule));
}

std::optional<Schedule> ParseSchedule(std::string_view name) {
  const auto at = std::ranges::find(kScheduleNames, name);
  if (at == kScheduleNames.end()) return std::nullopt;
  return static_cast<Schedule>(at - kScheduleNames.begin());
}

std::string Describe(const Event& event) {
  std::string text;
  if (event.kind == EventKind::kAtStep) {
    text = fmt::format("{}.{} at passing {}{}", StepName(event.step), FaultName(event.fault),
                       event.passing, event.insists ? " or later" : "");
  } else {
    text = fmt::format("{} at {}", EventName(event.kind), FormatDuration(event.at));
  }
  if (event.machine) text += fmt::format(" on machine {}", *event.machine);
  if (event.length > Duration()) text += " for " + FormatDuration(event.length);
  return text;
}

Scenario DrawScenario(const ScenarioOptions& options) {
  Prng prng(options.seed ^ 0x5EEDC0DE5EEDC0DEU);
  Scenario scenario{.seed = options.seed};
  scenario.setting = DrawSetting(prng);
  scenario.hostile = Duration::Minutes(15);
  for (const Share& share : kShares) {
    const bool wanted = share.kind == EventKind::kAtStep && options.cell.has_value();
    if (!prng.Chance(1, 2) && !wanted) continue;
    const std::int64_t count = prng.Between(1, share.most);
    for (std::int64_t i = 0; i < count; ++i) {
      scenario.events.push_back(DrawEvent(share, options, scenario.hostile, prng));
    }
  }
  std::ranges::stable_sort(scenario.events, {}, &Event::at);
  // Apart from all else: a quarter of the runs, which are the same runs but for their disks.
  Prng disks(options.seed ^ 0xD15C0000D15C0000U);
  if (disks.Chance(1, 4)) scenario.setting.database_seed = 1 + (disks.Next() >> 1);
  // And a few plan so little in one turn that what is due takes several.
  Prng turns(options.seed ^ 0x7042500170425001U);
  if (turns.Chance(1, 6)) scenario.setting.steps_per_turn = 1 + turns.Below(30);
  // So are these. The first five seeds of test/sim/regress.tsv draw none of them.
  Prng schedules(options.seed ^ 0x5C8ED01E5C8ED01EU);
  const Schedule drawn = DrawsSchedule(schedules);
  scenario.schedule = options.schedule.value_or(drawn);
  std::ranges::move(DrawSchedule(scenario, schedules), std::back_inserter(scenario.events));
  Prng cells(options.seed ^ 0xCE112000CE112000U);
  AddCells(scenario, cells);
  for (int i = 0; i < 4 && options.cell; ++i) AddCell(scenario, *options.cell, cells);
  Prng losses(options.seed ^ 0x11FE000011FE0000U);
  if (losses.Chance(1, 5) || options.liveness) {
    const auto a = static_cast<std::size_t>(scenario.setting.servers_a);
    for (const auto& [first, servers] : {std::pair(std::size_t{0}, scenario.setting.servers_a),
                                         std::pair(a, scenario.setting.servers_b)}) {
      std::ranges::move(DrawLosses(first, servers, scenario.hostile, losses),
                        std::back_inserter(scenario.events));
    }
  }
  Prng bundles(options.seed ^ 0xB0D1E000B0D1E000U);
  std::ranges::move(DrawBundles(scenario.hostile, bundles), std::back_inserter(scenario.events));
  Prng occasions(options.seed ^ 0x0CCA510000CCA510U);
  std::ranges::move(DrawOccasions(scenario, occasions), std::back_inserter(scenario.events));
  Prng restores(options.seed ^ 0x5A7ED00D5A7ED00DU);
  AddRestores(scenario, restores);
  Prng twins(options.seed ^ 0x7314500073145000U);
  AddTwins(scenario, twins);
  Prng rarities(options.seed ^ 0x0CCA51040CCA5104U);
  AddRarities(scenario, rarities);
  // The seeds of test/sim/regress.tsv draw none of these.
  Prng heirs(options.seed ^ 0x4E1200C94E120000U);
  AddHeirs(scenario, heirs);
  return scenario;
}

}  // namespace nstance::sim
