// --validate: checks the stored configuration, or a file, and says what is wrong with it.
#pragma once

#include "server/process/command_line.h"

namespace nstance {

// Exit codes: 0 without errors (warnings are printed all the same), 1 when it cannot be read, 3
// when it is wrong. Blocks; for a stored one not longer than the store's deadline.
[[nodiscard]] ServerEnding ValidateConfig(const ServerCommandLine& line);

}  // namespace nstance
