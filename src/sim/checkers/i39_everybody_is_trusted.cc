// I-39: while the trust bundle changes, every live client verifies every live server, and the
// reverse: no handshake of the world ends because a certificate that is within its time leads to
// none of the other side's roots.
//
// Bundles differ between processes for a while by design: servers look at `ca.crt` every ten
// minutes, and agents have theirs from the day they were made. What may change is what the product
// lets people change: roots behind the first one, which signs.
//
// Excused: a certificate that has expired or does not hold yet by the clock of whoever looks at it.
#include <fmt/format.h>

#include "sim/checkers/checkers.h"

namespace nstance::sim {
namespace {

class I39EverybodyIsTrusted final : public Checker {
 public:
  explicit I39EverybodyIsTrusted(CheckerWorld& world) : Checker("I-39", world) {}

  void OnRefusedPeer(const crypto::Certificate& whose, const Error& why) override {
    Violated(fmt::format("the other side does not trust the certificate with serial {}: {}",
                         whose.facts().serial.decimal(), why.message));
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI39(CheckerWorld& world) {
  return std::make_unique<I39EverybodyIsTrusted>(world);
}

}  // namespace nstance::sim
