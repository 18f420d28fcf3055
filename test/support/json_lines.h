// JsonLines: what a program has told so far as JSON lines in its output file.
//
//   JsonLines told(output_file);
//   ASSERT_TRUE(RunUntil(loop, [&] { return told.Has("event", "registered"); }));
//
// Lines that are not JSON objects (a crash, a warning of a library) are kept apart.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace nstance::test {

class JsonLines final {
 public:
  explicit JsonLines(std::string file) : file_(std::move(file)) {}

  // All objects so far, in order; what is new in the file has been read.
  [[nodiscard]] const std::vector<json::Value>& Read();
  // How many objects have that member with that text.
  [[nodiscard]] std::size_t Count(std::string_view key, std::string_view value);
  [[nodiscard]] bool Has(std::string_view key, std::string_view value) {
    return Count(key, value) > 0;
  }
  // The last object that has it, or null.
  [[nodiscard]] const json::Value* Last(std::string_view key, std::string_view value);

  [[nodiscard]] const std::vector<std::string>& others() const { return others_; }

 private:
  std::string file_;
  std::size_t read_ = 0;
  std::vector<json::Value> objects_;
  std::vector<std::string> others_;
};

// The text of a member; empty when there is none, or it is no text.
[[nodiscard]] std::string TextOf(const json::Value& object, std::string_view key);

}  // namespace nstance::test
