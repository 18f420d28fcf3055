// The libraries that all programs take input with, one per line, for `--version` (security.md 8).
#pragma once

#include <string>

#include "adapters/rpc/library_versions.h"
#include "adapters/rpc_codec/library_versions.h"

namespace nstance {

[[nodiscard]] inline std::string LibraryVersions() {
  return grpc::LibraryVersions() + rpc_codec::LibraryVersions();
}

}  // namespace nstance
