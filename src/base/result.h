// Result<T>: a value or an Error. Nothing in this code base throws and nothing ignores a Result:
// functions that return one are [[nodiscard]], and clang-tidy refuses a dropped one.
//
//   ASSIGN_OR_RETURN(const PublicKey key, PublicKey::FromPem(text));
//   RETURN_IF_ERROR(store.Check(key));
//
// Both return the error to the caller as it is; add context with `.Under("...")` where the reader
// of the message would otherwise not know what was being done:
//
//   ASSIGN_OR_RETURN(auto doc, Under(json::Parse(bytes), "config/a.jsonc"));
#pragma once

#include <expected>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace nstance {

template <class T>
using Result = std::expected<T, Error>;

using Status = Result<void>;

[[nodiscard]] inline std::unexpected<Error> Fail(Error error) {
  return std::unexpected<Error>(std::move(error));
}

// The same result with one clause of context in front of its error, if it has one.
template <class T>
[[nodiscard]] Result<T> Under(Result<T> result, std::string_view context) {
  if (result.has_value()) return result;
  return Fail(std::move(result).error().Under(context));
}

}  // namespace nstance

#define NSTANCE_CONCAT_INNER(a, b) a##b
#define NSTANCE_CONCAT(a, b) NSTANCE_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                                                \
  do {                                                                             \
    if (auto nstance_status = (expression); !nstance_status.has_value()) {         \
      return std::unexpected<::nstance::Error>(std::move(nstance_status).error()); \
    }                                                                              \
  } while (false)

#define ASSIGN_OR_RETURN(declaration, expression) \
  NSTANCE_ASSIGN_OR_RETURN(NSTANCE_CONCAT(nstance_result_, __LINE__), declaration, expression)

#define NSTANCE_ASSIGN_OR_RETURN(temporary, declaration, expression)        \
  auto temporary = (expression);                                            \
  if (!temporary.has_value()) {                                             \
    return std::unexpected<::nstance::Error>(std::move(temporary).error()); \
  }                                                                         \
  declaration = std::move(temporary).value()
