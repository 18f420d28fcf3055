// Which shard has an instance: all are asked, one answers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "admin/shard/fan.h"
#include "admin/shard/session.h"
#include "ports/api/instances.h"

namespace nstance::admin {

struct FoundInstance {
  std::size_t server = 0;
  api::InstanceStatusResponse status = {};
};

// One of the answers to GetInstanceStatus. kNotFound: no shard has it. A shard that could not be
// asked may be the one: its error, and who does not have it.
[[nodiscard]] Result<FoundInstance> PickFound(const Session& session, const std::string& id,
                                              const ShardAnswers<api::InstanceStatusResponse>& all);

// How `id` ends when it was not found: one error, without a shard.
[[nodiscard]] Ending NotThere(const Session& session, const Error& error);

}  // namespace nstance::admin
