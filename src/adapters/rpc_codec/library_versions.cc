#include "adapters/rpc_codec/library_versions.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>

namespace nstance::rpc_codec {

std::string LibraryVersions() {
  constexpr int kNumber = GOOGLE_PROTOBUF_VERSION;  // 3021012
  return fmt::format("protobuf {}.{}.{}\n", kNumber / 1'000'000, kNumber / 1'000 % 1'000,
                     kNumber % 1'000);
}

}  // namespace nstance::rpc_codec
