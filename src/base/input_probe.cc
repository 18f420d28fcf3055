#include "base/input_probe.h"

#include <array>

namespace nstance {
namespace {

const metrics::Family& BadInputFamily() {
  static const metrics::Family family = {.name = "bad_input_total",
                                         .help = "Malformed input that was refused.",
                                         .labels = {"interface", "reason"},
                                         .buckets = {}};
  return family;
}

const metrics::Family& LimitHitsFamily() {
  static const metrics::Family family = {.name = "limit_hits_total",
                                         .help = "How often a limit was reached.",
                                         .labels = {"limit"},
                                         .buckets = {}};
  return family;
}

}  // namespace

void InputProbe::BadInput(std::string_view interface, std::string_view reason) {
  registry_.Counter(BadInputFamily(), std::array{interface, reason}).Add();
}

void InputProbe::LimitHit(std::string_view limit) {
  registry_.Counter(LimitHitsFamily(), std::array{limit}).Add();
}

}  // namespace nstance
