// Rules: what one value of the file may be, how it is read into its C++ type, and how the messages
// and the reference speak of it. One rule object does all of that, so they cannot disagree.
//
// A rule reads: it returns the value, or reports what is wrong at the value's place and returns
// nothing. It never shows a value that must not be shown (Shown()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/json.h"
#include "base/name.h"
#include "base/result.h"
#include "base/text.h"
#include "base/time.h"
#include "core/config/config.h"
#include "core/config/place.h"
#include "core/config/problems.h"
#include "core/config/suggest.h"
#include "core/config/words.h"

namespace nstance::config {

// What reading needs on its way through the document.
struct Reading {
  Problems& problems;
  // Where members that the schema does not know are kept; null: they are errors.
  json::Object* unknown = nullptr;
};

struct ObjectSpec;

// The objects below a value, for the reference: their schema, and how the path goes on to them
// ("", ".<name>", "[]").
struct Below {
  std::string suffix = {};
  const ObjectSpec* spec = nullptr;
};

class RuleBase {
 public:
  RuleBase() = default;
  RuleBase(const RuleBase&) = default;
  RuleBase(RuleBase&&) = default;
  RuleBase& operator=(const RuleBase&) = default;
  RuleBase& operator=(RuleBase&&) = default;
  virtual ~RuleBase() = default;

  // What is allowed, in words: "a whole number from 0 to 10000", "one of: a, b".
  [[nodiscard]] virtual std::string Allowed() const = 0;
  [[nodiscard]] virtual Below below() const { return {}; }
};

template <class T>
class Rule : public RuleBase {
 public:
  using Target = T;
  // REQUIRES: place.value() is there.
  [[nodiscard]] virtual std::optional<T> Read(Reading& reading, const Place& place) const = 0;
  // How the reference shows `value` as a default; empty: not at all.
  [[nodiscard]] virtual std::string Show(const T& value) const = 0;
};

// ---- what messages are made of ----------------------------------------------------------------

// The value as a message shows it: strings quoted and cut, "the value" where it must not be shown.
[[nodiscard]] std::string Shown(const Place& place);
// "is a string; <allowed>".
void TypeError(Reading& reading, const Place& place, std::string_view allowed);
// "1m", "1h30m", "25h", "7d": the shortest text that reads back.
[[nodiscard]] std::string ShortDuration(Duration duration);
// "<value> is not defined; one of: a, b. Did you mean "a"?". `what` is used when the list is long:
// "the name of a template".
[[nodiscard]] std::string NotDefined(Problems& problems, const Place& place, std::string_view what,
                                     const std::vector<std::string_view>& defined);

// ---- scalars ----------------------------------------------------------------------------------

class TextRule final : public Rule<std::string> {
 public:
  enum class Empty : std::uint8_t { kRefused, kAllowed };
  explicit TextRule(std::size_t max = 4'096, Empty empty = Empty::kRefused)
      : max_(max), empty_(empty) {}
  [[nodiscard]] std::string Allowed() const override;
  [[nodiscard]] std::optional<std::string> Read(Reading& reading,
                                                const Place& place) const override;
  [[nodiscard]] std::string Show(const std::string& value) const override;

 private:
  std::size_t max_;
  Empty empty_;
};

// A text with a shape of its own. `check` returns "what is wrong", or nothing.
class ShapedTextRule final : public Rule<std::string> {
 public:
  using Check = bool (*)(std::string_view text);
  ShapedTextRule(std::string_view allowed, Check check) : allowed_(allowed), check_(check) {}
  [[nodiscard]] std::string Allowed() const override { return std::string(allowed_); }
  [[nodiscard]] std::optional<std::string> Read(Reading& reading,
                                                const Place& place) const override;
  [[nodiscard]] std::string Show(const std::string& value) const override { return value; }

 private:
  std::string_view allowed_;
  Check check_;
};

class BoolRule final : public Rule<bool> {
 public:
  [[nodiscard]] std::string Allowed() const override { return "true or false"; }
  [[nodiscard]] std::optional<bool> Read(Reading& reading, const Place& place) const override;
  [[nodiscard]] std::string Show(const bool& value) const override {
    return value ? "true" : "false";
  }
};

class IntRule final : public Rule<int> {
 public:
  IntRule(int min, int max) : min_(min), max_(max) {}
  [[nodiscard]] std::string Allowed() const override;
  [[nodiscard]] std::optional<int> Read(Reading& reading, const Place& place) const override;
  [[nodiscard]] std::string Show(const int& value) const override {
    return fmt::format("{}", value);
  }

