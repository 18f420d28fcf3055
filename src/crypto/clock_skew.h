// How far two clocks of one fleet may differ: tokens and certificates are accepted this much before
// and after their time.
#pragma once

#include "base/time.h"

namespace nstance::crypto {

inline constexpr Duration kClockSkew = Duration::Seconds(30);

}  // namespace nstance::crypto
