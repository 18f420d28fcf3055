// How far a wait has come, and how that is shown. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "admin/table.h"
#include "base/time.h"
#include "ports/api/groups.h"
#include "ports/api/plan.h"

namespace nstance::admin {

struct Progress {
  enum class State : std::uint8_t {
    kGoing,
    kReached,
    kFailed,
    kStuck,  // Waiting longer is of no use: somebody has to do something first.
  };
  State state = State::kGoing;
  int done = 0;
  int total = 0;
  std::string text = {};  // "14/20 ready  5 creating  1 draining".
  std::string why = {};   // kFailed, kStuck: in one clause.
  friend bool operator==(const Progress&, const Progress&) = default;
};

// Reached when exactly `size` instances are ready and nothing is on its way in or out.
[[nodiscard]] Progress ProgressOf(const api::GroupStatus& status);

struct ProgressLook {
  std::string_view title = {};  // "workers@dc1-zone-a".
  Duration elapsed = {};
  std::size_t columns = 80;
  Paint paint = Paint::kPlain;
};

// "workers@dc1-zone-a  [##############------]  14/20 ready  5 creating  1 draining  00:42": never
// wider than the screen: first the bar gets shorter, then it goes, then the end of the text.
[[nodiscard]] std::string ProgressLine(const Progress& progress, const ProgressLook& look);

// Whether a hold goes away only by what an administrator does, and keeps a group from its size.
[[nodiscard]] bool NeedsAdministrator(const api::Hold& hold);

// "  held: create-backoff, subnet-full", each once and at most three of them; nothing for none.
[[nodiscard]] std::string HeldCodes(const std::vector<api::Hold>& holds);

// "waiting-drain (until 14:05:10): operator has not acknowledged yet".
[[nodiscard]] std::string HoldText(const api::Hold& hold, Timestamp now);

}  // namespace nstance::admin
