// Checks the templates of a configuration before anything is made from them (security.md BI-98,
// BI-99): every one is parsed, and rendered with sample data for the groups that use it.
//
//   const config::LoadResult loaded = LoadChecked(text);
//   for (const config::Problem& p : loaded.errors) Print(config::Format(p, "config/a.jsonc"));
//
// Errors: what does not parse; unknown functions, fields and templates; whatever a group of the
// file would fail with (its variables are known): recursion, loops and output without end, values
// of the wrong kind. Templates that no group of the file uses are rendered with the variables of
// the template alone; what fails there because of a value is a warning, since a dynamic group may
// bring a better one.
//
// Warnings: values that are put into a shell script or YAML without quoting (values that we make
// ourselves, such as ids and tokens, are safe); files that an agent would refuse.
//
// Per template at most 8 groups with different variables are tried.
#pragma once

#include <string_view>
#include <vector>

#include "core/config/config.h"
#include "core/config/load.h"
#include "core/config/problem.h"
#include "core/instance_config/template_data.h"

namespace nstance {

struct TemplateVerdict {
  std::vector<config::Problem> errors = {};
  std::vector<config::Problem> warnings = {};
};

// `text` is what was loaded. REQUIRES: loaded.config.
[[nodiscard]] TemplateVerdict CheckTemplates(std::string_view text,
                                             const config::LoadResult& loaded);

// config::Load() and CheckTemplates() in one: a Config comes out when both find no error.
[[nodiscard]] config::LoadResult LoadChecked(std::string_view text,
                                             const config::LoadOptions& options = {});

// Made-up facts for checks and previews: addresses of documentation, a token of the usual length.
// The images of the configuration stand for themselves.
[[nodiscard]] ServerFacts SampleServer(const config::Config& config);
[[nodiscard]] config::StringMap SampleImages(const config::Config& config);
[[nodiscard]] InstanceFacts SampleInstance(std::string_view kind);
[[nodiscard]] std::string SampleNonce();

}  // namespace nstance
