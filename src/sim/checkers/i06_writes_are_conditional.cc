// I-6: nothing is overwritten unconditionally, except by an explicit repair command, which no
// process of the world is.
#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

class I06WritesAreConditional final : public Checker {
 public:
  explicit I06WritesAreConditional(CheckerWorld& world) : Checker("I-6", world) {}

  void OnChange(const SimChange& change) override {
    if (change.method != SimMethod::kPutUnconditionally || IsByHand(change)) return;
    Violated(fmt::format("{} wrote {} unconditionally", change.process, change.key.text()));
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI06(CheckerWorld& world) {
  return std::make_unique<I06WritesAreConditional>(world);
}

}  // namespace nstance::sim
