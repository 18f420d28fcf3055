// SecureRandom: unpredictable bytes for keys, nonces, tokens and identifiers. Seeded only in sim/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace nstance {

class SecureRandom {
 public:
  SecureRandom() = default;
  SecureRandom(const SecureRandom&) = delete;
  SecureRandom& operator=(const SecureRandom&) = delete;
  virtual ~SecureRandom() = default;

  // Fills all of `out`; never fails and, after the machine has started, never blocks.
  virtual void Fill(std::span<std::uint8_t> out) = 0;

  template <std::size_t N>
  [[nodiscard]] std::array<std::uint8_t, N> Array() {
    std::array<std::uint8_t, N> out{};
    Fill(out);
    return out;
  }
};

}  // namespace nstance
