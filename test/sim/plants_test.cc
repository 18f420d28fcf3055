// The planted bugs by the seeds that find them (test/sim/plants.tsv). A seed keeps its meaning only
// as long as scenarios are drawn in the same way: when they are not, `make sim-mutants` writes the
// list anew, and this test tells whether that was forgotten.
#include <charconv>
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
  std::uint64_t seed = 0;
  std::string invariant;
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
    fields >> row.plant >> row.seed >> row.invariant;
    EXPECT_FALSE(fields.fail()) << line;
    rows.push_back(row);
  }
  return rows;
}

TEST(PlantsTest, EveryListedBugIsOneThatCanBePlantedAndIsListedOnce) {
  std::set<std::string> seen;
  for (const Row& row : ReadRows()) {
    EXPECT_TRUE(ParsePlant(row.plant).has_value()) << row.plant;
    EXPECT_TRUE(seen.insert(row.plant).second) << row.plant;
  }
}

TEST(PlantsTest, EveryListedSeedFindsItsBug) {
  for (const Row& row : ReadRows()) {
    const std::optional<Plant> plant = ParsePlant(row.plant);
    if (!plant) continue;
    const RunReport report = RunScenario(DrawScenario({.seed = row.seed}), {.plant = *plant});
    ASSERT_TRUE(report.violation.has_value()) << row.plant << " by seed " << row.seed;
    EXPECT_EQ(report.violation->invariant, row.invariant) << row.plant << " by seed " << row.seed;
  }
}

}  // namespace
}  // namespace nstance::sim
