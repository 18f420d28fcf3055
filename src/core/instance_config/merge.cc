#include "core/instance_config/merge.h"

#include <utility>

#include <fmt/core.h>

#include "base/text.h"
#include "core/config/args.h"

namespace nstance {
namespace {

using config::Config;
using config::GroupLayer;
using config::StringMap;
using config::Template;

Error Restricted(std::string_view field, std::string_view given) {
  return FailedPrecondition(fmt::format(
      "{}: {} differs from that of the group, which the configuration defines; leave it "
      "empty",
      field, Quote(given)));
}

Status CheckRestricted(const Config& config, const EffectiveGroup& group,
                       const InstanceOverlay& request) {
  if (!group.is_static) return {};
  if (!request.template_name.empty() && request.template_name != group.layer.template_name) {
    return Fail(Restricted("template", request.template_name));
  }
  const Template& of = *FindTemplate(config, group.layer);
  if (!request.subnet_pool.empty() &&
      request.subnet_pool != SubnetPoolOf(of, group.layer)->text()) {
    return Fail(Restricted("subnet_pool", request.subnet_pool));
  }
  return {};
}

}  // namespace

StringMap MergeVars(const StringMap& base, const StringMap& over) {
  StringMap merged = base;
  for (const auto& [name, value] : over) merged[name] = value;
  return merged;
}

Result<MergedInstanceConfig> MergeInstanceConfig(const Config& config, const GroupLayer& group) {
  const Template* const of = FindTemplate(config, group);
  if (of == nullptr) {
    return Fail(FailedPrecondition(group.template_name ? fmt::format("template: {} is not defined",
                                                                     Quote(*group.template_name))
                                                       : "template: missing"));
  }
  return MergedInstanceConfig{
      .template_name = *group.template_name,
      .kind = of->kind,
      .arch = of->arch,
      .instance_type = InstanceTypeOf(*of, group),
      .subnet_pool = SubnetPoolOf(*of, group),
      .args = config::MergeArgs(config::MergeArgs(config.defaults.args, of->args), group.args),
      .vars = MergeVars(MergeVars(config.defaults.vars, of->vars), group.vars),
      .files = of->files,
      .userdata = of->userdata ? of->userdata : config.defaults.userdata};
}

Result<GroupLayer> OverlayInstance(const Config& config, const EffectiveGroup& group,
                                   const InstanceOverlay& request, const ArchOf& arch_of) {
  RETURN_IF_ERROR(CheckGroup(config, group));
  RETURN_IF_ERROR(CheckStringMap(request.vars, "vars", MapNames::kIdentifiers));
  RETURN_IF_ERROR(CheckRestricted(config, group, request));
  GroupLayer layer = group.layer;
  if (!request.template_name.empty()) {
    RETURN_IF_ERROR(CheckTemplateName(config, request.template_name));
    layer.template_name = request.template_name;
  }
  if (!request.instance_type.empty()) layer.instance_type = request.instance_type;
  if (!request.subnet_pool.empty()) {
    ASSIGN_OR_RETURN(layer.subnet_pool, CheckSubnetPool(config, request.subnet_pool));
  }
  layer.vars = MergeVars(layer.vars, request.vars);
  RETURN_IF_ERROR(CheckLayer(config, layer, arch_of));
  RETURN_IF_ERROR(
      CheckDynamicSubnetPool(config, *SubnetPoolOf(*FindTemplate(config, layer), layer)));
  return layer;
}

}  // namespace nstance
