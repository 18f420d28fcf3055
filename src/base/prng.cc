#include "base/prng.h"

#include <bit>

#include "base/check.h"

namespace nstance {
namespace {

std::uint64_t SplitMix(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

Prng::Prng(std::uint64_t seed) {
  for (std::uint64_t& word : state_) word = SplitMix(seed);
}

std::uint64_t Prng::Next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Prng::Below(std::uint64_t bound) {
  CHECK(bound > 0);
  // Values below 2^64 mod bound would make the first ones more likely: draw again.
  const std::uint64_t biased = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t value = Next();
    if (value >= biased) return value % bound;
  }
}

std::int64_t Prng::Between(std::int64_t low, std::int64_t high) {
  CHECK(low <= high, "{} to {}", low, high);
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  const std::uint64_t offset = span == 0 ? Next() : Below(span);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

bool Prng::Chance(std::uint64_t numerator, std::uint64_t denominator) {
  return Below(denominator) < numerator;
}

Duration Prng::UpTo(Duration limit) {
  return Duration::Nanoseconds(Between(0, limit.nanoseconds()));
}

Prng Prng::Fork() { return Prng(Next()); }

}  // namespace nstance
