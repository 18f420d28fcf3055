#include "base/version.h"

namespace nstance {

std::string_view Version() { return NSTANCE_VERSION; }

}  // namespace nstance
