#include "server/services/group_status.h"

#include <utility>

namespace nstance {

api::GroupStatus GroupStatusOf(const Fleet& fleet, const TenantId& tenant, const GroupKey& key,
                               const MergedGroup& group) {
  const config::GroupLayer& layer = group.group.layer;
  GroupFigures figures = fleet.Figures(tenant, key);
  return {.key = key.text(),
          .tenant = tenant.text(),
          .template_name = layer.template_name.value_or(""),
          .size = group.group.size(),
          .instance_type = layer.instance_type,
          .subnet_pool = layer.subnet_pool ? layer.subnet_pool->text() : std::string(),
          .vars = layer.vars,
          .is_static = group.group.is_static,
          .etag = group.etag,
          .actual_size = figures.actual_size,
          .provider_ids = std::move(figures.provider_ids),
          .draining = figures.draining,
          .creating = figures.creating,
          .ready = figures.ready,
          .instance_ids = std::move(figures.instance_ids),
          .pool = layer.pool.has_value(),
          .draw_from = layer.draw_from ? layer.draw_from->text() : std::string()};
}

}  // namespace nstance
