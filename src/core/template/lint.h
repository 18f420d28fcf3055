// Lint: finds actions that put a value into a shell script or a YAML document without quoting it.
//
// A shell script begins with #! and a shell (`#!/bin/sh`, `#!/usr/bin/env bash`); there an action
// must end in `shellquote`. A YAML document begins with #cloud-config; there `yamlquote` or, for
// scripts inside it, `shellquote` will do. In anything else nothing is found. Constants, numbers
// (`len`) and booleans (`eq`, `not` ...) need no quoting.
//
// A finding is advice, not an error: {{.Vars.EXTRA_COMMANDS}} may be meant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/template/template.h"

namespace nstance::tmpl {

enum class Script : std::uint8_t { kNone, kShell, kYaml };

[[nodiscard]] Script ScriptOf(std::string_view source);

struct Finding {
  Place place;
  std::string action;   // ".Vars.NAME"
  std::string message;  // "{{.Vars.NAME}} is not quoted; use {{.Vars.NAME | shellquote}}"
};

// In the order of their places.
[[nodiscard]] std::vector<Finding> FindRawInsertions(const Template& parsed);

}  // namespace nstance::tmpl
