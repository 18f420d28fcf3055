// nstance-sim: whole shards under faults, one run per seed. docs/simulation.md.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/number.h"
#include "sim/world/cut.h"
#include "sim/world/run.h"
#include "sim/world/shrink.h"
#include "test/sim/sim_bench.h"

namespace nstance::sim {
namespace {

constexpr std::string_view kHelp =
    R"(usage: nstance-sim [--seed N] [--count M] [options]

Runs simulated clusters under faults, one per seed from N on (default 0, one run), and checks the
invariants of the design after every task. A run that violates one is made smaller, and its shortest
form is printed with the command that shows it.

  --seed N         the first seed
  --count M        how many seeds
  --trace          print what happens, line by line (one seed)
  --keep I,J,...   only these events of the scenario (as a failure names them); "none" for none
  --cut a=1,...    smaller than drawn, as a failure says: servers a and b; sizes workers, api and
                   edge; steps of planning in a turn; times hostile, window, age, drain and life; disks=0; lengths of events by
                   number, 19=2s
  --no-shrink      tell of a failure as it is
  --schedule NAME  with this course of faults, or "none", instead of the one that is drawn:
                   lost-answers, clog, pause-at-fence, restart-storm, empty-world
  --liveness       some servers are lost for good, as in one seed of five: the rest must do
  --cell C4.F8     more than half of the faults at steps are this fault at this step
  --plant NAME     with this bug planted
  --plants         list the bugs that can be planted
  --blind I-nn,... without these checkers
  --twice          run every seed twice, compare the traces, and show where they part
  --twice-every N  the same for seeds that N divides
  --json           one JSON object at the end, for programs; failures do not end the runs
  --bench SECONDS  how many simulated seconds a CPU second makes, with 3 servers and 50 agents

Exit code 0: no violation. 1: there was one. 2: the command line is wrong.
)";

struct Options {
  std::uint64_t seed = 0;
  std::uint64_t count = 1;
  bool trace = false;
  bool shrink = true;
  std::uint64_t twice_every = 0;  // Zero: none runs twice.
  bool json = false;
  bool plants = false;
  bool help = false;
  std::optional<std::int64_t> bench_seconds = std::nullopt;
  Cut cut = {};
  ScenarioOptions scenario = {};  // Its seed is not used.
  RunOptions run = {};
};

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// "C4.F8".
Result<std::pair<Step, Fault>> ParseCell(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, '.');
  if (parts.size() == 2 && parts[1].starts_with('F')) {
    const std::optional<Step> step = ParseStep(parts[0]);
    const auto fault = ParseNumber<std::size_t>(parts[1].substr(1));
    if (step && fault && *fault >= 1 && *fault <= kFaults) {
      return std::pair(*step, static_cast<Fault>(*fault));
    }
  }
  return Fail(InvalidArgument(fmt::format("\"{}\" is no cell; one is C4.F8", text)));
}

// One flag with its value. An error says what is allowed.
Status TakeValue(std::string_view flag, std::string_view value, Options& options) {
  const std::map<std::string_view, std::uint64_t*> numbers = {
      {"--seed", &options.seed},
      {"--count", &options.count},
      {"--twice-every", &options.twice_every}};
  if (const auto known = numbers.find(flag); known != numbers.end()) {
    const auto number = ParseNumber<std::uint64_t>(value);
    if (!number) return Fail(InvalidArgument(fmt::format("{} takes a number", flag)));
    *known->second = *number;
  } else if (flag == "--bench") {
    options.bench_seconds = ParseNumber<std::int64_t>(value);
    if (options.bench_seconds.value_or(0) < 1) {
      return Fail(InvalidArgument("--bench takes a number of seconds"));
    }
  } else if (flag == "--keep") {
    ASSIGN_OR_RETURN(options.cut.keep, ParseKeep(value));
  } else if (flag == "--cut") {
    RETURN_IF_ERROR(ParseCut(value, options.cut));
  } else if (flag == "--cell") {
    ASSIGN_OR_RETURN(options.scenario.cell, ParseCell(value));
  } else if (flag == "--schedule") {
    options.scenario.schedule = ParseSchedule(value);
    if (!options.scenario.schedule) {
      return Fail(InvalidArgument(fmt::format("no schedule is called \"{}\"; see --help", value)));
    }
  } else if (flag == "--plant") {
    const std::optional<Plant> plant = ParsePlant(value);
    if (!plant) {
      return Fail(
          InvalidArgument(fmt::format("no bug is called \"{}\"; --plants lists them", value)));
    }
    options.run.plant = *plant;
  } else if (flag == "--blind") {
    for (const std::string_view part : Split(value, ',')) options.run.blind_to.emplace(part);
  } else {
    return Fail(InvalidArgument(fmt::format("unknown flag {}; see --help", flag)));
  }
  return {};
}

