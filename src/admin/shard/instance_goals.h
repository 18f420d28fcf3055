// What `instance create` and `instance delete` wait for.
#pragma once

#include <string>
#include <vector>

#include "admin/shard/progress.h"
#include "admin/shard/session.h"
#include "admin/shard/wait.h"
#include "ports/api/instances.h"

namespace nstance::admin {

// What one look says about an instance that is to register. kNotFound and every phase on the way
// out are failures.
[[nodiscard]] Result<Progress> RegistrationOf(const Result<api::InstanceStatusResponse>& status);

[[nodiscard]] WaitGoal RegisteredGoal(const Session& session, std::size_t server,
                                      const std::string& id);

// Until all of them, in one shard, are gone.
[[nodiscard]] WaitGoal InstancesGoneGoal(const Session& session, std::size_t server,
                                         const std::vector<std::string>& ids);

}  // namespace nstance::admin
