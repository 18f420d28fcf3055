#include "admin/shard/watch_screen.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "admin/printable.h"
#include "admin/shard/views.h"
#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

// --- Columns that fit ----------------------------------------------------------------------------

enum class Shrinks : std::uint8_t {
  kNever,  // Numbers and words of ours: whole or not at all.
  kLate,   // Names.
  kFirst,  // Sentences.
};

struct ScreenColumn {
  std::string_view heading = {};
  Align align = Align::kLeft;
  int worth = 0;  // Those of the least worth give way first.
  Shrinks shrinks = Shrinks::kNever;
  std::size_t least = 0;  // Where it can shrink: to this, below which it is left out.
};

using Row = std::vector<Cell>;

struct Rows {
  std::vector<ScreenColumn> columns = {};
  std::vector<Row> rows = {};
};

struct Fitted {
  std::size_t column = 0;  // Its number.
  std::size_t width = 0;
};

std::size_t Total(const std::vector<Fitted>& fitted) {
  std::size_t total = 0;
  for (const Fitted& one : fitted) total += one.width + 2;
  return total == 0 ? 0 : total - 2;
}

// Widths for the rows from `first` to `last`, so that all fit into `room`.
std::vector<Fitted> Fit(const Rows& rows, std::pair<std::size_t, std::size_t> seen,
                        std::size_t room) {
  std::vector<Fitted> fitted;
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    std::size_t width = rows.columns[i].heading.size();
    for (std::size_t r = seen.first; r < seen.second; ++r) {
      width = std::max(width, WidthOf(rows.rows[r][i].text));
    }
    fitted.push_back({.column = i, .width = width});
  }
  const auto column = [&](const Fitted& one) -> const ScreenColumn& {
    return rows.columns[one.column];
  };
  const auto shrink = [&](Fitted& one) {
    const std::size_t excess = Total(fitted) - std::min(Total(fitted), room);
    one.width =
        std::max(std::min(one.width, column(one).least), one.width - std::min(one.width, excess));
  };
  for (Fitted& one : fitted) {
    if (column(one).shrinks == Shrinks::kFirst) shrink(one);
  }
  while (Total(fitted) > room && fitted.size() > 1) {
    const auto victim =
        std::ranges::min_element(fitted, {}, [&](const Fitted& one) { return column(one).worth; });
    if (column(*victim).shrinks == Shrinks::kLate) shrink(*victim);
    if (Total(fitted) > room) fitted.erase(victim);
  }
  if (fitted.size() == 1) fitted.front().width = std::min(fitted.front().width, room);
  return fitted;
}

std::string DrawRow(const Rows& rows, const std::vector<Fitted>& fitted, const Row& row,
                    Paint paint) {
  std::string line;
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    const Cell& cell = row[fitted[i].column];
    const std::string text = Cut(cell.text, fitted[i].width);
    const std::string padding(fitted[i].width - WidthOf(text), ' ');
    const bool right = rows.columns[fitted[i].column].align == Align::kRight;
    if (right) line += padding;
    line += Toned(text, cell.tone, paint);
    if (i + 1 == fitted.size()) break;
    if (!right) line += padding;
    line += "  ";
  }
  return line;
}

// --- Rows of the views ---------------------------------------------------------------------------

Tone ToneOf(const api::GroupStatus& status) {
  if (status.size > 0 && status.ready == 0) return Tone::kBad;
  const bool still = status.ready == status.size && status.creating + status.draining == 0;
  return still ? Tone::kGood : Tone::kBusy;
}

std::string LastEvent(const WatchedGroup& group, Timestamp now) {
  if (!group.last_event) return "";
  const api::Event& event = *group.last_event;
  const std::string age = event.time ? Age(now - *event.time) + " " : "";
  return age + EventText(event);
}

Rows GroupRows(const WatchModel& model, const ScreenLook& look) {
  const std::size_t cells = static_cast<std::size_t>(std::clamp(look.size.columns / 6, 8, 30));
  Rows rows{.columns = {{"SHARD", Align::kLeft, 3, Shrinks::kLate, 6},
                        {"GROUP", Align::kLeft, 9, Shrinks::kLate, 8},
                        {"READY", Align::kLeft, 8},
                        {"WARM", Align::kRight, 2},
                        {"HOLDS", Align::kRight, 6},
                        {"LAST EVENT", Align::kLeft, 1, Shrinks::kFirst, 10}}};
  for (const auto& [id, group] : model.groups()) {
    const WatchedShard& shard = model.shards().at(id.first);
    const bool lost = shard.link == WatchedShard::Link::kLost;
    rows.rows.push_back(
        {shard.name, group.status.key,
         Cell(GroupBar(group.status, cells), lost ? Tone::kDim : ToneOf(group.status)),
         group.status.pool ? std::to_string(group.status.warm) : std::string("-"),
         Cell(shard.plan_offered ? std::to_string(group.holds) : std::string("-"),
              group.holds > 0 ? Tone::kBusy : Tone::kPlain),
         LastEvent(group, look.now)});
  }
  return rows;
}

