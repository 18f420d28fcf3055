// The planted bugs by the seeds that find them (test/sim/plants.tsv). A seed keeps its meaning only
// as long as scenarios are drawn in the same way: when they are not, `make sim-mutants` writes the
// list anew, and this test tells whether that was forgotten, or a bug is no longer found. It writes
// "-" for a bug that no seed finds, which fails here: a checker, a fault or an occasion is missing.
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "sim/world/run.h"

namespace nstance::sim {
namespace {

struct Row {
  std::string plant;
  std::optional<std::uint64_t> seed = std::nullopt;  // Empty: none finds it.
  std::string invariant = {};
};

std::vector<Row> ReadRows() {
  std::ifstream in(NSTANCE_SOURCE_DIR "/test/sim/plants.tsv");
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "plant\tseed\tinvariant");
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    Row row;
    std::string seed;
    fields >> row.plant >> seed >> row.invariant;
    EXPECT_FALSE(fields.fail()) << line;
    if (seed != "-") row.seed = std::stoull(seed);
    rows.push_back(row);
  }
  return rows;
}

// The line of each planted bug in fault_point.h, in their order.
std::vector<std::string> ReadLines() {
  std::ifstream in(NSTANCE_SOURCE_DIR "/src/base/fault_point.h");
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("enum class Plant ")) inside = true;
    if (inside && line == "};") break;
    if (inside && line.starts_with("  k") && line != "  kNone,") lines.push_back(line);
  }
  return lines;
}

TEST(PlantsTest, EveryBugThatCanBePlantedIsListedOnce) {
  std::vector<std::string> listed;
  for (const Row& row : ReadRows()) listed.push_back(row.plant);
  std::vector<std::string> planted;
  for (const Plant plant : kPlants) planted.emplace_back(PlantName(plant));
  EXPECT_EQ(listed, planted) << "make sim-mutants looks for them and writes the list";
}

TEST(PlantsTest, EveryBugIsFound) {
  std::set<std::string> found;
  for (const Row& row : ReadRows()) {
    if (row.seed) found.insert(row.plant);
  }
  for (const Plant plant : kPlants) {
    EXPECT_TRUE(found.contains(std::string(PlantName(plant)))) << PlantName(plant);
  }
}

TEST(PlantsTest, EveryBugIsFoundByAnInvariantThatItsLineNames) {
  const std::vector<std::string> lines = ReadLines();
  ASSERT_EQ(lines.size(), kPlantCount) << "one line for each, with what should find it";
  for (const Row& row : ReadRows()) {
    const std::optional<Plant> plant = ParsePlant(row.plant);
    if (!plant || !row.seed) continue;
    const std::string& line = lines.at(static_cast<std::size_t>(*plant) - 1);
    const bool named = line.contains(row.invariant + ",") || line.contains(row.invariant + ".");
    EXPECT_TRUE(named) << row.invariant << " is not in: " << line;
  }
}

TEST(PlantsTest, EveryListedSeedFindsItsBug) {
  for (const Row& row : ReadRows()) {
    const std::optional<Plant> plant = ParsePlant(row.plant);
    if (!plant || !row.seed) continue;
    const RunReport report = RunScenario(DrawScenario({.seed = *row.seed}), {.plant = *plant});
    if (!report.violation) {
      ADD_FAILURE() << row.plant << " by seed " << *row.seed;
      continue;
    }
    EXPECT_EQ(report.violation->invariant, row.invariant) << row.plant << " by seed " << *row.seed;
  }
}

// Else it would find anything.
TEST(PlantsTest, EveryListedSeedPassesWithoutABug) {
  std::set<std::uint64_t> seeds;
  for (const Row& row : ReadRows()) {
    if (row.seed) seeds.insert(*row.seed);
  }
  for (const std::uint64_t seed : seeds) {
    const RunReport report = RunScenario(DrawScenario({.seed = seed}), {});
    EXPECT_FALSE(report.violation.has_value())
        << "seed " << seed << ": " << report.violation->invariant;
  }
}

}  // namespace
}  // namespace nstance::sim
