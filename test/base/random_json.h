// RandomJson: values and texts for tests, drawn from a Prng. Favours what breaks parsers and
// writers: all kinds of Unicode, escapes, doubles at the edges, integers beyond 2^53.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/prng.h"

namespace nstance::test {

// How Text() dresses a value up.
struct TextStyle {
  json::Syntax syntax = json::Syntax::kJson;
  // One line: white space is spaces and tabs only.
  bool one_line = false;
};

class RandomJson final {
 public:
  explicit RandomJson(std::uint64_t seed) : prng_(seed) {}

  // At most `depth` lists and objects inside each other.
  [[nodiscard]] json::Value Value(int depth);
  [[nodiscard]] std::string String();
  // Finite, not zero.
  [[nodiscard]] double Double();
  // A number as text that no writer would write: many digits, any exponent. Never negative zero.
  [[nodiscard]] std::string NumberLiteral();

  // A text of the value that differs from what Write() gives: blanks, needless escapes, other
  // spellings of numbers; in JSONC also comments and last commas. Members keep their order.
  [[nodiscard]] std::string Text(const json::Value& value, const TextStyle& style);

  // The same value with the members of all objects in another order.
  [[nodiscard]] json::Value Shuffled(const json::Value& value);

  Prng& prng() { return prng_; }

 private:
  std::uint32_t CodePoint();
  std::int64_t Integer();
  json::Value Number();
  void AppendText(std::string& out, const json::Value& value, const TextStyle& style);
  void AppendBlanks(std::string& out, const TextStyle& style);
  void AppendQuoted(std::string& out, const std::string& text);

  Prng prng_;
};

}  // namespace nstance::test
