#include "test/support/json_lines.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace nstance::test {

const std::vector<json::Value>& JsonLines::Read() {
  std::ifstream file(file_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(read_));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t whole = text.rfind('\n') + 1;  // A line may be half there.
  std::istringstream lines(text.substr(0, whole));
  for (std::string line; std::getline(lines, line);) {
    Result<json::Value> value = json::Parse(line);
    if (value.has_value() && value->if_object() != nullptr) {
      objects_.push_back(*std::move(value));
    } else {
      others_.push_back(line);
    }
  }
  read_ += whole;
  return objects_;
}

std::size_t JsonLines::Count(std::string_view key, std::string_view value) {
  std::size_t count = 0;
  for (const json::Value& object : Read()) count += TextOf(object, key) == value ? 1 : 0;
  return count;
}

const json::Value* JsonLines::Last(std::string_view key, std::string_view value) {
  const json::Value* last = nullptr;
  for (const json::Value& object : Read()) {
    if (TextOf(object, key) == value) last = &object;
  }
  return last;
}

std::string TextOf(const json::Value& object, std::string_view key) {
  const json::Value* member = object.Find(key);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : *text;
}

}  // namespace nstance::test
