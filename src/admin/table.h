// Table: upper-case headings, two spaces between columns, no borders, numbers to the right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nstance::admin {

enum class Paint : std::uint8_t { kPlain, kColour };

enum class Tone : std::uint8_t { kPlain, kGood, kBusy, kBad, kDim, kStrong };

// The text between the sequences that colour it; as it is with Paint::kPlain or Tone::kPlain.
[[nodiscard]] std::string Toned(std::string_view text, Tone tone, Paint paint);

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string_view heading = {};
  Align align = Align::kLeft;
};

struct Cell {
  // NOLINTNEXTLINE(google-explicit-constructor): a row reads as a list of texts.
  Cell(std::string of, Tone in = Tone::kPlain) : text(std::move(of)), tone(in) {}
  std::string text;  // Made printable; an empty one is shown as "-".
  Tone tone;
};

class Table final {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns.
  void Add(std::vector<Cell> row);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::string Text(Paint paint) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace nstance::admin
