#include "admin/shard/progress.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "admin/printable.h"
#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

constexpr std::size_t kMostCells = 20;
constexpr std::size_t kFewestCells = 6;

std::string Bar(const Progress& progress, std::size_t cells) {
  std::size_t filled = cells;
  if (progress.total > 0) {
    const int done = std::clamp(progress.done, 0, progress.total);
    filled = cells * static_cast<std::size_t>(done) / static_cast<std::size_t>(progress.total);
  } else if (progress.state != Progress::State::kReached) {
    filled = 0;
  }
  return fmt::format("[{}{}]", std::string(filled, '#'), std::string(cells - filled, '-'));
}

Tone ToneOf(Progress::State state) {
  if (state == Progress::State::kReached) return Tone::kGood;
  return state == Progress::State::kGoing ? Tone::kBusy : Tone::kBad;
}

}  // namespace

Progress ProgressOf(const api::GroupStatus& status) {
  Progress progress{.done = status.ready, .total = status.size};
  progress.text = fmt::format("{}/{} ready", status.ready, status.size);
  if (status.creating > 0) progress.text += fmt::format("  {} creating", status.creating);
  if (status.draining > 0) progress.text += fmt::format("  {} draining", status.draining);
  const bool still = status.creating == 0 && status.draining == 0;
  if (still && status.ready == status.size) progress.state = Progress::State::kReached;
  return progress;
}

std::string ProgressLine(const Progress& progress, const ProgressLook& look) {
  const std::string title = Printable(look.title);
  const std::string rest = fmt::format("{}  {}", Printable(progress.text), Stopwatch(look.elapsed));
  const std::size_t without = WidthOf(title) + 4 + 2 + WidthOf(rest);  // Gaps and brackets.
  if (without + kFewestCells > look.columns) {
    return Cut(fmt::format("{}  {}", title, rest), look.columns);
  }
  const std::string bar = Bar(progress, std::min(kMostCells, look.columns - without));
  return fmt::format("{}  {}  {}", title, Toned(bar, ToneOf(progress.state), look.paint), rest);
}

// `config-pending` is of that kind too, and keeps nobody from anything. A hold with a time is tried
// again by itself: user data or an image that could not be fetched this time.
bool NeedsAdministrator(const api::Hold& hold) {
  constexpr std::array<std::string_view, 6> kCodes = {"tenant-undefined", "record-corrupt",
                                                      "config-invalid",   "pool-unavailable",
                                                      "image-unresolved", "userdata-unavailable"};
  return !hold.until && std::ranges::find(kCodes, hold.code) != kCodes.end();
}

std::string HeldCodes(const std::vector<api::Hold>& holds) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> codes;
  for (const api::Hold& hold : holds) {
    const bool told = std::ranges::find(codes, hold.code) != codes.end();
    if (!told && codes.size() < kMost) codes.push_back(hold.code);
  }
  return codes.empty() ? std::string() : fmt::format("  held: {}", fmt::join(codes, ", "));
}

std::string HoldText(const api::Hold& hold, Timestamp now) {
  std::string text = Printable(hold.code);
  if (!hold.instance_id.empty()) text += " " + Printable(hold.instance_id);
  if (hold.until) text += fmt::format(" (until {})", ClockTime(*hold.until, now));
  if (!hold.detail.empty()) text += ": " + Printable(hold.detail);
  return text;
}

}  // namespace nstance::admin
