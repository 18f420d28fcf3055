// `nstance-admin config ...`: what can be said about configuration files without any network.
//
// Files are read through a function that the caller gives, so that everything here is pure. Each
// command returns what to print and how to exit.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "admin/common_flags.h"
#include "admin/config_command.h"
#include "admin/ending.h"
#include "base/result.h"

namespace nstance::admin {

// The bytes of a file, or why they cannot be had. kResourceExhausted: more than `max_bytes`.
using ReadFile = std::function<Result<std::string>(const std::string& path, std::size_t max_bytes)>;

// Problems on stderr, each with its place in the source; with --json one document on stdout. Exit 1
// when there is an error, whatever the warnings.
[[nodiscard]] Ending Run(const ConfigValidate& command, const CommonFlags& common,
                         const ReadFile& read);
// The converted file on stdout, or its problems as `validate` tells them.
[[nodiscard]] Ending Run(const ConfigConvert& command, const CommonFlags& common,
                         const ReadFile& read);
[[nodiscard]] Ending Run(const ConfigRenderGroup& command, const CommonFlags& common,
                         const ReadFile& read);
// Exactly the rendered bytes on stdout.
[[nodiscard]] Ending Run(const ConfigRenderTemplate& command, const CommonFlags& common,
                         const ReadFile& read);

}  // namespace nstance::admin
