// SeededRandom: SecureRandom that repeats itself with its seed. For simulations and tests only.
#pragma once

#include "base/prng.h"
#include "ports/secure_random.h"

namespace nstance::sim {

class SeededRandom final : public SecureRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) : prng_(seed) {}

  void Fill(std::span<std::uint8_t> out) override {
    for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(prng_.Next() >> 56U);
  }

 private:
  Prng prng_;
};

}  // namespace nstance::sim
