// Reading and writing the members of stored JSON objects: what lease, journal and records share.
//
// A reader is strict about the members that it knows and says which one is wrong; members that it
// does not know are kept and written back after the known ones, so that an older program does not
// destroy what a newer one has stored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "base/time.h"

namespace nstance {

// Numbers that other languages read as doubles stay exact up to here.
inline constexpr std::int64_t kMaxStoredInteger = std::int64_t{1} << 53U;

// Both ends included.
struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = kMaxStoredInteger;
};

// Members of one object. Errors are kInvalidArgument "key: what was found; what is allowed".
class ObjectReader {
 public:
  // `object` must be an object and outlive the reader.
  explicit ObjectReader(const json::Value& object) : object_(object) {}

  [[nodiscard]] Result<std::string> Text(std::string_view key) const;  // Not empty.
  [[nodiscard]] Result<std::string> TextOrEmpty(std::string_view key) const;
  [[nodiscard]] Result<std::int64_t> Integer(std::string_view key, IntegerRange range) const;
  [[nodiscard]] Result<bool> Flag(std::string_view key) const;
  [[nodiscard]] Result<Timestamp> Time(std::string_view key) const;
  // Empty when there is no such member.
  [[nodiscard]] Result<std::optional<std::string>> OptionalText(std::string_view key) const;
  [[nodiscard]] Result<std::optional<Timestamp>> OptionalTime(std::string_view key) const;

 private:
  [[nodiscard]] Result<const json::Value*> Required(std::string_view key) const;

  const json::Value& object_;
};

// The members whose keys are not in `known`, in their order. REQUIRES: object.
[[nodiscard]] json::Object UnknownMembers(const json::Value& object,
                                          std::span<const std::string_view> known);

// Each as `,"key":value`.
void AppendUnknown(std::string& out, const json::Object& unknown);
// REQUIRES: `key` needs no escaping.
void AppendKey(std::string& out, std::string_view key);
void AppendText(std::string& out, std::string_view key, std::string_view text);
void AppendTime(std::string& out, std::string_view key, Timestamp at);
void AppendInteger(std::string& out, std::string_view key, std::int64_t number);

}  // namespace nstance
