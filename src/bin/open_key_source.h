// Key sources as a configuration or a flag names them.
#pragma once

#include <memory>

#include "base/result.h"
#include "core/config/config.h"
#include "ports/key_source.h"
#include "ports/loop.h"

namespace nstance {

// kInvalidArgument: this build has no such source. `loop` outlives the source.
[[nodiscard]] Result<std::unique_ptr<KeySource>> OpenKeySource(Loop& loop,
                                                               const config::EncryptionKey& key);

}  // namespace nstance