Result<Options> ParseCommandLine(const std::vector<std::string_view>& arguments) {
  Options options;
  const std::map<std::string_view, bool*> switches = {{"--trace", &options.trace},
                                                      {"--json", &options.json},
                                                      {"--plants", &options.plants},
                                                      {"--liveness", &options.scenario.liveness},
                                                      {"--help", &options.help}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view flag = arguments[i];
    if (const auto known = switches.find(flag); known != switches.end()) {
      *known->second = true;
    } else if (flag == "--no-shrink") {
      options.shrink = false;
    } else if (flag == "--twice") {
      options.twice_every = 1;
    } else if (i + 1 == arguments.size()) {
      return Fail(InvalidArgument(fmt::format("unknown flag, or no value after {}", flag)));
    } else {
      RETURN_IF_ERROR(TakeValue(flag, arguments[++i], options));
    }
  }
  options.run.trace = options.trace;
  return options;
}

Result<Scenario> ScenarioOf(std::uint64_t seed, const Options& options) {
  ScenarioOptions drawn = options.scenario;
  drawn.seed = seed;
  return Apply(options.cut, DrawScenario(drawn));
}

// Flags that a run needs besides its seed.
std::string ExtraFlags(const Options& options) {
  std::string flags;
  if (options.scenario.schedule) {
    flags += fmt::format(" --schedule {}", ScheduleName(*options.scenario.schedule));
  }
  if (options.scenario.liveness) flags += " --liveness";
  if (options.scenario.cell) {
    const auto [step, fault] = *options.scenario.cell;
    flags += fmt::format(" --cell {}.{}", StepName(step), FaultName(fault));
  }
  if (options.run.plant != Plant::kNone) {
    flags += fmt::format(" --plant {}", PlantName(options.run.plant));
  }
  if (!options.run.blind_to.empty()) {
    flags += fmt::format(" --blind {}", fmt::join(options.run.blind_to, ","));
  }
  return flags;
}

// Two runs of the seed differ (I-45): where they part, with what both had before.
void PrintDifference(const Scenario& scenario, const Options& options) {
  constexpr std::size_t kLinesBefore = 10;
  RunOptions traced = options.run;
  traced.trace = true;
  const RunReport one = RunScenario(scenario, traced);
  const RunReport other = RunScenario(scenario, traced);
  fmt::print("seed {} violates I-45: two runs of it differ ({} and {} tasks)\n", scenario.seed,
             one.tasks, other.tasks);
  const auto [first, second] = std::ranges::mismatch(one.timeline, other.timeline);
  const auto at = static_cast<std::size_t>(first - one.timeline.begin());
  for (std::size_t i = at - std::min(at, kLinesBefore); i < at; ++i) {
    fmt::print("  both   {}\n", one.timeline[i]);
  }
  if (first != one.timeline.end()) fmt::print("  first  {}\n", *first);
  if (second != other.timeline.end()) fmt::print("  second {}\n", *second);
  if (first == one.timeline.end() && second == other.timeline.end()) {
    fmt::print("the timelines are the same{}\n",
               one.trace_hash == other.trace_hash ? ", and so are the traces this time" : "");
  }
  fmt::print("nstance-sim --seed {}{}{} --twice\n", scenario.seed, FormatCut(options.cut),
             ExtraFlags(options));
}

// Over the line before, on a terminal: making a failure smaller takes a minute.
void PrintProgress(const Shrunk& so_far) {
  if (isatty(STDERR_FILENO) == 0) return;
  const Setting& setting = so_far.scenario.setting;
  fmt::print(stderr, "\r\033[K{} runs: {} events, {} servers, {} instances\r", so_far.runs,
             so_far.scenario.events.size(), setting.servers_a + setting.servers_b,
             setting.workers + setting.api + setting.edge);
}

// What was given on the command line is shown as it is.
void PrintFailure(const Scenario& scenario, const Options& options) {
  constexpr int kMostRuns = 250;
  RunOptions quiet = options.run;
  quiet.trace = false;
  const bool as_it_is = !options.shrink || options.cut != Cut();
  const Shrunk shrunk =
      Shrink(scenario, quiet, {.most_runs = as_it_is ? 1 : kMostRuns, .told = PrintProgress});
  if (!shrunk.report.violation) return PrintDifference(scenario, options);
  const Violation& violation = *shrunk.report.violation;
  fmt::print("seed {} violates {} at {}: {}\n", scenario.seed, violation.invariant,
             FormatDuration(violation.at), violation.what);
  const Setting& setting = shrunk.scenario.setting;
  fmt::print(
      "{} of {} events are needed ({} runs to find out), {}+{} servers, {}+{}+{} instances, "
      "{} of faults:\n",
      shrunk.scenario.events.size(), scenario.events.size(), shrunk.runs, setting.servers_a,
      setting.servers_b, setting.workers, setting.api, setting.edge,
      FormatDuration(shrunk.scenario.hostile));
  for (const Event& event : shrunk.scenario.events) fmt::print("  {}\n", Describe(event));
  fmt::print("nstance-sim --seed {}{}{} --trace\n", scenario.seed,
             FormatCut(as_it_is ? options.cut : shrunk.cut), ExtraFlags(options));
}

