#include "base/log.h"

#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "base/json.h"
#include "base/text.h"

namespace nstance::log {
namespace {

// The text with everything that could confuse a terminal or a line reader made visible, cut to
// kMaxValueBytes. What is left is valid UTF-8 without control characters.
std::string Clean(std::string_view text) {
  const bool cut = text.size() > kMaxValueBytes;
  std::string out;
  AppendEscaped(out, text.substr(0, kMaxValueBytes));
  if (cut) out += "...";
  return out;
}

// True when the value reads the same with and without quotes.
bool IsPlainWord(std::string_view text) {
  return !text.empty() && text.find_first_of(" =\"\\") == std::string_view::npos;
}

std::string NumberText(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "NaN" : (value < 0 ? "-Inf" : "+Inf");
  std::string out;
  json::AppendDouble(out, value);
  return out;
}

// AppendEscaped has already escaped quotes and backslashes; in text form that is all it takes.
std::string TextForm(const Field::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    std::string clean = Clean(*text);
    return IsPlainWord(clean) ? clean : "\"" + clean + "\"";
  }
  if (const auto* number = std::get_if<double>(&value)) return NumberText(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* n = std::get_if<std::uint64_t>(&value)) return fmt::format("{}", *n);
  return fmt::format("{}", std::get<std::int64_t>(value));
}

// JSON has escapes of its own, so only what it would pass on raw needs ours: the rest is escaped by
// the JSON writer and reads back as it was.
std::string JsonSafe(std::string_view text) {
  const bool cut = text.size() > kMaxValueBytes;
  text = text.substr(0, kMaxValueBytes);
  std::string out;
  while (!text.empty()) {
    const std::size_t length = Utf8SequenceLength(text);
    if (length <= 1) {
      const char c = text.front();
      if (length == 0 || c == 0x7F) {
        AppendEscaped(out, text.substr(0, 1));
      } else {
        out += c;
      }
      text.remove_prefix(1);
      continue;
    }
    AppendEscaped(out, text.substr(0, length));
    text.remove_prefix(length);
  }
  if (cut) out += "...";
  return out;
}

void AppendMember(std::string& out, std::string_view key, const Field::Value& value) {
  out += ',';
  json::AppendString(out, JsonSafe(key));
  out += ':';
  if (const auto* text = std::get_if<std::string>(&value)) {
    json::AppendString(out, JsonSafe(*text));
  } else if (const auto* number = std::get_if<double>(&value);
             number != nullptr && !std::isfinite(*number)) {
    json::AppendString(out, NumberText(*number));
  } else {
    out += TextForm(value);
  }
}

}  // namespace

std::string_view LevelName(Level level) {
  switch (level) {
    case Level::kDebug: return "debug";
    case Level::kInfo: return "info";
    case Level::kWarning: return "warning";
    case Level::kError: return "error";
  }
  return "error";
}

Result<Level> ParseLevel(std::string_view text) {
  for (const Level level : {Level::kDebug, Level::kInfo, Level::kWarning, Level::kError}) {
    if (text == LevelName(level)) return level;
  }
  return Fail(InvalidArgument(
      fmt::format("{} is not a log level; one of: debug, info, warning, error", Quote(text))));
}

std::string FormatJson(const Record& record, Timestamp at) {
  std::string out =
      fmt::format("{{\"time\":\"{}\",\"level\":\"{}\",\"component\":", FormatTimestamp(at),
                  LevelName(record.level));
  json::AppendString(out, JsonSafe(record.component));
  out += ",\"message\":";
  json::AppendString(out, JsonSafe(record.message));
  for (const Field& field : record.bound) AppendMember(out, field.key(), field.value());
  for (const Field& field : record.fields) AppendMember(out, field.key(), field.value());
  return out += '}';
}

std::string FormatText(const Record& record, Timestamp at) {
  std::string out = fmt::format("{} {} {}: {}", FormatTimestamp(at), LevelName(record.level),
                                Clean(record.component), Clean(record.message));
  const auto append = [&out](const Field& field) {
    out.append(" ").append(Clean(field.key())).append("=").append(TextForm(field.value()));
  };
  for (const Field& field : record.bound) append(field);
  for (const Field& field : record.fields) append(field);
  return out;
}

Logger::Logger(Sink& sink, std::string component)
    : sink_(&sink), component_(std::move(component)) {}

Logger Logger::For(std::string component) const {
  Logger logger = *this;
  logger.component_ = std::move(component);
  return logger;
}

Logger Logger::With(std::initializer_list<Field> fields) const {
  Logger logger = *this;
  logger.bound_.insert(logger.bound_.end(), fields);
  return logger;
}

void Logger::Write(Level level, std::string_view message,
                   std::initializer_list<Field> fields) const {
  if (!sink_->Wants(level)) return;
  sink_->Write({.level = level,
                .component = component_,
                .message = message,
                .bound = bound_,
                .fields = std::span<const Field>(fields.begin(), fields.size())});
}

}  // namespace nstance::log
