// Answers that must not be believed, whatever their status: what we did not ask for.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ports/http.h"

namespace nstance::cloud {

// Fails with kUnavailable for an answer with a body that we did not ask for in this form: a
// content-encoding (nobody asked for gzip), or neither a length nor chunks, so that a cut cannot be
// noticed.
[[nodiscard]] Status CheckBodyForm(const HttpResponse& answer);

// What `parse` makes of an answer, or the error that came instead of one.
template <class Parse>
[[nodiscard]] auto Translate(const Result<HttpResponse>& answer, Parse parse)
    -> decltype(parse(*answer)) {
  if (!answer) return Fail(answer.error());
  return parse(*answer);
}

// Base64 of the MD5 digest, as Content-MD5 and x-goog-hash carry it. Integrity only.
[[nodiscard]] std::string Md5Base64(std::string_view bytes);

// "application/json", "application/x-pem-file" or "application/octet-stream", by the key's ending.
[[nodiscard]] std::string_view ContentTypeOf(std::string_view key);

}  // namespace nstance::cloud
