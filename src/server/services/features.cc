#include "server/services/features.h"

#include <cstddef>

namespace nstance {
namespace {

constexpr std::string_view kName = "nstance-features";

template <class Visit>
bool AnyWord(const RpcMetadata& metadata, Visit visit) {
  for (const RpcMetadataEntry& entry : metadata) {
    if (entry.name != kName) continue;
    std::string_view rest = entry.value;
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      std::string_view word = rest.substr(0, comma);
      while (word.starts_with(' ')) word.remove_prefix(1);
      while (word.ends_with(' ')) word.remove_suffix(1);
      if (!word.empty() && visit(word)) return true;
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return false;
}

}  // namespace

std::string_view FeatureName(Feature feature) {
  switch (feature) {
    case Feature::kDrainCancel: return "drain-cancel";
    case Feature::kRenew: return "renew";
    case Feature::kRebind: break;
  }
  return "rebind";
}

bool HasFeature(const RpcMetadata& metadata, Feature feature) {
  return AnyWord(metadata, [&](std::string_view word) { return word == FeatureName(feature); });
}

bool HasAnyFeature(const RpcMetadata& metadata) {
  return AnyWord(metadata, [](std::string_view) { return true; });
}

}  // namespace nstance
