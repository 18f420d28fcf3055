// Template: Go's text/template, parsed once and rendered many times.
//
//   ASSIGN_OR_RETURN(const Template userdata, Template::Parse("userdata", source));
//   ASSIGN_OR_RETURN(const std::string text, userdata.Render(data));
//
// The language is that of Go 1.26 with its built-in functions, `shellquote` and `yamlquote`, and no
// others: nothing in it reads files, starts processes or knows the time. Values are data; they are
// never parsed again. `call` parses, and is an error when it runs: there are no function values.
//
// Guarantees, held by tests:
//   - output and errors are byte for byte those of Go, but for the differences below
//   - rendering is a pure function of template, data and limits; it changes neither, so templates
//     are shared and copied freely
//   - any bytes parse or give an error, and any template renders or gives an error, in bounded time
//     and memory: see Limits. Nothing is rendered in part.
//
// Differences from Go, all on purpose:
//   - a key that a map does not have is the empty string, in maps of any values too
//   - complex numbers are refused when parsing; %p is a wrong verb
//   - templates call each other at most 100 deep, and the parser has limits (parser.h)
//   - messages never show a value, which could be a secret: where Go says "range can't iterate over
//     <value>", "non-comparable type <value>: <type>" or names the piped argument of `call`, the
//     type stands; `len nil` says "len of nil pointer"
//   - an expression of more than 1,000 characters is cut in messages
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_probe.h"
#include "base/result.h"
#include "core/template/value.h"

namespace nstance::tmpl {

struct Program;

// Where in the source something stands. Lines and columns count from 1, columns in bytes.
struct Place {
  std::size_t offset = 0;
  std::uint32_t line = 1;
  std::uint32_t column = 1;
  friend bool operator==(const Place&, const Place&) = default;
};

inline constexpr std::size_t kMaxSourceBytes = std::size_t{256} * 1024;

// What one rendering may cost. Beyond it there is an error of code kResourceExhausted.
struct Limits {
  std::size_t output_bytes = std::size_t{1024} * 1024;  // Also of one text that a function makes.
  // Texts, actions, iterations and commands; and sixteen bytes of text made or compared by
  // functions, so that memory for such texts is bounded as well.
  std::uint64_t steps = 1'000'000;
  std::uint32_t depth = 100;  // Of templates that call each other.
};

struct ParseOptions {
  std::size_t max_bytes = kMaxSourceBytes;
  Place* error_at = nullptr;  // Where the error is, if there is one.
  // Counts what is refused: template-syntax, and the limit template-bytes.
  InputSource source = {};
};

struct RenderOptions {
  Limits limits = {};
  Place* error_at = nullptr;
};

class Template final {
 public:
  // Errors are kInvalidArgument "template: <name>:<line>: ...", or kResourceExhausted for a source
  // that is too long.
  [[nodiscard]] static Result<Template> Parse(std::string_view name, std::string_view source,
                                              const ParseOptions& options = {});

  // Errors are "template: <name>:<line>:<column>: executing "<name>" at <expression>: ..." with
  // Go's column, which counts from 0.
  [[nodiscard]] Result<std::string> Render(const Value& data,
                                           const RenderOptions& options = {}) const;

  // Whether every {{template "x"}} names a template that there is, also where rendering does not
  // come by.
  [[nodiscard]] Status CheckNames(Place* error_at = nullptr) const;

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& source() const;
  // For lint.h.
  [[nodiscard]] const Program& program() const { return *program_; }

 private:
  explicit Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  std::shared_ptr<const Program> program_;
};

// The place of a byte of a text.
[[nodiscard]] Place PlaceOf(std::string_view text, std::size_t offset);

}  // namespace nstance::tmpl
