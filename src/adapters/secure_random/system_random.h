// SystemRandom: SecureRandom from the kernel (getrandom).
#pragma once

#include "ports/secure_random.h"

namespace nstance {

class SystemRandom final : public SecureRandom {
 public:
  void Fill(std::span<std::uint8_t> out) override;
};

}  // namespace nstance
