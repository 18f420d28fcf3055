#include "core/stored_object.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace nstance {
namespace {

Error Wrong(std::string_view key, std::string_view allowed) {
  return InvalidArgument(fmt::format("{}: {}", key, allowed));
}

}  // namespace

Result<const json::Value*> ObjectReader::Required(std::string_view key) const {
  const json::Value* value = object_.Find(key);
  if (value == nullptr) return Fail(Wrong(key, "missing"));
  return value;
}

Result<std::string> ObjectReader::TextOrEmpty(std::string_view key) const {
  ASSIGN_OR_RETURN(const json::Value* value, Required(key));
  const std::string* text = value->if_string();
  if (text == nullptr) {
    return Fail(Wrong(key, fmt::format("is {}, not a string", json::TypeName(value->type()))));
  }
  return *text;
}

Result<std::string> ObjectReader::Text(std::string_view key) const {
  ASSIGN_OR_RETURN(std::string text, TextOrEmpty(key));
  if (text.empty()) return Fail(Wrong(key, "empty"));
  return text;
}

Result<std::int64_t> ObjectReader::Integer(std::string_view key, IntegerRange range) const {
  ASSIGN_OR_RETURN(const json::Value* value, Required(key));
  const std::int64_t* number = value->if_integer();
  if (number == nullptr || *number < range.low || *number > range.high) {
    return Fail(Wrong(key, fmt::format("not a whole number from {} to {}", range.low, range.high)));
  }
  return *number;
}

Result<bool> ObjectReader::Flag(std::string_view key) const {
  ASSIGN_OR_RETURN(const json::Value* value, Required(key));
  const bool* flag = value->if_bool();
  if (flag == nullptr) return Fail(Wrong(key, "not true or false"));
  return *flag;
}

Result<Timestamp> ObjectReader::Time(std::string_view key) const {
  ASSIGN_OR_RETURN(const std::string text, Text(key));
  return Under(ParseTimestamp(text), key);
}

Result<std::optional<std::string>> ObjectReader::OptionalText(std::string_view key) const {
  if (object_.Find(key) == nullptr) return std::nullopt;
  ASSIGN_OR_RETURN(std::string text, Text(key));
  return text;
}

Result<std::optional<Timestamp>> ObjectReader::OptionalTime(std::string_view key) const {
  if (object_.Find(key) == nullptr) return std::nullopt;
  ASSIGN_OR_RETURN(const Timestamp at, Time(key));
  return at;
}

json::Object UnknownMembers(const json::Value& object, std::span<const std::string_view> known) {
  json::Object unknown;
  for (const json::Member& member : *object.if_object()) {
    const bool ours = std::ranges::find(known, std::string_view(member.key)) != known.end();
    if (!ours) unknown.push_back(member);
  }
  return unknown;
}

void AppendUnknown(std::string& out, const json::Object& unknown) {
  for (const json::Member& member : unknown) {
    out += ',';
    json::AppendString(out, member.key);
    out += ':';
    out += json::Write(member.value);
  }
}

void AppendKey(std::string& out, std::string_view key) {
  out += ",\"";
  out += key;
  out += "\":";
}

void AppendText(std::string& out, std::string_view key, std::string_view text) {
  AppendKey(out, key);
  json::AppendString(out, text);
}

void AppendTime(std::string& out, std::string_view key, Timestamp at) {
  AppendKey(out, key);
  out += '"';
  out += FormatTimestamp(at);
  out += '"';
}

void AppendInteger(std::string& out, std::string_view key, std::int64_t number) {
  AppendKey(out, key);
  out += std::to_string(number);
}

}  // namespace nstance
