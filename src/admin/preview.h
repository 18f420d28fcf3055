// What an instance of a group would get, rendered with a made-up id, token and addresses.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "admin/config_command.h"
#include "admin/ending.h"
#include "base/json.h"
#include "base/result.h"
#include "core/config/config.h"
#include "core/instance_config/render_plan.h"

namespace nstance::admin {

struct Preview {
  std::string instance_id = {};
  std::string tenant = {};
  std::string group = {};
  std::string runtime_config_hash = {};
  std::string infra_config_hash = {};
  std::optional<std::string> userdata = std::nullopt;
  std::string userdata_url = {};  // Where the user data would come from, when it is absent.
  json::Object args = {};
  RenderedFiles files = {};
  std::map<std::string, config::FileKind> kinds = {};  // Of each file.
};

// `group` is one of the file. Errors are those of a request for an instance with these variables.
[[nodiscard]] Result<Preview> PreviewInstance(const config::Config& config,
                                              const config::GroupLayer& group,
                                              const ConfigRenderGroup& command);

// One part alone is printed as it is; several have headings.
[[nodiscard]] Ending TextPreview(const Preview& preview, RenderPart part);
[[nodiscard]] std::string JsonPreview(const Preview& preview, RenderPart part);

}  // namespace nstance::admin
