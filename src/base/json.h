// JSON values, a strict parser for JSON and JSONC, and a writer that matches Go's encoding/json.
//
// Parser. Total: any bytes in, a value or an Error with line and column out. Every value and every
// key remembers where it stood. Lines and columns count from 1; columns count bytes.
//   - refused: a byte order mark, invalid UTF-8, lone surrogates, control characters in strings,
//     numbers with a leading zero or plus, numbers that no double holds (1e999), negative zero,
//     anything after the value, duplicate keys (unless the caller collects them)
//   - limits: bytes, nesting depth; reached ones count in limit_hits_total
//   - JSONC adds // and /* */ comments (not nested) and a comma after the last member
//   - a number too small for a double (1e-999) is zero
//   - work is O(n log n) and memory at most 32 times the text, whatever the text is
// What is refused counts in bad_input_total under one of: syntax, utf8, surrogate, number,
// duplicate-key, json-bytes, json-depth.
//
// Numbers. A literal without fraction and exponent that fits 64 bits signed is an integer and stays
// exact; every other number is a double.
//
// Writer. Compact or indented, keys in the order given or sorted by bytes. Strings as Go writes
// them: < > & U+2028 U+2029 as \u003c..., short forms for \n \r \t \b \f, other control characters
// \u00xx, everything else raw. Doubles: shortest digits that read back, exponent form outside
// 1e-6 <= |x| < 1e21. Canonical form = sorted, compact, all numbers as doubles (integers above 2^53
// lose precision on purpose, as in Go): two equal configurations have the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/input_probe.h"
#include "base/result.h"

namespace nstance::json {

// Where something stood in the text; line 0 means "made by the program".
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

class Value;
struct Member;

using Array = std::vector<Value>;
using Object = std::vector<Member>;  // In the order of the text.

enum class Type : std::uint8_t { kNull, kBool, kInteger, kDouble, kString, kArray, kObject };

// "null", "a boolean", "a number", "a string", "a list", "an object": for messages.
[[nodiscard]] std::string_view TypeName(Type type);

class Value {
 public:
  Value();  // null
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();

  [[nodiscard]] static Value Bool(bool value);
  [[nodiscard]] static Value Integer(std::int64_t value);
  // Negative zero becomes zero: the parser refuses the one, so nothing may write it. REQUIRES:
  // finite.
  [[nodiscard]] static Value Double(double value);
  // REQUIRES: valid UTF-8; written, any other byte becomes U+FFFD.
  [[nodiscard]] static Value String(std::string value);
  [[nodiscard]] static Value List(Array items);
  // REQUIRES: keys are valid UTF-8 and differ.
  [[nodiscard]] static Value Map(Object members);

  [[nodiscard]] Type type() const;
  [[nodiscard]] bool is_null() const { return type() == Type::kNull; }

  // Null pointer when the value is of another type.
  [[nodiscard]] const bool* if_bool() const;
  [[nodiscard]] const std::int64_t* if_integer() const;
  [[nodiscard]] const std::string* if_string() const;
  [[nodiscard]] const Array* if_array() const;
  [[nodiscard]] const Object* if_object() const;
  [[nodiscard]] Array* if_array();
  [[nodiscard]] Object* if_object();
  // Integer or double.
  [[nodiscard]] std::optional<double> AsDouble() const;

  // The member of an object, or null pointer: no object, or no such key.
  [[nodiscard]] const Value* Find(std::string_view key) const;
  [[nodiscard]] Value* Find(std::string_view key);
  // Replaces or appends a member. REQUIRES: object.
  void Set(std::string_view key, Value value);
  // Removes a member if it is there. REQUIRES: object.
  void Remove(std::string_view key);

  [[nodiscard]] Position position() const { return position_; }
  void set_position(Position position) { position_ = position; }

  // Same type and content; positions do not count, the order of members does. An integer and a
  // double are equal if their doubles are: 1.0 is written as 1 and read back as that.
  friend bool operator==(const Value& a, const Value& b);

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> data_;
  Position position_;
};

struct Member {
  std::string key;
  Position key_position;
  Value value;

  // Same key and value; positions do not count.
  friend bool operator==(const Member& a, const Member& b);
};

enum class Syntax : std::uint8_t { kJson, kJsonc };

struct DuplicateKey {
  std::string key;
  Position first;
  Position again;
};

// The most that ParseOptions::max_depth may be: what handles values recurses, and stacks are
// finite.
inline constexpr int kMaxDepth = 256;
// How many duplicates are told of; the members beyond are dropped all the same.
inline constexpr std::size_t kMaxDuplicates = 1'000;

struct ParseOptions {
  Syntax syntax = Syntax::kJson;
  // Compared before any work is done; no text above 4 GiB is read.
  std::size_t max_bytes = std::size_t{4} * 1024 * 1024;
  // Lists and objects inside each other; 0 allows none. REQUIRES: 0 to kMaxDepth.
  int max_depth = 64;
  // Where duplicates are appended, object by object as they end; the later member is dropped from
  // the object and counts nowhere. Null: a duplicate is an error, found when its object ends.
  std::vector<DuplicateKey>* duplicates = nullptr;
  InputSource source = {};
};

// Errors are kInvalidArgument "line:column: what was found; what is allowed", limits
// kResourceExhausted (the one on bytes without a position). No message shows more of the text than
// one character or a key, since values may be secret.
[[nodiscard]] Result<Value> Parse(std::string_view text, const ParseOptions& options = {});

enum class KeyOrder : std::uint8_t { kAsGiven, kSorted };
enum class Numbers : std::uint8_t { kExact, kAsDoubles };

struct WriteOptions {
  KeyOrder key_order = KeyOrder::kAsGiven;
  Numbers numbers = Numbers::kExact;
  // Spaces per level; 0 writes everything on one line without blanks. Empty lists and objects stay
  // [] and {}, and there is no final newline.
  int indent = 0;
};

[[nodiscard]] std::string Write(const Value& value, const WriteOptions& options = {});
// Sorted, compact, numbers as doubles.
[[nodiscard]] std::string WriteCanonical(const Value& value);

// The quoted, escaped form of one string, and the text of one double: for code that writes a fixed
// layout by hand. A byte that is not UTF-8 is written as \ufffd, as Go does, and negative zero as
// 0. REQUIRES: finite.
void AppendString(std::string& out, std::string_view text);
void AppendDouble(std::string& out, double value);

}  // namespace nstance::json
