// The functions of the template language, and the signatures by which calls of them are checked.
//
// All are pure. Those of Go have Go's results and messages; two are ours:
//   shellquote v   v as one word of a POSIX shell: 'it'\''s'. No text in it is special there.
//   yamlquote v    v as a YAML scalar on one line: strings in double quotes with JSON's escapes,
//                  numbers and booleans as they are, nil as null.
// Both take strings, numbers and booleans, one at a time. A list or a map is an error, and so are a
// NUL byte for the shell and bytes that are no UTF-8 for YAML.
//
// No message holds a value: it could be a secret.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/template/program.h"
#include "core/template/view.h"

namespace nstance::tmpl {

struct Signature {
  std::string_view name;
  std::uint32_t fixed = 0;  // Parameters in front of the variable ones.
  bool variadic = false;
  bool first_is_string = false;
};

[[nodiscard]] std::optional<Function> FindFunction(std::string_view name);
[[nodiscard]] const Signature& SignatureOf(Function function);

// Memory for texts that functions make. Handed out in order, and given back from the end.
class Scratch final {
 public:
  struct Mark {
    std::size_t chunk = 0;
    std::size_t used = 0;
  };

  [[nodiscard]] std::string_view Keep(std::string_view text);
  [[nodiscard]] Mark mark() const { return mark_; }
  // What was kept since the mark is gone.
  void Release(Mark mark) { mark_ = mark; }

 private:
  struct Chunk {
    std::unique_ptr<char[]> bytes;
    std::size_t size = 0;
  };

  std::vector<Chunk> chunks_;
  Mark mark_;
};

// What a call may use and what it costs.
struct CallContext {
  std::size_t max_text = 0;  // Bytes of one result.
  Scratch* scratch = nullptr;
  std::string* buffer = nullptr;  // Its content is lost.
  std::size_t work = 0;           // Set: bytes made or looked at.
  std::string error = {};         // Set when the call fails.
  bool too_large = false;         // Set when it fails because of max_text.
};

// Calls any function but `and` and `or`, which do not evaluate all their arguments, and `call`.
// REQUIRES: as many arguments as the signature wants.
[[nodiscard]] bool Call(Function function, std::span<const View> arguments, CallContext& context,
                        View& result);

}  // namespace nstance::tmpl
