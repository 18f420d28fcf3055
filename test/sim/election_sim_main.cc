// Runs the election simulation over many seeds.
//
//   election_sim_main [--seeds N] [--from S] [--plant BUG] [--trace]
//
// Prints what was reached and exits with 1 at the first violation, with the command that replays it.
// With --plant a bug is planted and the first seed that finds it is printed; exit 1 if none does.
#include <charconv>
#include <cstdio>
#include <string_view>

#include <fmt/core.h>

#include "test/sim/election_sim.h"

namespace nstance::sim {
namespace {

struct Arguments {
  std::uint64_t seeds = 1'000;
  std::uint64_t from = 0;
  Plant plant = Plant::kNone;
  ElectionOptions::Trace trace = ElectionOptions::Trace::kOff;
};

bool ReadNumber(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool Read(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--trace") {
      arguments.trace = ElectionOptions::Trace::kOn;
      continue;
    }
    const std::string_view value = i + 1 < argc ? argv[++i] : "";
    if (flag == "--seeds") {
      if (!ReadNumber(value, arguments.seeds)) return false;
    } else if (flag == "--from") {
      if (!ReadNumber(value, arguments.from)) return false;
    } else if (flag == "--plant") {
      const auto plant = ParsePlant(value);
      if (!plant) return false;
      arguments.plant = *plant;
    } else {
      return false;
    }
  }
  return true;
}

int Run(const Arguments& arguments) {
  ElectionReport sum;
  for (std::uint64_t i = 0; i < arguments.seeds; ++i) {
    const ElectionOptions options{
        .seed = arguments.from + i, .plant = arguments.plant, .trace = arguments.trace};
    const ElectionReport report = RunElection(options);
    for (const std::string& line : report.trace) fmt::print("{}\n", line);
    if (report.violation) {
      fmt::print("seed {} (number {}): {}\nreplay: {}\n", options.seed, i + 1, *report.violation,
                 ReplayCommand(options));
      return arguments.plant == Plant::kNone ? 1 : 0;
    }
    sum.steps += report.steps;
    sum.acquisitions += report.acquisitions;
    sum.take_overs += report.take_overs;
    sum.losses += report.losses;
    sum.commits += report.commits;
    sum.effects += report.effects;
    sum.refused_effects += report.refused_effects;
    sum.restores += report.restores;
    sum.vandalisms += report.vandalisms;
  }
  fmt::print(
      "{} seeds from {}: {} tasks, {} acquisitions, {} take-overs, {} losses, {} commits, {} "
      "effects "
      "({} refused), {} restores, {} vandalisms; no violation\n",
      arguments.seeds, arguments.from, sum.steps, sum.acquisitions, sum.take_overs, sum.losses,
      sum.commits, sum.effects, sum.refused_effects, sum.restores, sum.vandalisms);
  return arguments.plant == Plant::kNone ? 0 : 1;
}

}  // namespace
}  // namespace nstance::sim

int main(int argc, char** argv) {
  nstance::sim::Arguments arguments;
  if (!nstance::sim::Read(argc, argv, arguments)) {
    fmt::print(stderr, "usage: {} [--seeds N] [--from S] [--plant BUG] [--trace]\n", argv[0]);
    return 2;
  }
  return nstance::sim::Run(arguments);
}