 private:
  int min_;
  int max_;
};

struct DurationRange {
  Duration min = {};
  Duration max = Duration::Max();
  // Zero means "off" or "never", and is allowed besides the range.
  bool or_zero = false;
};

class DurationRule final : public Rule<Duration> {
 public:
  explicit DurationRule(DurationRange range = {}) : range_(range) {}
  [[nodiscard]] std::string Allowed() const override;
  [[nodiscard]] std::optional<Duration> Read(Reading& reading, const Place& place) const override;
  [[nodiscard]] std::string Show(const Duration& value) const override {
    return ShortDuration(value);
  }

 private:
  DurationRange range_;
};

// A whole number of hours, or a duration.
class HoursRule final : public Rule<Duration> {
 public:
  explicit HoursRule(int max_hours) : max_hours_(max_hours) {}
  [[nodiscard]] std::string Allowed() const override;
  [[nodiscard]] std::optional<Duration> Read(Reading& reading, const Place& place) const override;
  [[nodiscard]] std::string Show(const Duration& value) const override;

 private:
  int max_hours_;
};

class AddressRule final : public Rule<Address> {
 public:
  enum class Use : std::uint8_t { kBind, kAdvertise };
  explicit AddressRule(Use use) : use_(use) {}
  [[nodiscard]] std::string Allowed() const override;
  [[nodiscard]] std::optional<Address> Read(Reading& reading, const Place& place) const override;
  [[nodiscard]] std::string Show(const Address& value) const override {
    return FormatAddress(value);
  }

 private:
  Use use_;
};

template <class N>
class NameRule final : public Rule<N> {
 public:
  [[nodiscard]] std::string Allowed() const override { return "a name"; }
  [[nodiscard]] std::optional<N> Read(Reading& reading, const Place& place) const override {
    const std::string* text = place.value()->if_string();
    if (text == nullptr) {
      TypeError(reading, place, Allowed());
      return std::nullopt;
    }
    Result<N> name = N::Parse(*text);
    if (name) return *std::move(name);
    reading.problems.Error(place, name.error().message);
    return std::nullopt;
  }
  [[nodiscard]] std::string Show(const N& value) const override { return value.text(); }
};

// "one of: a, b. Did you mean ...": for WordRule, so that it need not be a template.
[[nodiscard]] std::string BadWord(Reading& reading, const Place& place,
                                  const std::vector<std::string_view>& words);
[[nodiscard]] std::string OneOf(const std::vector<std::string_view>& words);

// One word of an enumeration. `Kept` is what the member holds: the value, or the word as written.
template <class E, class Kept = E>
class WordRule final : public Rule<Kept> {
 public:
  [[nodiscard]] std::string Allowed() const override { return OneOf(Words()); }
  [[nodiscard]] std::optional<Kept> Read(Reading& reading, const Place& place) const override {
    const std::string* text = place.value()->if_string();
    if (text == nullptr) {
      TypeError(reading, place, Allowed());
      return std::nullopt;
    }
    const std::optional<E> value = FromWord<E>(*text);
    if (!value) {
      reading.problems.Error(place, BadWord(reading, place, Words()));
      return std::nullopt;
    }
    if constexpr (std::is_same_v<Kept, E>) {
      return value;
    } else {
      return *text;
    }
  }
  [[nodiscard]] std::string Show(const Kept& value) const override {
    if constexpr (std::is_same_v<Kept, E>) {
      return std::string(Word(value));
    } else {
      return value;
    }
  }

