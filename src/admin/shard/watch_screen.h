// The screen of `watch`: a pure function of the model, the size and the time.
//
// Guarantees, each held by a test:
//   - as many lines as the screen has rows, none wider than it has columns, at any size
//   - nothing that a server wrote reaches the terminal as a control sequence
//   - the work per drawing is bounded by what the model holds; only what is seen is laid out
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "admin/shard/watch_model.h"
#include "admin/table.h"
#include "base/time.h"
#include "ports/terminal.h"

namespace nstance::admin {

struct Screen {
  std::vector<std::string> lines = {};  // With sequences for colour alone.
  std::size_t page = 0;                 // Rows of the list that fit.
  std::size_t rows = 0;                 // Rows that there are, after the filter.
};

struct ScreenLook {
  ScreenSize size = {};
  Timestamp now = {};
  Paint paint = Paint::kPlain;
};

[[nodiscard]] Screen DrawWatch(const WatchModel& model, const ScreenLook& look);

// "[########++..] 8/12": # ready, + creating, ~ draining, . missing; `cells` between the brackets.
[[nodiscard]] std::string GroupBar(const api::GroupStatus& status, std::size_t cells);

}  // namespace nstance::admin
