// Prng: chance for jitter, choices and simulations. Integers only, the same on every machine.
//
// xoshiro256** with its state drawn from the seed by splitmix64. Not for secrets: keys, nonces and
// tokens come from ports/secure_random.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/time.h"

namespace nstance {

class Prng {
 public:
  explicit Prng(std::uint64_t seed);

  // All 64-bit values are equally likely.
  std::uint64_t Next();

  // 0 .. bound - 1, without bias. REQUIRES: bound > 0.
  std::uint64_t Below(std::uint64_t bound);

  // low .. high, both included. REQUIRES: low <= high.
  std::int64_t Between(std::int64_t low, std::int64_t high);

  // True in `numerator` of `denominator` cases. REQUIRES: denominator > 0.
  bool Chance(std::uint64_t numerator, std::uint64_t denominator);

  // 0 up to and including `limit`. REQUIRES: limit is not negative.
  Duration UpTo(Duration limit);

  // A generator whose stream is independent of what is drawn from this one afterwards.
  [[nodiscard]] Prng Fork();

  template <class T>
  void Shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(Below(i))]);
    }
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace nstance
