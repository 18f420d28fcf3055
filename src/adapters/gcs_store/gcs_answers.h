// What the answers of Google Cloud Storage mean: pure functions from an HTTP answer to the results
// of the port.
//
// All are total. None of them believes more than it must: a status or an encoding that was not
// asked for, a digest that does not fit the bytes, a generation that is no number are errors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "adapters/cloud_http/list_position.h"
#include "base/result.h"
#include "ports/http.h"
#include "ports/object_store.h"

namespace nstance::gcs {

// The `reason` in an error document ("conditionNotMet"); empty when there is none.
[[nodiscard]] std::string ParseReason(std::string_view json);

// A generation, which is a number above 0: 0 is that of what does not exist.
[[nodiscard]] std::optional<ObjectVersion> ParseGeneration(std::string_view text);

[[nodiscard]] Result<Object> ParseGet(const HttpResponse& answer);
[[nodiscard]] Result<ObjectHead> ParseHead(const HttpResponse& answer);

struct Uploaded {
  std::string_view md5_base64;              // Of what was sent.
  const PutCondition* condition = nullptr;  // Null pointer: none.
};
// The version is empty when the answer does not tell it.
[[nodiscard]] Result<ObjectVersion> ParsePut(const HttpResponse& answer, const Uploaded& uploaded);
[[nodiscard]] Status ParseDelete(const HttpResponse& answer);
[[nodiscard]] Result<cloud::RawPage> ParseList(const HttpResponse& answer);

}  // namespace nstance::gcs
