// Alarm: something that a person should look at (faults.md 1). It becomes a line in the log, one in
// `alarms_total{alarm}` and, where a tenant is concerned, an error and an event of that tenant.
//
// Whoever may cause an alarm over and over raises it once per spell: a tenant that could fill the
// log would hide what others have to say.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/name.h"
#include "base/puidv7.h"

namespace nstance {

struct Alarm {
  std::string_view name;  // A literal, and a row of docs/operations.md.
  std::string detail = {};
  // Whose it is. An instance of the table tells by itself.
  std::optional<TenantId> tenant = std::nullopt;
  std::optional<GroupKey> group = std::nullopt;
  std::optional<InstanceId> instance_id = std::nullopt;
};

}  // namespace nstance
