#include "admin/print.h"

#include <string>

#include <fmt/format.h>

#include "base/json.h"

namespace nstance::admin {

Ending Failed(std::string_view message, std::string_view code, Output output) {
  Ending ending{.exit_code = kExitError};
  if (output == Output::kTable) {
    ending.err = fmt::format("Error: {}\n", message);
    return ending;
  }
  ending.err = "{\"error\":";
  json::AppendString(ending.err, message);
  ending.err += ",\"code\":";
  json::AppendString(ending.err, code);
  ending.err += "}\n";
  return ending;
}

Ending Failed(const Error& error, Output output) {
  Ending ending = Failed(error.message, CodeName(error.code), output);
  if (error.code == Code::kNotFound) ending.exit_code = kExitNotFound;
  return ending;
}

}  // namespace nstance::admin