 private:
  static std::vector<std::string_view> Words() {
    std::vector<std::string_view> words;
    for (const WordEntry<E>& entry : WordsOf<E>()) words.push_back(entry.word);
    return words;
  }
};

// ---- containers -------------------------------------------------------------------------------

// Any object: read as it is.
class AnyObjectRule final : public Rule<json::Object> {
 public:
  [[nodiscard]] std::string Allowed() const override { return "an object"; }
  [[nodiscard]] std::optional<json::Object> Read(Reading& reading,
                                                 const Place& place) const override;
  [[nodiscard]] std::string Show(const json::Object& value) const override {
    return value.empty() ? "{}" : "";
  }
};

// Any value: its shape depends on another key, and is checked with it.
class AnyValueRule final : public Rule<json::Value> {
 public:
  [[nodiscard]] std::string Allowed() const override { return "a string or an object"; }
  [[nodiscard]] std::optional<json::Value> Read(Reading& reading,
                                                const Place& place) const override;
  [[nodiscard]] std::string Show(const json::Value& /*value*/) const override { return ""; }
};

template <class T>
class ListRule final : public Rule<std::vector<T>> {
 public:
  ListRule(std::string_view items, std::shared_ptr<const Rule<T>> item, std::size_t min = 0)
      : items_(items), item_(std::move(item)), min_(min) {}
  [[nodiscard]] std::string Allowed() const override {
    return fmt::format("a list of {}{}", items_, min_ > 0 ? ", at least one" : "");
  }
  [[nodiscard]] Below below() const override {
    Below below = item_->below();
    if (below.spec != nullptr) below.suffix.insert(0, "[]");
    return below;
  }
  [[nodiscard]] std::optional<std::vector<T>> Read(Reading& reading,
                                                   const Place& place) const override {
    const json::Array* array = place.value()->if_array();
    if (array == nullptr) {
      TypeError(reading, place, Allowed());
      return std::nullopt;
    }
    if (array->size() < min_) reading.problems.Error(place, "is empty; " + Allowed());
    std::vector<T> read;
    read.reserve(array->size());
    for (std::size_t i = 0; i < array->size(); ++i) {
      std::optional<T> item = item_->Read(reading, place.Item(i));
      if (item) read.push_back(*std::move(item));
    }
    return read;
  }
  [[nodiscard]] std::string Show(const std::vector<T>& value) const override {
    return value.empty() && min_ == 0 ? "[]" : "";
  }

 private:
  std::string_view items_;
  std::shared_ptr<const Rule<T>> item_;
  std::size_t min_;
};

template <class R>
[[nodiscard]] auto ListOf(std::string_view items, R rule, std::size_t min = 0) {
  using T = typename R::Target;
  return ListRule<T>(items, std::make_shared<const R>(std::move(rule)), min);
}

// Keys that start with `_` or `$` and are no valid names are for tools; they are skipped.
[[nodiscard]] inline bool IsForTools(std::string_view key) {
  return key.starts_with('_') || key.starts_with('$');
}

template <class K>
struct KeyRule {
  std::string_view what;                      // For the reference: "name", "tenant".
  Result<K> (*parse)(std::string_view text);  // Its errors say what is wrong and what is allowed.
};

template <class K, class T>
class MapRule final : public Rule<std::map<K, T>> {
 public:
  MapRule(KeyRule<K> key, std::shared_ptr<const Rule<T>> item)
      : key_(key), item_(std::move(item)) {}
  [[nodiscard]] std::string Allowed() const override {
    return item_->below().spec == nullptr ? "an object whose values are each " + item_->Allowed()
                                          : "an object of objects";
  }
  [[nodiscard]] Below below() const override {
    Below below = item_->below();
    below.suffix.insert(0, fmt::format(".<{}>", key_.what));
    return below;
  }
  [[nodiscard]] std::optional<std::map<K, T>> Read(Reading& reading,
                                                   const Place& place) const override {
    const json::Object* members = place.value()->if_object();
    if (members == nullptr) {
      TypeError(reading, place, Allowed());
      return std::nullopt;
    }
    std::map<K, T> read;
    for (const json::Member& member : *members) ReadMember(reading, place.Child(member), read);
    return read;
  }
  [[nodiscard]] std::string Show(const std::map<K, T>& value) const override {
    return value.empty() ? "{}" : "";
  }

  void ReadMember(Reading& reading, const Place& place, std::map<K, T>& out) const {
    Result<K> key = key_.parse(place.key());
    if (!key) {
      if (!IsForTools(place.key())) reading.problems.ErrorAtKey(place, key.error().message);
      return;
    }
    std::optional<T> item = item_->Read(reading, place);
    if (item) out.insert_or_assign(*std::move(key), *std::move(item));
  }

 private:
  KeyRule<K> key_;
  std::shared_ptr<const Rule<T>> item_;
};

template <class K, class R>
[[nodiscard]] auto MapOf(KeyRule<K> key, R rule) {
  using T = typename R::Target;
  return MapRule<K, T>(key, std::make_shared<const R>(std::move(rule)));
}

// ---- keys of maps -----------------------------------------------------------------------------

template <class N>
[[nodiscard]] KeyRule<N> NameKey(std::string_view what) {
  return {.what = what, .parse = &N::Parse};
}
[[nodiscard]] KeyRule<TenantId> DeclaredTenantKey();                 // Not `default`.
[[nodiscard]] KeyRule<std::string> VariableKey();                    // [A-Za-z_][A-Za-z0-9_]*
[[nodiscard]] KeyRule<std::string> LabelKey(std::string_view what);  // Letters, digits, . _ -
[[nodiscard]] KeyRule<std::string> FileNameKey();

// vars: a map of strings.
[[nodiscard]] MapRule<std::string, std::string> VariablesRule();

}  // namespace nstance::config
