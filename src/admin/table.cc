#include "admin/table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "admin/printable.h"
#include "base/check.h"

namespace nstance::admin {
namespace {

std::string_view Code(Tone tone) {
  switch (tone) {
    case Tone::kGood: return "32";
    case Tone::kBusy: return "33";
    case Tone::kBad: return "31";
    case Tone::kDim: return "2";
    case Tone::kStrong: return "1";
    case Tone::kPlain: break;
  }
  return "";
}

struct Place {
  std::size_t width = 0;
  Align align = Align::kLeft;
  bool last = false;
  Paint paint = Paint::kPlain;
};

void AppendCell(std::string& out, const Cell& cell, const Place& place) {
  const std::string padding(place.width - WidthOf(cell.text), ' ');
  if (place.align == Align::kRight) out += padding;
  out += Toned(cell.text, cell.tone, place.paint);
  if (place.last) return;
  if (place.align == Align::kLeft) out += padding;
  out += "  ";
}

}  // namespace

std::string Toned(std::string_view text, Tone tone, Paint paint) {
  if (paint == Paint::kPlain || tone == Tone::kPlain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", Code(tone), text);
}

void Table::Add(std::vector<Cell> row) {
  CHECK(row.size() == columns_.size(), "{} cells for {} columns", row.size(), columns_.size());
  for (Cell& cell : row) cell.text = cell.text.empty() ? "-" : Printable(cell.text);
  rows_.push_back(std::move(row));
}

std::string Table::Text(Paint paint) const {
  std::vector<Cell> headings;
  std::vector<Place> places;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    headings.emplace_back(std::string(columns_[i].heading), Tone::kStrong);
    Place place{.width = WidthOf(columns_[i].heading),
                .align = columns_[i].align,
                .last = i + 1 == columns_.size(),
                .paint = paint};
    for (const auto& row : rows_) place.width = std::max(place.width, WidthOf(row[i].text));
    places.push_back(place);
  }
  std::string out;
  const auto append = [&](const std::vector<Cell>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) AppendCell(out, row[i], places[i]);
    out += '\n';
  };
  append(headings);
  for (const auto& row : rows_) append(row);
  return out;
}

}  // namespace nstance::admin
