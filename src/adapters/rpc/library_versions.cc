#include "adapters/rpc/library_versions.h"

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>
#include <openssl/crypto.h>

namespace nstance::grpc {

std::string LibraryVersions() {
  return fmt::format("nghttp2 {}\nOpenSSL {}\n", nghttp2_version(0)->version_str,
                     OpenSSL_version(OPENSSL_VERSION_STRING));
}

}  // namespace nstance::grpc