Rows InstanceRows(const WatchModel& model, const ScreenLook& look) {
  Rows rows{.columns = {{"SHARD", Align::kLeft, 3, Shrinks::kLate, 6},
                        {"INSTANCE", Align::kLeft, 9, Shrinks::kLate, 12},
                        {"GROUP", Align::kLeft, 5, Shrinks::kLate, 6},
                        {"PHASE", Align::kLeft, 8},
                        {"HEALTH", Align::kLeft, 7},
                        {"AGE", Align::kRight, 2},
                        {"IP", Align::kLeft, 1},
                        {"NOTE", Align::kLeft, 4, Shrinks::kFirst, 10}}};
  for (const auto& [id, instance] : model.instances()) {
    rows.rows.push_back({model.shards().at(id.first).name, instance.instance_id, instance.group,
                         Cell(std::string(PhaseWord(instance.phase)), ToneOfPhase(instance.phase)),
                         Cell(instance.health, ToneOfHealth(instance)),
                         AgeSince(instance.created_at, look.now), IpOf(instance),
                         NoteOf(instance, look.now)});
  }
  return rows;
}

Rows EventRows(const WatchModel& model, const ScreenLook& look) {
  Rows rows{.columns = {{"TIME", Align::kLeft, 8},
                        {"SHARD", Align::kLeft, 2, Shrinks::kLate, 6},
                        {"GROUP", Align::kLeft, 4, Shrinks::kLate, 6},
                        {"INSTANCE", Align::kLeft, 3, Shrinks::kLate, 12},
                        {"WHAT", Align::kLeft, 9, Shrinks::kFirst, 20}}};
  for (const WatchedEvent& watched : model.events()) {
    const api::Event& event = watched.event;
    const bool bad = event.type == "error" || event.type == "brake";
    rows.rows.push_back({event.time ? ClockTime(*event.time, look.now) : std::string("-"),
                         model.shards().at(watched.shard).name, event.group, event.instance_id,
                         Cell(EventText(event), bad ? Tone::kBad : Tone::kPlain)});
  }
  return rows;
}

bool Contains(std::string_view text, std::string_view part) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::search(text, part, {}, lower, lower).begin() != text.end() || part.empty();
}

// Printable, and only those that the filter lets through.
Rows RowsOf(const WatchModel& model, const ScreenLook& look) {
  Rows rows;
  switch (model.view()) {
    case WatchView::kGroups: rows = GroupRows(model, look); break;
    case WatchView::kInstances: rows = InstanceRows(model, look); break;
    case WatchView::kEvents: rows = EventRows(model, look); break;
  }
  for (Row& row : rows.rows) {
    for (Cell& cell : row) cell.text = Printable(cell.text);
  }
  std::erase_if(rows.rows, [&](const Row& row) {
    return std::ranges::none_of(
        row, [&](const Cell& cell) { return Contains(cell.text, model.filter()); });
  });
  return rows;
}

// --- The lines around the list -------------------------------------------------------------------

std::string_view NameOf(WatchView view) {
  if (view == WatchView::kInstances) return "instances";
  return view == WatchView::kEvents ? "events" : "groups";
}

std::string Title(const WatchModel& model, const ScreenLook& look, std::size_t room) {
  const CivilTime time = ToCivil(look.now);
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", time.hour, time.minute, time.second);
  const std::string of_group =
      model.setup().group.empty() ? "" : " of " + Printable(model.setup().group);
  const std::string left =
      Cut(fmt::format("nstance  {}{}  tenant {}  {}", NameOf(model.view()), of_group,
                      Printable(model.setup().tenant), Count(model.shards().size(), "shard")),
          room);
  if (WidthOf(left) + 2 + clock.size() > room) return Toned(left, Tone::kStrong, look.paint);
  const std::string gap(room - WidthOf(left) - clock.size(), ' ');
  return Toned(left, Tone::kStrong, look.paint) + gap + clock;
}

