// XML: a small, strict reader for the answers of clouds. It reads; nothing here writes.
//
// Total: any bytes in, a tree or an Error with line and column out, in linear time. Only what such
// answers are made of is accepted:
//   - one root element, before it nothing but an XML declaration and white space
//   - elements with attributes, which are checked and dropped; names are kept with their prefix
//   - text with &lt; &gt; &amp; &quot; &apos; and character references to characters that XML
//     allows
// Refused: document types and with them all other entities, comments, CDATA sections, processing
// instructions, byte order marks, invalid UTF-8, control characters, text outside the root, a name
// that ends another element than the open one, a cut text.
//
// Limits: bytes, depth, number of elements; reached ones count in limit_hits_total. What is refused
// counts in bad_input_total under one of: xml-syntax, utf8, xml-bytes, xml-depth, xml-elements.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_probe.h"
#include "base/result.h"

namespace nstance::xml {

struct Element {
  std::string name = {};
  // What stands directly in the element, all pieces together, references resolved.
  std::string text = {};
  std::vector<Element> children = {};

  // The first child of that name, or null pointer.
  [[nodiscard]] const Element* Find(std::string_view child) const;
  // The text of the first child of that name; empty when there is none.
  [[nodiscard]] std::string_view TextOf(std::string_view child) const;
};

// The most that ParseOptions::max_depth may be: a tree is destroyed by recursion.
inline constexpr std::size_t kMaxDepth = 256;

struct ParseOptions {
  std::size_t max_bytes = std::size_t{4} * 1024 * 1024;
  // Elements inside each other, the root included. REQUIRES: 1 to kMaxDepth.
  std::size_t max_depth = 16;
  std::size_t max_elements = 100'000;
  InputSource source = {};
};

// Errors are kInvalidArgument "line:column: what was found", limits kResourceExhausted. No message
// shows any of the text but names of elements, since values may be secret.
[[nodiscard]] Result<Element> Parse(std::string_view text, const ParseOptions& options = {});

}  // namespace nstance::xml
