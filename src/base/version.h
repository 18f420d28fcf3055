// The version of this build, "0.1.0": that of the project in CMakeLists.txt.
#pragma once

#include <string_view>

namespace nstance {

[[nodiscard]] std::string_view Version();

}  // namespace nstance
