// Which library messages are coded with, for `--version` (security.md 8).
#pragma once

#include <string>

namespace nstance::rpc_codec {

// "protobuf 3.21.12\n": that of this build. Another one that is loaded ends the process at start.
[[nodiscard]] std::string LibraryVersions();

}  // namespace nstance::rpc_codec
