#include "adapters/rpc_codec/element_limits.h"

#include <array>

#include "adapters/rpc_codec/wire_shape.h"

namespace nstance::rpc_codec {
namespace {

struct Row {
  std::string_view field;
  std::uint32_t limit = 0;
};

constexpr std::uint32_t kMessagesByDefault = 16'384;

// The first block is the wire contract's own; the second bounds what it leaves open, far above
// anything that makes sense.
constexpr std::array kRows = {
    Row{.field = "nstance.v1.ClaimInstanceRequest.vars", .limit = 16},
    Row{.field = "nstance.v1.GroupConfig.args", .limit = 128},
    Row{.field = "nstance.v1.GroupConfig.vars", .limit = 128},
    Row{.field = "nstance.v1.InstanceConfig.vars", .limit = 128},
    Row{.field = "nstance.v1.ListInstancesResponse.instances", .limit = 1'000},
    Row{.field = "nstance.v1.PublicKeysRequest.keys", .limit = 64},
    Row{.field = "nstance.v1.UpsertGroupRequest.remove_instance_ids", .limit = 256},

    Row{.field = "nstance.v1.HealthReportRequest.files", .limit = 1'024},
    Row{.field = "nstance.v1.KeyGenerationRequest.key_names", .limit = 1'024},
    Row{.field = "nstance.v1.ListInstancesRequest.phases", .limit = 64},
    Row{.field = "nstance.v1.UpsertGroupRequest.replace", .limit = 64},
};

}  // namespace

std::uint32_t ElementLimit(std::string_view full_name, ElementKind kind) {
  for (const Row& row : kRows) {
    if (row.field == full_name) return row.limit;
  }
  return kind == ElementKind::kMessage ? kMessagesByDefault : kMaxMessageElements;
}

}  // namespace nstance::rpc_codec
