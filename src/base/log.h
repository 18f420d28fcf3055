// Structured logging: a message and typed fields, written as JSON lines or as text.
//
//   logger.Info("instance registered", {{"instance", id}, {"tenant", tenant}, {"took", duration}});
//
// What a field may hold is a closed list of types, so a value of a secret type does not compile;
// nor does a pointer, which would print as a boolean. Text from outside is safe to log: control,
// direction and line characters are escaped, invalid UTF-8 is replaced, values are cut at
// kMaxValueBytes.
//
// A Logger is a cheap value: sink, component and bound fields. Time is added by the sink, since
// this layer has no clock. core/ does not log at all; it returns reasons.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"

namespace nstance::log {

inline constexpr std::size_t kMaxValueBytes = 4096;

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning", "error".
[[nodiscard]] std::string_view LevelName(Level level);
[[nodiscard]] Result<Level> ParseLevel(std::string_view text);

class Field {
 public:
  using Value = std::variant<std::string, std::int64_t, std::uint64_t, double, bool>;

  Field(std::string_view key, std::string_view value) : key_(key), value_(std::string(value)) {}
  Field(std::string_view key, const std::string& value) : key_(key), value_(value) {}
  Field(std::string_view key, const char* value) : key_(key), value_(std::string(value)) {}
  template <std::same_as<bool> T>
  Field(std::string_view key, T value) : key_(key), value_(value) {}
  template <std::signed_integral T>
  Field(std::string_view key, T value) : key_(key), value_(static_cast<std::int64_t>(value)) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Field(std::string_view key, T value) : key_(key), value_(static_cast<std::uint64_t>(value)) {}
  Field(std::string_view key, double value) : key_(key), value_(value) {}
  Field(std::string_view key, Duration value) : Field(key, FormatDuration(value)) {}
  Field(std::string_view key, Timestamp value) : Field(key, FormatTimestamp(value)) {}
  Field(std::string_view key, const Puidv7& id) : Field(key, id.text()) {}
  Field(std::string_view key, const Error& error) : Field(key, error.ToString()) {}
  template <class Kind>
  Field(std::string_view key, const Name<Kind>& name) : Field(key, name.text()) {}

  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  std::string key_;
  Value value_;
};

struct Record {
  Level level = Level::kInfo;
  std::string_view component;
  std::string_view message;
  std::span<const Field> bound;   // From Logger::With, first.
  std::span<const Field> fields;  // From the call.
};

// One line without its newline.
//   {"time":"...","level":"info","component":"lease","message":"acquired","term":3}
//   2026-01-01T00:00:00Z info lease: acquired term=3
[[nodiscard]] std::string FormatJson(const Record& record, Timestamp at);
[[nodiscard]] std::string FormatText(const Record& record, Timestamp at);

class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  [[nodiscard]] virtual bool Wants(Level level) const = 0;
  // May be called from any thread of the process.
  virtual void Write(const Record& record) = 0;
};

class Logger {
 public:
  // `sink` must outlive every copy of the logger.
  Logger(Sink& sink, std::string component);

  // The same logger for another part of the program.
  [[nodiscard]] Logger For(std::string component) const;
  // The same logger with fields that every line carries.
  [[nodiscard]] Logger With(std::initializer_list<Field> fields) const;

  void Debug(std::string_view message, std::initializer_list<Field> fields = {}) const {
    Write(Level::kDebug, message, fields);
  }
  void Info(std::string_view message, std::initializer_list<Field> fields = {}) const {
    Write(Level::kInfo, message, fields);
  }
  void Warning(std::string_view message, std::initializer_list<Field> fields = {}) const {
    Write(Level::kWarning, message, fields);
  }
  void Error(std::string_view message, std::initializer_list<Field> fields = {}) const {
    Write(Level::kError, message, fields);
  }

 private:
  void Write(Level level, std::string_view message, std::initializer_list<Field> fields) const;

  Sink* sink_;
  std::string component_;
  std::vector<Field> bound_;
};

}  // namespace nstance::log
