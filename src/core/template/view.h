// View: a value while a template runs. It owns nothing, so copying one costs four words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/template/value.h"

namespace nstance::tmpl {

struct ListData {
  std::vector<Value> items;
};

struct MapData {
  std::vector<std::pair<std::string, Value>> members;  // Sorted by key.
  bool strings = false;                                // Go's map[string]string.

  // Null pointer when there is no such key.
  [[nodiscard]] const Value* Find(std::string_view key) const;
};

struct RecordData {
  const RecordType* type = nullptr;
  std::vector<Value> fields;

  // Null pointer when there is no such field.
  [[nodiscard]] const Value* Find(std::string_view name) const;
};

enum class Kind : std::uint8_t {
  kNil,
  kBool,
  kInt,
  kByte,  // Go's uint8: what `index "abc" 1` gives.
  kFloat,
  kString,
  kList,
  kMap,
  kRecord,
  kUnset,  // Of a variable whose declaration was jumped over by `and` or `or`.
};

struct View {
  Kind kind = Kind::kNil;
  // Held in a Go interface: the elements of lists and of maps that are not of strings. A few
  // messages, and what happens to a field of nil, depend on it.
  bool boxed = false;
  // A list that was sliced can be sliced again up to here.
  std::uint32_t capacity = 0;
  std::size_t size = 0;  // Of the string or list.
  union {
    std::int64_t integer = 0;  // kBool, kInt, kByte
    Float real;
    const char* text;
    const Value* items;
    const MapData* map;
    const RecordData* record;
  };

  [[nodiscard]] static View Of(const Value& value);
  // The same as an element of a list or map.
  [[nodiscard]] static View Element(const Value& value) {
    View view = Of(value);
    view.boxed = true;
    return view;
  }
  [[nodiscard]] static View Bool(bool value) { return Integer(Kind::kBool, value ? 1 : 0); }
  [[nodiscard]] static View Int(std::int64_t value) { return Integer(Kind::kInt, value); }
  [[nodiscard]] static View Integer(Kind kind, std::int64_t value) {
    View view;
    view.kind = kind;
    view.integer = value;
    return view;
  }
  [[nodiscard]] static View Real(Float value) {
    View view;
    view.kind = Kind::kFloat;
    view.real = value;
    return view;
  }
  [[nodiscard]] static View String(std::string_view value) {
    View view;
    view.kind = Kind::kString;
    view.size = value.size();
    view.text = value.data();
    return view;
  }

  [[nodiscard]] std::string_view string() const { return {text, size}; }
  [[nodiscard]] bool is_integer() const { return kind == Kind::kInt || kind == Kind::kByte; }
  [[nodiscard]] bool Truth() const;
  // Go's name of the type of what is held; "<nil>" of nil.
  [[nodiscard]] std::string_view TypeName() const;
};

}  // namespace nstance::tmpl
