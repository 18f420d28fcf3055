// The configuration of one instance before anything is rendered: defaults, template, group and, for
// an instance that was asked for by itself, the request, laid over each other.
//
//   field                      | rule
//   ---------------------------+------------------------------------------------------------------
//   args                       | defaults, template, group: objects merged recursively, everything
//                              | else (lists too) replaced by the later one
//   vars                       | defaults, template, group: key by key
//   files, kind, arch          | the template's
//   userdata                   | the template's, else that of the defaults
//   instance_type, subnet_pool | the template's, unless the group names one
//
//   ASSIGN_OR_RETURN(const MergedInstanceConfig merged, MergeInstanceConfig(config, group.layer));
//   record.infra_hash = InfraConfigHash(merged);
//
// All merges copy: what goes in is not changed.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/name.h"
#include "base/result.h"
#include "core/config/config.h"
#include "core/group/group_merge.h"
#include "core/group/group_rules.h"

namespace nstance {

struct MergedInstanceConfig {
  std::string template_name = {};
  std::string kind = {};
  config::Arch arch = config::Arch::kAmd64;
  std::string instance_type = {};
  std::optional<SubnetPoolName> subnet_pool = std::nullopt;
  json::Object args = {};
  config::StringMap vars = {};
  std::map<std::string, config::File> files = {};
  std::optional<config::UserData> userdata = std::nullopt;  // None: nothing can be created.
  friend bool operator==(const MergedInstanceConfig&, const MergedInstanceConfig&) = default;
};

[[nodiscard]] config::StringMap MergeVars(const config::StringMap& base,
                                          const config::StringMap& over);

// kFailedPrecondition when the layer names no template, or one that is not defined.
[[nodiscard]] Result<MergedInstanceConfig> MergeInstanceConfig(const config::Config& config,
                                                               const config::GroupLayer& group);

// What CreateInstance may ask for. Empty: as the group has it.
struct InstanceOverlay {
  std::string template_name = {};
  std::string instance_type = {};
  std::string subnet_pool = {};
  config::StringMap vars = {};
  friend bool operator==(const InstanceOverlay&, const InstanceOverlay&) = default;
};

// The group as this one instance sees it: the request over the group, all rules checked.
// kFailedPrecondition: the group is frozen, or the request changes the template or subnet pool of a
// static group (the same value is fine). kInvalidArgument: anything else in the request, also a
// pool that is not open to on-demand instances.
[[nodiscard]] Result<config::GroupLayer> OverlayInstance(const config::Config& config,
                                                         const EffectiveGroup& group,
                                                         const InstanceOverlay& request,
                                                         const ArchOf& arch_of = {});

}  // namespace nstance
