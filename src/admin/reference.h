// The reference of the program, made from its own grammar: completion for shells, the manual page,
// and docs/cli.md. What it says cannot differ from what the program takes.
#pragma once

#include "admin/common_flags.h"
#include "admin/ending.h"
#include "admin/reference_command.h"

namespace nstance::admin {

// With --json: {"format","text"}.
[[nodiscard]] Ending Run(const ReferenceCommand& command, const CommonFlags& common);

}  // namespace nstance::admin
