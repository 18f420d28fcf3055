// What a service of AWS does with a signed request: computes the signature again and compares.
//
// Written from the description of Signature Version 4, independent of what signs. Only the form in
// headers, one chunk, and paths as S3 signs them (encoded once).
#pragma once

#include <string>
#include <string_view>

#include "test/support/raw_http_server.h"

namespace nstance::test {

// Empty when the signature is right; otherwise what is wrong, for the message of a failing test.
// Besides the signature it demands that host, every x-amz- header and content-type are signed, that
// x-amz-content-sha256 is the digest of the body, and that the secret is nowhere in the request.
[[nodiscard]] std::string CheckAwsSignature(const RawRequest& request, std::string_view secret_key);

}  // namespace nstance::test
