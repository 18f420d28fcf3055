// `nstance-features`: what a caller understands beyond the reference (wire.md 7.7).
#pragma once

#include <cstdint>
#include <string_view>

#include "ports/rpc.h"

namespace nstance {

enum class Feature : std::uint8_t { kDrainCancel, kRenew, kRebind };

// "drain-cancel", "renew", "rebind".
[[nodiscard]] std::string_view FeatureName(Feature feature);
[[nodiscard]] bool HasFeature(const RpcMetadata& metadata, Feature feature);
// Whether the caller named any feature at all: a Go agent does not.
[[nodiscard]] bool HasAnyFeature(const RpcMetadata& metadata);

}  // namespace nstance
