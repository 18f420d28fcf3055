// Runs the election simulation over many seeds.
//
//   election_sim_main [--seeds N] [--from S] [--plant BUG] [--blind-to I09] [--trace]
//
// Prints what was reached; exits with 1 at the first violation, with the command that replays it.
// With --plant a bug is planted and the first seed that finds it is printed; exit 1 if none does.
// With --blind-to violations of what begins so are not seen.
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "test/sim/election_sim.h"

namespace nstance::sim {
namespace {

struct Arguments {
  std::uint64_t seeds = 1'000;
  std::uint64_t from = 0;
  Plant plant = Plant::kNone;
  std::string blind_to;
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
    } else if (flag == "--blind-to") {
      arguments.blind_to = value;
    } else {
      return false;
    }
  }
  return true;
}

void Print(const ElectionReport& sum) {
  const ElectionCounts& counts = sum.counts;
  fmt::print("tasks {}, acquisitions {}, take-overs {}, commits {}, effects {} ({} refused)\n",
             sum.steps, counts.acquisitions, counts.take_overs, counts.commits, counts.effects,
             counts.refused_effects);
  fmt::print("lease losses:");
  for (std::size_t i = 0; i < counts.lease_losses.size(); ++i) {
    fmt::print(" {} {}", LeaseLossName(static_cast<LeaseLoss>(i)), counts.lease_losses.at(i));
  }
  fmt::print("\njournal losses:");
  for (std::size_t i = 0; i < counts.journal_losses.size(); ++i) {
    fmt::print(" {} {}", JournalLossName(static_cast<JournalLoss>(i)), counts.journal_losses.at(i));
  }
  fmt::print(" refused {}\nalarms:", counts.refused_journals);
  for (std::size_t i = 0; i < counts.alarms.size(); ++i) {
    fmt::print(" {} {}", LeaseAlarmName(static_cast<LeaseAlarm>(i)), counts.alarms.at(i));
  }
  fmt::print(
      "\nfaults: crashes {} storms {} pauses {} partitions {} clogs {} wall jumps {} rate changes "
      "{} "
      "vandalisms {} journal damages {} restores {} stops {} hanging take-overs {}; excuses {}\n",
      counts.crashes, counts.storms, counts.pauses, counts.partitions, counts.clogs,
      counts.wall_jumps, counts.rate_changes, counts.vandalisms, counts.journal_damages,
      counts.restores, counts.stops, counts.hanging_take_overs, counts.excuses);
}

int Run(const Arguments& arguments) {
  ElectionReport sum;
  for (std::uint64_t i = 0; i < arguments.seeds; ++i) {
    const ElectionOptions options{.seed = arguments.from + i,
                                  .plant = arguments.plant,
                                  .blind_to = arguments.blind_to,
                                  .trace = arguments.trace};
    const ElectionReport report = RunElection(options);
    for (const std::string& line : report.trace) fmt::print("{}\n", line);
    if (report.violation) {
      fmt::print("seed {} (number {}): {}\nreplay: {}\n", options.seed, i + 1, *report.violation,
                 ReplayCommand(options));
      return arguments.plant == Plant::kNone ? 1 : 0;
    }
    sum.steps += report.steps;
    sum.counts += report.counts;
  }
  fmt::print("{} seeds from {}, no violation\n", arguments.seeds, arguments.from);
  Print(sum);
  return arguments.plant == Plant::kNone ? 0 : 1;
}

}  // namespace
}  // namespace nstance::sim

int main(int argc, char** argv) {
  nstance::sim::Arguments arguments;
  if (!nstance::sim::Read(argc, argv, arguments)) {
    fmt::print(stderr,
               "usage: {} [--seeds N] [--from S] [--plant BUG] [--blind-to I09] [--trace]\n",
               argv[0]);
    return 2;
  }
  return nstance::sim::Run(arguments);
}