// All runs together.
struct Totals {
  std::uint64_t runs = 0;
  std::uint64_t tasks = 0;
  Duration simulated = {};
  Cells cells = {};
  std::set<std::string> reached = {};
  json::Array failures = {};
  json::Array trace_hashes = {};  // In the order of the seeds.

  void Add(std::uint64_t seed, const RunReport& report) {
    ++runs;
    trace_hashes.push_back(json::Value::String(fmt::format("{:016x}", report.trace_hash)));
    tasks += report.tasks;
    simulated = simulated + report.simulated;
    reached.insert(report.reached.begin(), report.reached.end());
    for (std::size_t s = 0; s < cells.size(); ++s) {
      for (std::size_t f = 0; f < cells[s].size(); ++f) cells[s][f] += report.cells[s][f];
    }
    if (!report.violation) return;
    json::Value failure = json::Value::Map({});
    failure.Set("seed", json::Value::Integer(static_cast<std::int64_t>(seed)));
    failure.Set("invariant", json::Value::String(report.violation->invariant));
    failure.Set("what", json::Value::String(report.violation->what));
    failures.push_back(std::move(failure));
  }

  void Print() const {
    json::Value all = json::Value::Map({});
    all.Set("runs", json::Value::Integer(static_cast<std::int64_t>(runs)));
    all.Set("tasks", json::Value::Integer(static_cast<std::int64_t>(tasks)));
    all.Set("simulated_s", json::Value::Integer(simulated.nanoseconds() / 1'000'000'000));
    json::Value hits = json::Value::Map({});
    for (std::size_t s = 1; s < cells.size(); ++s) {
      for (std::size_t f = 1; f < cells[s].size(); ++f) {
        if (cells[s][f] == 0) continue;
        hits.Set(fmt::format("{}.F{}", StepName(static_cast<Step>(s)), f),
                 json::Value::Integer(static_cast<std::int64_t>(cells[s][f])));
      }
    }
    all.Set("cells", std::move(hits));
    json::Array marks;
    for (const std::string& mark : reached) marks.push_back(json::Value::String(mark));
    all.Set("reached", json::Value::List(std::move(marks)));
    all.Set("failures", json::Value::List(failures));
    all.Set("trace_hashes", json::Value::List(trace_hashes));
    fmt::print("{}\n", json::Write(all));
  }
};

// The run of one seed, and whether a second one is the same if that is asked for.
RunReport RunSeed(const Scenario& scenario, const Options& options) {
  RunReport report = RunScenario(scenario, options.run);
  for (const std::string& line : report.timeline) fmt::print("{}\n", line);
  const bool twice = options.twice_every > 0 && scenario.seed % options.twice_every == 0;
  if (twice && !report.violation &&
      RunScenario(scenario, options.run).trace_hash != report.trace_hash) {
    report.violation = {.invariant = "I-45", .what = "two runs of the seed differ"};
  }
  return report;
}

int Run(const Options& options) {
  Totals totals;
  int exit_code = 0;
  for (std::uint64_t seed = options.seed; seed < options.seed + options.count; ++seed) {
    const Result<Scenario> scenario = ScenarioOf(seed, options);
    if (!scenario.has_value()) {
      fmt::print(stderr, "nstance-sim: {}\n", scenario.error().message);
      return 2;
    }
    const RunReport report = RunSeed(*scenario, options);
    totals.Add(seed, report);
    if (!report.violation) continue;
    exit_code = 1;
    if (options.json) continue;
    PrintFailure(*scenario, options);
    break;
  }
  if (options.json) {
    totals.Print();
  } else {
    fmt::print("{} runs, {} simulated, {} tasks\n", totals.runs, FormatDuration(totals.simulated),
               totals.tasks);
  }
  return exit_code;
}

int Bench(std::int64_t seconds) {
  const Result<BenchResult> result = RunBench(Duration::Seconds(seconds));
  if (!result.has_value()) {
    fmt::print(stderr, "nstance-sim: {}\n", result.error().message);
    return 1;
  }
  PrintBench(*result);
  return 0;
}

}  // namespace
}  // namespace nstance::sim

int main(int argc, char** argv) {
  using nstance::sim::Options;
  const nstance::Result<Options> options = nstance::sim::ParseCommandLine({argv + 1, argv + argc});
  if (!options.has_value()) {
    fmt::print(stderr, "nstance-sim: {}\n", options.error().message);
    return 2;
  }
  if (options->help) {
    fmt::print("{}", nstance::sim::kHelp);
    return 0;
  }
  if (options->plants) {
    for (const nstance::Plant plant : nstance::kPlants) {
      fmt::print("{}\n", nstance::PlantName(plant));
    }
    return 0;
  }
  if (options->bench_seconds) return nstance::sim::Bench(*options->bench_seconds);
  return nstance::sim::Run(*options);
}
