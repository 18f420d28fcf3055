#include "core/group/group_upsert.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"
#include "core/group/group_merge.h"

namespace nstance {
namespace {

using config::Config;
using config::DynamicGroup;
using config::GroupLayer;
using config::StringMap;
using config::Template;

constexpr std::array<std::string_view, 5> kReplaceable = {"instance_type", "subnet_pool", "vars",
                                                          "args", "draw_from"};

// The request after its shape has been checked.
struct Wish {
  const UpsertRequest& request;

  [[nodiscard]] bool replaces(std::string_view field) const {
    return std::ranges::find(request.replace, field) != request.replace.end();
  }
};

bool NamesType(const Wish& wish) {
  return !wish.request.template_name.empty() || !wish.request.instance_type.empty() ||
         wish.replaces("instance_type");
}

Status CheckShape(const UpsertRequest& request) {
  for (const std::string& field : request.replace) {
    if (std::ranges::find(kReplaceable, field) == kReplaceable.end()) {
      return Fail(
          InvalidArgument(fmt::format("replace: {} cannot be replaced; one of: instance_type, "
                                      "subnet_pool, vars, args, draw_from",
                                      Quote(field))));
    }
  }
  if (request.size && (*request.size < 0 || *request.size > config::kMaxGroupSize)) {
    return Fail(InvalidArgument(fmt::format(
        "size: {} is {}; a whole number from 0 to {}", *request.size,
        *request.size < 0 ? "below the minimum" : "above the maximum", config::kMaxGroupSize)));
  }
  RETURN_IF_ERROR(CheckStringMap(request.vars, "vars", MapNames::kIdentifiers));
  RETURN_IF_ERROR(CheckStringMap(request.args, "args", MapNames::kAny));
  if (request.remove_instance_ids.size() > config::kMaxRemove) {
    return Fail(
        InvalidArgument(fmt::format("remove_instance_ids: {} ids; at most {}",
                                    request.remove_instance_ids.size(), config::kMaxRemove)));
  }
  return {};
}

json::Object ArgsOf(const StringMap& args) {
  json::Object object;
  for (const auto& [name, value] : args) {
    object.push_back({.key = name, .key_position = {}, .value = json::Value::String(value)});
  }
  return object;
}

// Members by key, in any order.
bool SameArgs(const json::Object& a, const json::Object& b) {
  return json::WriteCanonical(json::Value::Map(a)) == json::WriteCanonical(json::Value::Map(b));
}

// The request's args over `base`, key by key (not deeper: the API has only strings).
json::Object WithArgs(const json::Object& base, const Wish& wish) {
  if (wish.replaces("args")) return ArgsOf(wish.request.args);
  json::Value merged = json::Value::Map(base);
  for (const auto& [name, value] : wish.request.args) {
    merged.Set(name, json::Value::String(value));
  }
  return std::move(*merged.if_object());
}

Error Restricted(std::string_view field) {
  return FailedPrecondition(fmt::format(
      "{}: cannot be changed in a group of the configuration; size, instance_type and vars can. "
      "Change it in the file, or leave it empty",
      field));
}

// A value that is not given, or given as what holds already.
bool Untouched(const Wish& wish, std::string_view field, std::string_view given,
               std::string_view holds) {
  return given == holds || (given.empty() && !wish.replaces(field));
}

Status CheckRestricted(const Config& config, const GroupLayer& layer, const Wish& wish) {
  const UpsertRequest& request = wish.request;
  if (!request.template_name.empty() && request.template_name != layer.template_name) {
    return Fail(Restricted("template"));
  }
  const Template* const of = FindTemplate(config, layer);
  const std::optional<SubnetPoolName> pool =
      of != nullptr ? SubnetPoolOf(*of, layer) : layer.subnet_pool;
  // What holds may be said in both ways: by the name, or by nothing where the template decides.
  const bool same_pool =
      Untouched(wish, "subnet_pool", request.subnet_pool, pool ? pool->text() : "") ||
      (request.subnet_pool.empty() && !layer.subnet_pool);
  if (!same_pool) return Fail(Restricted("subnet_pool"));
  if (!SameArgs(WithArgs(layer.args, wish), layer.args)) return Fail(Restricted("args"));
  if (!Untouched(wish, "draw_from", request.draw_from,
                 layer.draw_from ? layer.draw_from->text() : "")) {
    return Fail(Restricted("draw_from"));
  }
  return {};
}

StringMap WithVars(const StringMap& base, const Wish& wish) {
  if (wish.replaces("vars")) return wish.request.vars;
  StringMap merged = base;
  for (const auto& [name, value] : wish.request.vars) merged[name] = value;
  return merged;
}

// A map may not grow without end by many small requests.
Status CheckGrowth(std::string_view field, std::size_t before, std::size_t after) {
  if (after <= kMaxMapEntries || after <= before) return {};
  return Fail(InvalidArgument(
      fmt::format("{}: {} entries after merging; at most {}. Replace the map to drop old ones",
                  field, after, kMaxMapEntries)));
}

// What every group may change.
Status ApplyOpenFields(GroupLayer& layer, const Wish& wish) {
  const UpsertRequest& request = wish.request;
  if (request.size) layer.size = static_cast<int>(*request.size);
  if (!request.instance_type.empty() || wish.replaces("instance_type")) {
    layer.instance_type = request.instance_type;
  }
  StringMap vars = WithVars(layer.vars, wish);
  RETURN_IF_ERROR(CheckGrowth("vars", layer.vars.size(), vars.size()));
  layer.vars = std::move(vars);
  return {};
}

Status ApplyDrawFrom(const UpsertWorld& world, GroupLayer& layer, const Wish& wish) {
  const std::string& name = wish.request.draw_from;
  if (name.empty()) {
    if (wish.replaces("draw_from")) layer.draw_from.reset();
    return {};
  }
  ASSIGN_OR_RETURN(GroupKey key, Under(GroupKey::Parse(name), "draw_from"));
  if (world.is_pool && !world.is_pool(key)) {
    return Fail(InvalidArgument(fmt::format(
        "draw_from: {} is not a pool of this tenant; the key of a group that has `pool`",
        Quote(name))));
  }
  layer.draw_from = std::move(key);
  return {};
}

// What only a dynamic group may change.
Status ApplyRestrictedFields(const UpsertWorld& world, GroupLayer& layer, const Wish& wish) {
  const UpsertRequest& request = wish.request;
  if (!request.template_name.empty()) {
    RETURN_IF_ERROR(CheckTemplateName(world.config, request.template_name));
    layer.template_name = request.template_name;
  }
  if (!request.subnet_pool.empty()) {
    ASSIGN_OR_RETURN(layer.subnet_pool, CheckSubnetPool(world.config, request.subnet_pool));
  } else if (wish.replaces("subnet_pool")) {
    layer.subnet_pool.reset();
  }
  json::Object args = WithArgs(layer.args, wish);
  RETURN_IF_ERROR(CheckGrowth("args", layer.args.size(), args.size()));
  layer.args = std::move(args);
  return ApplyDrawFrom(world, layer, wish);
}

std::optional<SubnetPoolName> PoolInForce(const Config& config, const GroupLayer* layer) {
  if (layer == nullptr) return std::nullopt;
  const Template* const of = FindTemplate(config, *layer);
  return of != nullptr ? SubnetPoolOf(*of, *layer) : layer->subnet_pool;
}

// A pool that the group has already stays: it may be the one of its former static layer.
Status CheckNewPool(const Config& config, const GroupLayer* before, const GroupLayer& after) {
  const std::optional<SubnetPoolName> pool = PoolInForce(config, &after);
  if (!pool || pool == PoolInForce(config, before)) return {};
  return CheckDynamicSubnetPool(config, *pool);
}

Status ApplyRemovals(DynamicGroup& group, const UpsertRequest& request) {
  if (request.remove_instance_ids.empty() && !request.size) return {};
  std::vector<InstanceId> remove;
  for (const std::string& text : request.remove_instance_ids) {
    ASSIGN_OR_RETURN(InstanceId id, Under(ParsePuidv7(text), "remove_instance_ids"));
    if (std::ranges::find(remove, id) == remove.end()) remove.push_back(std::move(id));
  }
  group.remove = std::move(remove);
  return {};
}

Status ApplyFence(DynamicGroup& group, const UpsertRequest& request) {
  if (!request.fence) return {};
  if (group.fence && group.fence->lease_uid == request.fence->lease_uid &&
      request.fence->transitions < group.fence->transitions) {
    return Fail(FailedPrecondition(fmt::format(
        "fence: transitions {} are older than {}, which wrote last; another operator leads",
        request.fence->transitions, group.fence->transitions)));
  }
  group.fence = request.fence;
  return {};
}

}  // namespace

Result<UpsertResult> ApplyUpsert(const UpsertWorld& world, const GroupLayers& layers,
                                 const UpsertRequest& request) {
  RETURN_IF_ERROR(CheckShape(request));
  const Wish wish{.request = request};
  const DynamicGroup before = layers.dynamic != nullptr ? *layers.dynamic : DynamicGroup{};
  DynamicGroup after = before;
  RETURN_IF_ERROR(ApplyFence(after, request));
  RETURN_IF_ERROR(ApplyOpenFields(after.layer, wish));
  if (layers.static_layer != nullptr) {
    RETURN_IF_ERROR(CheckRestricted(world.config, *layers.static_layer, wish));
  } else {
    RETURN_IF_ERROR(ApplyRestrictedFields(world, after.layer, wish));
    RETURN_IF_ERROR(CheckNewPool(world.config, layers.dynamic != nullptr ? &before.layer : nullptr,
                                 after.layer));
  }
  RETURN_IF_ERROR(ApplyRemovals(after, request));
  const EffectiveGroup merged = *MergeGroup(layers.static_layer, &after);
  // Who names neither type nor template may still change the size of what is there.
  RETURN_IF_ERROR(
      CheckLayer(world.config, merged.layer, NamesType(wish) ? world.arch_of : ArchOf()));
  const bool changed = after != before;
  return UpsertResult{.dynamic = std::move(after), .changed = changed};
}

}  // namespace nstance
