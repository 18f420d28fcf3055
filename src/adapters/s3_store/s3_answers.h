// What the answers of S3 mean: pure functions from an HTTP answer to the results of the port.
//
// All are total. None of them believes more than it must: an error body under status 200, a status
// or an encoding that was not asked for, a tag that cannot be a tag are errors, and a missing
// object is only what S3 calls NoSuchKey. (An answer to HEAD has no body; there 404 has to do.)
//
// Tags. The version in the port is the tag without its quotes. A weak tag, or none, is no version.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "adapters/cloud_http/list_position.h"
#include "base/input_probe.h"
#include "base/result.h"
#include "ports/http.h"
#include "ports/object_store.h"

namespace nstance::s3 {

// The version in an `ETag` header, if it is a strong tag of 1 to 256 visible characters.
[[nodiscard]] std::optional<ObjectVersion> ParseTag(const std::string* header);

// The error document of S3; both empty when there is none.
struct S3Error {
  std::string code = {};
  std::string request_id = {};
};
[[nodiscard]] S3Error ParseError(std::string_view xml);

[[nodiscard]] Result<Object> ParseGet(const HttpResponse& answer);
[[nodiscard]] Result<ObjectHead> ParseHead(const HttpResponse& answer);
// The version is empty when the answer does not tell it: no tag, a weak one, or one of an upload in
// parts, which this was not. `condition` is a null pointer when there was none.
[[nodiscard]] Result<ObjectVersion> ParsePut(const HttpResponse& answer,
                                             const PutCondition* condition);
[[nodiscard]] Status ParseDelete(const HttpResponse& answer);
[[nodiscard]] Result<cloud::RawPage> ParseList(const HttpResponse& answer);

// The document of ListObjectsV2. kUnavailable when it is anything else.
[[nodiscard]] Result<cloud::RawPage> ParseListing(std::string_view xml, InputSource source = {});

}  // namespace nstance::s3
