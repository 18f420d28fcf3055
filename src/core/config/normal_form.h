// NormalForm(): turns every accepted spelling of a configuration into the one that the schema
// describes, keeping line and column of every value.
//
//   - the `cluster`/`shard`-rooted form becomes the `server`-rooted one
//   - other names of keys (`frequent_interval`, `templateString`) become ours
//   - groups without tenants become groups of tenant `default`, with a warning
#pragma once

#include "base/json.h"
#include "core/config/problems.h"

namespace nstance::config {

// Reports keys that the file's own form does not know. On return `problems` spells paths as the
// file does. False: the file has two layouts at once, and nothing else is worth checking.
// REQUIRES: an object.
[[nodiscard]] bool NormalForm(json::Value& root, Problems& problems);

}  // namespace nstance::config
