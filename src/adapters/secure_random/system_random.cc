#include "adapters/secure_random/system_random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/check.h"

namespace nstance {

void SystemRandom::Fill(std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const ssize_t count = getrandom(out.data(), out.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    // The kernel has no other error for a valid buffer; going on without randomness is not an
    // option.
    CHECK(count > 0, "errno {}", errno);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace nstance
