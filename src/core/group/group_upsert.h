// UpsertGroup as a function: the layers of a group and a request in, its new dynamic layer out.
//
//   ASSIGN_OR_RETURN(UpsertResult upsert, ApplyUpsert(world, layers, request));
//   if (!upsert.changed) return Status(group);      // No write.
//   Write(upsert.dynamic);                          // By compare-and-swap; on conflict, again.
//
//   field          | dynamic group                     | group with a static layer
//   ---------------+-----------------------------------+---------------------------------------
//   template       | empty: unchanged; new group:      | empty or the static value; else refused
//                  | required                          |
//   size           | taken unless unset                | taken unless unset
//   instance_type  | empty: unchanged                  | the same; overrides the static value
//   subnet_pool    | empty: unchanged                  | empty or the static value; else refused
//   vars           | merged by key                     | the same; overlay the static ones
//   args           | merged by key                     | only what the static value says; else
//   draw_from      | empty: unchanged                  | refused; likewise
//
// A field listed in `replace` is taken exactly as given: empty removes it.
//
// The architecture of the instance type is judged when the request names a type or a template: the
// size of a group whose type does not fit can still be changed, above all to zero.
//
// Guarantees, each held by a test:
//   - an error changes nothing, and no input is ever changed
//   - the same request again gives changed = false
//   - what comes out is a group of which instances can be made (CheckGroup holds)
//
// Errors: kFailedPrecondition for a restricted field of a static group (which is named) and for a
// fence that is older than the stored one, kInvalidArgument for everything else.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/name.h"
#include "base/result.h"
#include "core/config/config.h"
#include "core/config/dynamic_groups.h"
#include "core/group/group_rules.h"

namespace nstance {

struct UpsertRequest {
  std::string template_name = {};
  std::optional<std::int64_t> size = std::nullopt;  // Empty: `size_unset`.
  std::string instance_type = {};
  std::string subnet_pool = {};
  config::StringMap vars = {};
  config::StringMap args = {};
  std::string draw_from = {};
  // Of instance_type, subnet_pool, vars, args, draw_from.
  std::vector<std::string> replace = {};
  std::vector<std::string> remove_instance_ids = {};
  std::optional<config::Fence> fence = std::nullopt;
};

// What the group may refer to.
struct UpsertWorld {
  const config::Config& config;
  ArchOf arch_of = {};
  // Whether a group of the same tenant exists and is a pool.
  std::function<bool(const GroupKey&)> is_pool = {};
};

// Null pointers stand for absent layers; both absent: a new group.
struct GroupLayers {
  const config::GroupLayer* static_layer = nullptr;
  const config::DynamicGroup* dynamic = nullptr;
};

struct UpsertResult {
  config::DynamicGroup dynamic = {};
  bool changed = false;
};

[[nodiscard]] Result<UpsertResult> ApplyUpsert(const UpsertWorld& world, const GroupLayers& layers,
                                               const UpsertRequest& request);

}  // namespace nstance
