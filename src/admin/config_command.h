// What `nstance-admin config validate|convert|render` was asked to do.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "core/config/config.h"

namespace nstance::admin {

struct ConfigValidate {
  std::string file = {};
  friend bool operator==(const ConfigValidate&, const ConfigValidate&) = default;
};

struct ConfigConvert {
  std::string file = {};
  friend bool operator==(const ConfigConvert&, const ConfigConvert&) = default;
};

enum class RenderPart : std::uint8_t { kAll, kUserData, kArgs, kFiles };

// What an instance of a group would get.
struct ConfigRenderGroup {
  std::string file = {};
  TenantId tenant;
  GroupKey group;
  RenderPart part = RenderPart::kAll;
  config::StringMap vars = {};  // As an on-demand request would give them.
  friend bool operator==(const ConfigRenderGroup&, const ConfigRenderGroup&) = default;
};

// One template against one JSON document.
struct ConfigRenderTemplate {
  std::string template_file = {};
  std::string data_file = {};
  friend bool operator==(const ConfigRenderTemplate&, const ConfigRenderTemplate&) = default;
};

using ConfigCommand =
    std::variant<ConfigValidate, ConfigConvert, ConfigRenderGroup, ConfigRenderTemplate>;

}  // namespace nstance::admin
