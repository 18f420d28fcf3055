// Entropy for identifiers that no other test has: the local provider finds processes by the
// identifier of their instance, and tests run beside each other.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "base/puidv7.h"

namespace nstance::test {

inline Puidv7Generator::Entropy ProcessEntropy(std::uint8_t number) {
  Puidv7Generator::Entropy entropy{};
  entropy.fill(number);
  auto rest = static_cast<std::uint32_t>(::getpid());
  for (std::size_t i = 0; i < sizeof(rest); ++i, rest >>= 8U) {
    entropy.at(i) = static_cast<std::uint8_t>(rest);
  }
  return entropy;
}

}  // namespace nstance::test
