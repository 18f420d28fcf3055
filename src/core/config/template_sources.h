// The strings of a configuration that are templates, with where they stand.
#pragma once

#include <vector>

#include "core/config/config.h"
#include "core/config/load.h"
#include "core/config/place.h"
#include "core/config/problems.h"

namespace nstance::config {

// In the order of the document. `problems` knows how the file spells paths.
[[nodiscard]] std::vector<TemplateSource> TemplateSources(const Place& root, const Config& config,
                                                          const Problems& problems);

}  // namespace nstance::config