// One line per shard that is not live; at most a third of the screen.
std::vector<std::string> Troubles(const WatchModel& model, const ScreenLook& look,
                                  std::size_t room) {
  std::vector<std::string> lines;
  for (const WatchedShard& shard : model.shards()) {
    if (shard.link == WatchedShard::Link::kLost) {
      lines.push_back(Toned(Cut(fmt::format("{}: LOST for {}: {}; trying again", shard.name,
                                            Age(look.now - shard.since), Printable(shard.why)),
                                room),
                            Tone::kBad, look.paint));
    } else if (shard.link == WatchedShard::Link::kConnecting) {
      lines.push_back(Toned(Cut(shard.name + ": connecting", room), Tone::kDim, look.paint));
    } else if (!shard.events_offered) {
      lines.push_back(
          Toned(Cut(shard.name + ": the server offers no events", room), Tone::kDim, look.paint));
    }
  }
  const auto most = static_cast<std::size_t>(std::max(1, look.size.rows / 3));
  if (lines.size() <= most) return lines;
  const std::size_t more = lines.size() - (most - 1);
  lines.resize(most - 1);
  lines.push_back(
      Toned(Cut(fmt::format("and {} more shards", more), room), Tone::kBad, look.paint));
  return lines;
}

std::string Footer(const WatchModel& model, const Screen& screen, const ScreenLook& look,
                   std::size_t room) {
  if (model.editing()) return Cut(fmt::format("filter: {}_", model.filter()), room);
  std::string place = "none";
  if (screen.rows > 0) {
    const std::size_t top = std::min(model.top(), screen.rows - std::min(screen.rows, screen.page));
    place =
        fmt::format("{}-{} of {}", top + 1, std::min(screen.rows, top + screen.page), screen.rows);
  }
  if (!model.filter().empty()) place += fmt::format(" with \"{}\" (Esc: all)", model.filter());
  const std::string keys = "g groups  i instances  e events  arrows  / filter  q quit";
  if (keys.size() + 3 + WidthOf(place) <= room) {
    return Toned(fmt::format("{}   {}", keys, place), Tone::kDim, look.paint);
  }
  return Toned(Cut(fmt::format("{}  g i e / q", place), room), Tone::kDim, look.paint);
}

}  // namespace

std::string GroupBar(const api::GroupStatus& status, std::size_t cells) {
  const auto count = [](std::int32_t number) {
    return static_cast<std::size_t>(std::max(0, number));
  };
  const std::size_t parts = count(status.ready) + count(status.creating) + count(status.draining);
  const std::size_t whole = std::max({std::size_t{1}, count(status.size), parts});
  std::string bar;
  // Each begins where the sum of those before it ends: no cell is drawn twice, and what there is at
  // all has a cell while there is room.
  const auto append = [&](std::size_t number, char mark) {
    if (number == 0) return;
    const std::size_t length = std::max<std::size_t>(1, number * cells / whole);
    bar.append(std::min(length, cells - std::min(cells, bar.size())), mark);
  };
  append(count(status.ready), '#');
  append(count(status.creating), '+');
  append(count(status.draining), '~');
  const bool full = status.ready == status.size && parts == count(status.ready) && parts > 0;
  bar.append(cells - bar.size(), full ? '#' : '.');
  return fmt::format("[{}] {}/{}", bar, status.ready, status.size);
}

Screen DrawWatch(const WatchModel& model, const ScreenLook& look) {
  const auto height = static_cast<std::size_t>(std::clamp(look.size.rows, 1, 1'000));
  const auto room = static_cast<std::size_t>(std::clamp(look.size.columns, 1, 1'000));
  Screen screen;
  screen.lines.push_back(Title(model, look, room));
  for (std::string& line : Troubles(model, look, room)) screen.lines.push_back(std::move(line));
  const Rows rows = RowsOf(model, look);
  screen.rows = rows.rows.size();
  const std::size_t around = screen.lines.size() + 2;  // Headings and footer.
  screen.page = height > around ? height - around : 0;
  const std::size_t first = std::min(model.top(), screen.rows - std::min(screen.rows, screen.page));
  const std::size_t last = std::min(screen.rows, first + screen.page);
  const std::vector<Fitted> fitted = Fit(rows, {first, last}, room);
  Row headings;
  for (const ScreenColumn& column : rows.columns) {
    headings.emplace_back(std::string(column.heading), Tone::kStrong);
  }
  screen.lines.push_back(DrawRow(rows, fitted, headings, look.paint));
  for (std::size_t i = first; i < last; ++i) {
    screen.lines.push_back(DrawRow(rows, fitted, rows.rows[i], look.paint));
  }
  screen.lines.resize(std::max<std::size_t>(screen.lines.size(), height - 1));
  screen.lines.resize(height - 1);
  screen.lines.push_back(Footer(model, screen, look, room));
  return screen;
}

}  // namespace nstance::admin
