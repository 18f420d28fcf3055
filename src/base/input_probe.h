// InputProbe: counts what was refused at the edges of the process.
//
//   bad_input_total{interface, reason}   something malformed came in and was refused
//   limit_hits_total{limit}              a limit was reached
//
// Parsers take an InputSource: the interface that the bytes came from and the probe that counts.
// The default counts nowhere, which is what offline commands want. Reasons and limits are fixed
// words from our own code, never text from the input, so the number of series is bounded by the
// source.
#pragma once

#include <string_view>

#include "base/metrics.h"

namespace nstance {

class InputProbe final {
 public:
  // `registry` must outlive the probe.
  explicit InputProbe(metrics::Registry& registry) : registry_(registry) {}

  void BadInput(std::string_view interface, std::string_view reason);
  void LimitHit(std::string_view limit);

 private:
  metrics::Registry& registry_;
};

struct InputSource {
  std::string_view interface = "unnamed";
  InputProbe* probe = nullptr;

  void Bad(std::string_view reason) const {
    if (probe != nullptr) probe->BadInput(interface, reason);
  }
  // A limit that input ran into is bad input too.
  void Limit(std::string_view limit) const {
    if (probe == nullptr) return;
    probe->BadInput(interface, limit);
    probe->LimitHit(limit);
  }
};

}  // namespace nstance
