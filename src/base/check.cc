#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace nstance {

void CheckFailed(std::string_view where, std::string_view condition, std::string_view detail) {
  const std::string line = fmt::format("{}: CHECK failed: {}{}{}\n", where, condition,
                                       detail.empty() ? "" : ": ", detail);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::abort();
}

}  // namespace nstance
