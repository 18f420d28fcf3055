// A question to somebody at the terminal before something is deleted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "admin/shard/session.h"

namespace nstance::admin {

// "... [y/N] "; true for y and yes. Dropping the Pending withdraws it.
[[nodiscard]] Pending AskYesNo(Session& session, std::string_view question,
                               std::move_only_function<void(bool yes)> answered);

// Nobody can be asked: what to do instead.
[[nodiscard]] Ending NobodyToAsk(const Session& session);
[[nodiscard]] Ending NotConfirmed();

}  // namespace nstance::admin
