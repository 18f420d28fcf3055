// Token files: who may join, one JSON object per line:
//
//   {"instance_id":"knc06...","tenant":"default","token":"eyJ..."}
//
// Lines for operators have no instance id. Keys that are not known are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nstance::bench {

struct TokenLine {
  std::string instance_id = {};
  std::string tenant = {};
  std::string token = {};
};

// kInvalidArgument names the line.
[[nodiscard]] Result<std::vector<TokenLine>> ParseTokenLines(std::string_view text);
// kNotFound when there is no such file.
[[nodiscard]] Result<std::string> ReadWholeFile(const std::string& path);

}  // namespace nstance::bench
