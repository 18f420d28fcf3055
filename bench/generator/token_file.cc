#include "bench/generator/token_file.h"

#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "base/json.h"

namespace nstance::bench {
namespace {

std::string Text(const json::Value& line, std::string_view key) {
  const json::Value* value = line.Find(key);
  const std::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : *text;
}

}  // namespace

Result<std::vector<TokenLine>> ParseTokenLines(std::string_view text) {
  std::vector<TokenLine> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;
    const Result<json::Value> value = json::Parse(line);
    if (!value.has_value()) {
      return Fail(InvalidArgument(fmt::format("line {}: {}", number, value.error().message)));
    }
    TokenLine read{.instance_id = Text(*value, "instance_id"),
                   .tenant = Text(*value, "tenant"),
                   .token = Text(*value, "token")};
    if (read.tenant.empty() || read.token.empty()) {
      return Fail(InvalidArgument(fmt::format("line {}: needs `tenant` and `token`", number)));
    }
    lines.push_back(std::move(read));
  }
  return lines;
}

Result<std::string> ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(NotFound(fmt::format("{}: cannot be read", path)));
  return std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace nstance::bench
