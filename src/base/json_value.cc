#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/json.h"

namespace nstance::json {

std::string_view TypeName(Type type) {
  switch (type) {
    case Type::kNull: return "null";
    case Type::kBool: return "a boolean";
    case Type::kInteger:
    case Type::kDouble: return "a number";
    case Type::kString: return "a string";
    case Type::kArray: return "a list";
    case Type::kObject: return "an object";
  }
  CHECK(false, "type {}", static_cast<int>(type));
}

Value::Value() = default;
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Value Value::Bool(bool value) {
  Value made;
  made.data_ = value;
  return made;
}

Value Value::Integer(std::int64_t value) {
  Value made;
  made.data_ = value;
  return made;
}

Value Value::Double(double value) {
  CHECK(std::isfinite(value), "{}", value);
  Value made;
  made.data_ = value == 0 ? 0.0 : value;
  return made;
}

Value Value::String(std::string value) {
  Value made;
  made.data_ = std::move(value);
  return made;
}

Value Value::List(Array items) {
  Value made;
  made.data_ = std::move(items);
  return made;
}

Value Value::Map(Object members) {
  Value made;
  made.data_ = std::move(members);
  return made;
}

Type Value::type() const {
  static_assert(static_cast<std::size_t>(Type::kObject) + 1 ==
                std::variant_size_v<decltype(data_)>);
  return static_cast<Type>(data_.index());
}

const bool* Value::if_bool() const { return std::get_if<bool>(&data_); }
const std::int64_t* Value::if_integer() const { return std::get_if<std::int64_t>(&data_); }
const std::string* Value::if_string() const { return std::get_if<std::string>(&data_); }
const Array* Value::if_array() const { return std::get_if<Array>(&data_); }
const Object* Value::if_object() const { return std::get_if<Object>(&data_); }
Array* Value::if_array() { return std::get_if<Array>(&data_); }
Object* Value::if_object() { return std::get_if<Object>(&data_); }

std::optional<double> Value::AsDouble() const {
  if (const double* number = std::get_if<double>(&data_)) return *number;
  if (const std::int64_t* number = if_integer()) return static_cast<double>(*number);
  return std::nullopt;
}

const Value* Value::Find(std::string_view key) const {
  const Object* members = if_object();
  if (members == nullptr) return nullptr;
  const auto at = std::ranges::find(*members, key, &Member::key);
  return at == members->end() ? nullptr : &at->value;
}

Value* Value::Find(std::string_view key) {
  return const_cast<Value*>(std::as_const(*this).Find(key));
}

void Value::Set(std::string_view key, Value value) {
  Object* members = if_object();
  CHECK(members != nullptr, "{} has no members", TypeName(type()));
  if (Value* present = Find(key)) {
    *present = std::move(value);
  } else {
    members->push_back({.key = std::string(key), .key_position = {}, .value = std::move(value)});
  }
}

void Value::Remove(std::string_view key) {
  Object* members = if_object();
  CHECK(members != nullptr, "{} has no members", TypeName(type()));
  std::erase_if(*members, [&](const Member& member) { return member.key == key; });
}

bool operator==(const Value& a, const Value& b) {
  if (a.data_.index() == b.data_.index()) return a.data_ == b.data_;
  const std::optional<double> number = a.AsDouble();
  return number && number == b.AsDouble();
}

bool operator==(const Member& a, const Member& b) { return a.key == b.key && a.value == b.value; }

}  // namespace nstance::json
