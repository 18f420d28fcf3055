#include "admin/storage/fields.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"

namespace nstance::admin {

Ending Told(const Fields& fields, const std::vector<std::string>& warnings,
            const CommonFlags& common) {
  Ending ending;
  if (common.output == Output::kJson) {
    json::Value out = json::Value::Map({});
    for (const auto& [name, value] : fields) out.Set(name, json::Value::String(value));
    if (!warnings.empty()) {
      json::Array list;
      list.reserve(warnings.size());
      for (const std::string& warning : warnings) list.push_back(json::Value::String(warning));
      out.Set("warnings", json::Value::List(std::move(list)));
    }
    ending.out = json::Write(out, {.indent = 2}) + "\n";
    return ending;
  }
  std::size_t width = 0;
  for (const auto& [name, value] : fields) width = std::max(width, name.size());
  for (const auto& [name, value] : fields) {
    ending.out += fmt::format("{:<{}}  ", name, width);
    AppendEscaped(ending.out, value);
    ending.out += '\n';
  }
  for (const std::string& warning : warnings) {
    ending.err += fmt::format("Warning: {}\n", warning);
  }
  return ending;
}

}  // namespace nstance::admin
