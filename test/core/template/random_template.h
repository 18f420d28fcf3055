// RandomTemplate: templates that mostly parse and often render, from a seed, and data for them.
//
// They use all of the language, nested. Two things are left out because Go and we differ there on
// purpose (core/template/template.h): keys that a map of mixed values does not have (every such map
// has the keys a, b and c, and only those are asked for), and complex numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"

namespace nstance::test {

class RandomTemplate final {
 public:
  explicit RandomTemplate(std::uint64_t seed) : prng_(seed) {}

  // The form of SampleFromJson().
  [[nodiscard]] std::string Data();
  [[nodiscard]] std::string Source();
  // One action.
  [[nodiscard]] std::string Small() { return Action(Pipeline(3)); }
  // A source with a few bytes changed: mostly broken.
  [[nodiscard]] std::string Broken();

 private:
  std::size_t Below(std::size_t bound) { return static_cast<std::size_t>(prng_.Below(bound)); }
  bool Chance(std::uint64_t in) { return prng_.Chance(1, in); }
  std::string_view Pick(std::initializer_list<std::string_view> choices);

  // Data.
  std::string JsonString();
  std::string Json(int depth);
  std::string JsonList(int depth);
  std::string JsonMap(int depth);
  std::string Text();

  // Sources.
  std::string Items(int depth);
  std::string Item(int depth);
  std::string Action(std::string_view inside);
  std::string Control(int depth);
  std::string Range(int depth);
  std::string Declaration(int depth);
  std::string Pipeline(int depth);
  std::string Command(int depth);
  std::string CalmCall(int depth);
  std::string Call(int depth);
  std::string Printf(int depth);
  std::string Format();
  std::string Operand(int depth);
  std::string Path();
  std::string StringLiteral();
  std::string NumberLiteral();

  Prng prng_;
  std::vector<std::string> variables_;
  std::vector<std::string> templates_;
  int loops_ = 0;
  bool defining_ = false;
  bool calm_ = false;  // Hardly any errors, so that long templates come to their end.
};

}  // namespace nstance::test
