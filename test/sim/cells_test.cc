// The list of cells (test/sim/cells.tsv) and the planted bugs against the product: what is required
// is marked, what is marked is required, and every planted bug is somewhere.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "sim/world/required_cells.h"

namespace nstance {
namespace {

constexpr int kFaults = 13;
constexpr std::string_view kRequired = "required";
constexpr std::string_view kNotApplicable = "n/a: ";

struct Cell {
  std::string step;
  std::string fault;
  std::string text;
};

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Without the header line; a line that is not three fields gives an empty cell.
std::vector<Cell> ReadCells() {
  std::istringstream in(ReadFile(NSTANCE_SOURCE_DIR "/test/sim/cells.tsv"));
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "step\tfault\tcell");
  std::vector<Cell> cells;
  while (std::getline(in, line)) {
    const std::size_t first = line.find('\t');
    const std::size_t second = line.find('\t', first + 1);
    const bool three = first != std::string::npos && second != std::string::npos &&
                       line.find('\t', second + 1) == std::string::npos;
    EXPECT_TRUE(three) << line;
    if (!three) {
      cells.push_back({});
      continue;
    }
    cells.push_back({.step = line.substr(0, first),
                     .fault = line.substr(first + 1, second - first - 1),
                     .text = line.substr(second + 1)});
  }
  return cells;
}

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

void Gather(std::string_view text, std::string_view prefix, std::set<std::string>& names) {
  for (std::size_t at = text.find(prefix); at != std::string_view::npos;
       at = text.find(prefix, at + prefix.size())) {
    if (at > 0 && IsWordCharacter(text[at - 1])) continue;  // The end of a longer name.
    std::size_t end = at + prefix.size();
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
    names.emplace(text.substr(at + prefix.size(), end - at - prefix.size()));
  }
}

enum class Of : std::uint8_t { kProduct, kProductAndSim };

// "C4" for every Step::kC4 below src, but where it is declared.
std::set<std::string> NamesInSource(std::string_view prefix, Of of) {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(NSTANCE_SOURCE_DIR "/src")) {
    const std::filesystem::path& path = entry.path();
    const bool code = path.extension() == ".cc" || path.extension() == ".h";
    const bool sim = path.string().starts_with(NSTANCE_SOURCE_DIR "/src/sim/");
    if (!code || path.stem() == "fault_point" || (sim && of == Of::kProduct)) continue;
    Gather(ReadFile(path), prefix, names);
  }
  return names;
}

std::set<std::string> MarkedSteps() {
  std::set<std::string> marked;
  for (const std::string& name : NamesInSource("Step::k", Of::kProduct)) {
    if (ParseStep(name)) marked.insert(name);
  }
  return marked;
}

// kNoMargin: "no-margin"; kC5Overwrites: "c5-overwrites".
std::string KebabOf(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (upper && !out.empty()) out += '-';
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

TEST(CellsTest, EveryStepHasACellForEveryFaultInTheirOrder) {
  const std::vector<Cell> cells = ReadCells();
  ASSERT_EQ(cells.size(), kStepCount * kFaults);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto step = static_cast<Step>(i / kFaults + 1);
    EXPECT_EQ(cells[i].step, StepName(step)) << "line " << i + 2;
    EXPECT_EQ(cells[i].fault, fmt::format("F{}", i % kFaults + 1)) << "line " << i + 2;
  }
}

TEST(CellsTest, ACellIsRequiredOrSaysWhyNot) {
  for (const Cell& cell : ReadCells()) {
    const bool reason = cell.text.starts_with(kNotApplicable) &&
                        cell.text.size() > kNotApplicable.size() + 8 && cell.text.back() != ' ';
    EXPECT_TRUE(cell.text == kRequired || reason)
        << cell.step << '.' << cell.fault << ": " << cell.text;
  }
}

TEST(CellsTest, OnlyWhatTheProductMarksIsRequired) {
  const std::set<std::string> marked = MarkedSteps();
  ASSERT_FALSE(marked.empty());
  for (const Cell& cell : ReadCells()) {
    if (cell.text != kRequired) continue;
    EXPECT_TRUE(marked.contains(cell.step))
        << cell.step << '.' << cell.fault << " is required, but nothing in src tells that step";
  }
}

TEST(CellsTest, TheSimulatorKnowsWhatIsRequired) {
  std::vector<std::string> required;
  for (const Cell& cell : ReadCells()) {
    if (cell.text == kRequired) required.push_back(cell.step + "." + cell.fault);
  }
  std::vector<std::pair<Step, sim::Fault>> cells = sim::RequiredCells();
  cells.insert(cells.end(), sim::CellsOfEvents().begin(), sim::CellsOfEvents().end());
  std::ranges::sort(cells);  // In the order of the file, and none twice.
  std::vector<std::string> known;
  for (const auto& [step, fault] : cells) {
    known.push_back(fmt::format("{}.{}", StepName(step), sim::FaultName(fault)));
  }
  EXPECT_EQ(known, required);
}

// A crash, a clock, a pause and a partition can meet whatever a process does.
TEST(CellsTest, WhatIsMarkedIsRequiredToMeetWhatCanMeetEverything) {
  const std::set<std::string> marked = MarkedSteps();
  const std::set<std::string> everywhere = {"F1", "F11", "F12", "F13"};
  for (const Cell& cell : ReadCells()) {
    if (!marked.contains(cell.step) || !everywhere.contains(cell.fault)) continue;
    EXPECT_EQ(cell.text, kRequired) << cell.step << '.' << cell.fault;
  }
}

TEST(CellsTest, WhatIsNotMarkedIsNotBuilt) {
  const std::set<std::string> marked = MarkedSteps();
  for (const Cell& cell : ReadCells()) {
    EXPECT_EQ(!marked.contains(cell.step), cell.text.starts_with("n/a: not built: "))
        << cell.step << '.' << cell.fault << ": " << cell.text;
  }
}

TEST(PlantsTest, EveryPlantIsInTheProductAndNoOther) {
  std::set<std::string> declared;
  for (const Plant plant : kPlants) declared.emplace(PlantName(plant));
  std::set<std::string> used;
  for (const std::string& name : NamesInSource("Plant::k", Of::kProductAndSim))
    used.insert(KebabOf(name));
  used.erase("none");
  EXPECT_EQ(used, declared);
}

TEST(PlantsTest, NamesReadBack) {
  std::set<std::string_view> names;
  for (const Plant plant : kPlants) {
    const std::string_view name = PlantName(plant);
    EXPECT_EQ(ParsePlant(name), plant) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_FALSE(name.empty());
  }
  EXPECT_EQ(PlantName(Plant::kNone), "");
  EXPECT_FALSE(ParsePlant(""));
  EXPECT_FALSE(ParsePlant("no-such-bug"));
  EXPECT_GE(kPlants.size(), 32U);
}

}  // namespace
}  // namespace nstance
