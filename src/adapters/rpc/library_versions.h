// Which libraries the transport runs on, for `--version` (security.md 8).
#pragma once

#include <string>

namespace nstance::grpc {

// "nghttp2 1.52.0\nOpenSSL 3.0.17\n": as they are loaded.
[[nodiscard]] std::string LibraryVersions();

}  // namespace nstance::grpc
