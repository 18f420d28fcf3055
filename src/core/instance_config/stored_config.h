// The merged configuration of an instance as its record keeps it (formats.md 6.1, `config`):
//
//   {"args":{...},"vars":{...},"files":{name:{"kind","source"?,"template"?,"key"?}},
//    "userdata"?:{"source"?,"encoding"?,"content","sha256"?},"instance_type","subnet_pool",
//    "kind","arch","template"}
//
// A creation that is repeated, by this leader or the next one, is rendered from here and not from
// the group, which may have changed: the same request has the same bytes (RU6). `template`, the
// template's name, is ours; other readers ignore it.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "core/instance_config/merge.h"

namespace nstance {

[[nodiscard]] json::Object EncodeStoredConfig(const MergedInstanceConfig& config);
// kDataLoss "config: <member>: <what>": no writer makes that. Members that are missing are empty:
// another program's record may lack them.
[[nodiscard]] Result<MergedInstanceConfig> DecodeStoredConfig(const json::Object& stored);

}  // namespace nstance
