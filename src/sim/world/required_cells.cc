#include "sim/world/required_cells.h"

#include <array>
#include <cstdint>
#include <initializer_list>

namespace nstance::sim {
namespace {

// A set of fault classes by their numbers.
struct Faults {
  consteval Faults(std::initializer_list<int> numbers) {  // NOLINT(*-explicit-*)
    for (const int number : numbers) bits |= 1U << static_cast<unsigned>(number);
  }
  [[nodiscard]] constexpr bool Has(std::size_t number) const { return (bits >> number & 1U) != 0; }
  std::uint32_t bits = 0;
};

// A crash, a clock, a pause and a partition can meet whatever a process does.
constexpr Faults kEverywhere = {1, 11, 12, 13};

struct Row {
  Step step = Step::kNone;
  Faults also;
};
constexpr std::array kRows = {
    Row{Step::kC0, {}},
    Row{Step::kC1, {}},
    Row{Step::kC2, {2, 3, 4, 5}},
    Row{Step::kC3, {2, 3, 4, 5}},
    Row{Step::kC4, {2, 7, 8, 9, 10}},
    Row{Step::kC5, {2, 3, 4, 5}},
    Row{Step::kC6, {}},
    Row{Step::kR1, {}},
    Row{Step::kR2, {}},
    Row{Step::kR3, {}},
    Row{Step::kR4, {}},
    Row{Step::kR5, {2, 3, 4, 5}},
    Row{Step::kR6, {}},
    Row{Step::kR7, {2, 3, 4, 5}},
    Row{Step::kR8, {}},
    Row{Step::kR9, {}},
    Row{Step::kH1, {}},
    Row{Step::kH2, {}},
    Row{Step::kH3, {}},
    Row{Step::kH6, {2, 7, 9}},
    Row{Step::kH7, {2, 7, 9}},
    Row{Step::kD1, {}},
    Row{Step::kD2, {}},
    Row{Step::kD3, {2, 3, 4, 5}},
    Row{Step::kD4, {}},
    Row{Step::kD6, {2, 3, 4, 5}},
    Row{Step::kD7, {}},
    Row{Step::kX1, {2, 3, 4, 5}},
    Row{Step::kX3, {2, 7, 8, 9, 10}},
    Row{Step::kX4, {2, 7, 9}},
    Row{Step::kX5, {2, 3, 4, 5}},
    Row{Step::kX6, {}},
    Row{Step::kX7, {}},
    Row{Step::kG1, {}},
    Row{Step::kG2, {}},
    Row{Step::kG3, {2, 3, 6}},
    Row{Step::kG4, {2, 3, 4, 5}},
    Row{Step::kG5, {}},
    Row{Step::kG6, {}},
    Row{Step::kG7, {}},
    Row{Step::kG8, {}},
    Row{Step::kL1, {2, 3, 6}},
    Row{Step::kL2, {2, 3, 4, 5}},
    Row{Step::kL3, {}},
    Row{Step::kL4, {2, 3, 4, 5, 6, 7, 8}},
    Row{Step::kL5, {2, 3, 6, 7, 9, 10}},
    Row{Step::kL6, {}},
    Row{Step::kL7, {2, 3, 4, 5}},
    Row{Step::kL8, {2, 3, 4, 5, 7, 8}},
    Row{Step::kW4, {2, 3, 4, 5}},
    Row{Step::kW5, {}},
    Row{Step::kW6, {}},
    Row{Step::kW7, {}},
    Row{Step::kW8, {2, 3, 4, 5}},
    Row{Step::kK1, {2, 3, 6}},
    Row{Step::kK2, {2, 3, 6}},
    Row{Step::kK3, {}},
    Row{Step::kK4, {}},
    Row{Step::kK5, {}},
    Row{Step::kK6, {}},
    Row{Step::kK7, {}},
};

std::vector<std::pair<Step, Fault>> Expand() {
  std::vector<std::pair<Step, Fault>> cells;
  for (const Row& row : kRows) {
    for (std::size_t fault = 1; fault <= kFaults; ++fault) {
      if (!kEverywhere.Has(fault) && !row.also.Has(fault)) continue;
      cells.emplace_back(row.step, static_cast<Fault>(fault));
    }
  }
  return cells;
}

}  // namespace

const std::vector<std::pair<Step, Fault>>& RequiredCells() {
  static const std::vector<std::pair<Step, Fault>> kCells = Expand();
  return kCells;
}

const std::vector<std::pair<Step, Fault>>& CellsOfEvents() {
  // Looks while ids are used again.
  static const std::vector<std::pair<Step, Fault>> kCells = {
      {Step::kH6, Fault::kF10}, {Step::kH7, Fault::kF10}, {Step::kX4, Fault::kF10}};
  return kCells;
}

}  // namespace nstance::sim
