// Two passes. The first counts the children of every list and object, so that the second can make
// each at its final size: growing them would need twice the memory for a while. The count is only a
// hint. It is right up to the first mistake of the text, and there the second pass stops.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"

namespace nstance::json {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20; }

// What would make a number into something else if it stood right behind it.
bool IsNumberLike(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '+' ||
         c == '-' || c == '_';
}

// Counts the children of lists and objects, in the order in which these open.
class ChildCounter {
 public:
  ChildCounter(std::string_view text, const ParseOptions& options)
      : text_(text), options_(options) {}

  std::vector<std::uint32_t> Count() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '[' || c == '{') {
        CountChild(c);
        if (open_.size() == static_cast<std::size_t>(options_.max_depth)) break;
        open_.push_back({.index = counts_.size(), .is_object = c == '{'});
        counts_.push_back(0);
        expecting_ = true;
      } else if (c == ']' || c == '}') {
        if (!open_.empty()) open_.pop_back();
        expecting_ = false;
      } else if (c == ',') {
        expecting_ = true;
      } else if (c == '/' && options_.syntax == Syntax::kJsonc && SkipComment()) {
        continue;
      } else if (!IsSpace(c)) {
        CountChild(c);
        if (c == '"') SkipString();
      }
      ++at_;
    }
    return std::move(counts_);
  }

 private:
  struct Open {
    std::size_t index;
    bool is_object;
  };

  void CountChild(char first) {
    if (!std::exchange(expecting_, false) || open_.empty()) return;
    if (!open_.back().is_object || first == '"') ++counts_[open_.back().index];
  }

  // Stops on the closing quote.
  void SkipString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
  }

  // Goes behind the comment; false when there is none.
  bool SkipComment() {
    const std::string_view rest = text_.substr(at_);
    std::size_t end = 0;
    if (rest.starts_with("//")) {
      end = rest.find('\n');
    } else if (rest.starts_with("/*")) {
      end = rest.find("*/", 2);
      if (end != std::string_view::npos) end += 2;
    } else {
      return false;
    }
    at_ += std::min(end, rest.size());
    return true;
  }

  std::string_view text_;
  const ParseOptions& options_;
  std::size_t at_ = 0;
  bool expecting_ = false;
  std::vector<Open> open_;
  std::vector<std::uint32_t> counts_;
};

// Whether a number that no double holds is too small rather than too large. The two are some six
// hundred powers of ten apart, so the power of its first digit decides.
bool IsTiny(std::string_view number) {
  const std::size_t mark = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, mark);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.find_first_of("123456789");
  if (first == std::string_view::npos) return true;
  std::int64_t power = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  if (mark == number.size()) return power < 0;
  std::string_view exponent = number.substr(mark + 1);
  const bool negative = exponent.starts_with('-');
  if (negative || exponent.starts_with('+')) exponent.remove_prefix(1);
  std::int64_t size = 0;
  const auto read = std::from_chars(exponent.data(), exponent.data() + exponent.size(), size);
  if (read.ec != std::errc()) return negative;
  size = std::min(size, std::numeric_limits<std::int64_t>::max() / 2);
  power += negative ? -size : size;
  return power < 0;
}

class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options)
      : text_(text), options_(options), counts_(ChildCounter(text, options).Count()) {}

  Result<Value> ParseText() {
    Value value;
    RETURN_IF_ERROR(SkipBlanks());
    RETURN_IF_ERROR(ParseValue(value, 0));
    RETURN_IF_ERROR(SkipBlanks());
    if (at_ < text_.size()) return Unexpected("nothing may follow the value");
    return value;
  }

 private:
  using Failure = std::unexpected<Error>;

  [[nodiscard]] bool AtEnd() const { return at_ == text_.size(); }
  [[nodiscard]] bool Sees(char c) const { return at_ < text_.size() && text_[at_] == c; }
  [[nodiscard]] bool SeesDigit() const { return at_ < text_.size() && IsDigit(text_[at_]); }
  bool Take(char c) {
    if (!Sees(c)) return false;
    ++at_;
    return true;
  }

  // REQUIRES: `offset` is on the current line.
  [[nodiscard]] Position PositionAt(std::size_t offset) const {
    return {.line = line_, .column = static_cast<std::uint32_t>(offset - line_start_ + 1)};
  }
  [[nodiscard]] Position Here() const { return PositionAt(at_); }

  [[nodiscard]] Failure Bad(std::string_view reason, Position at, std::string_view what) const {
    options_.source.Bad(reason);
    return Fail(InvalidArgument(fmt::format("{}:{}: {}", at.line, at.column, what)));
  }

  [[nodiscard]] std::string Found() const {
    if (AtEnd()) return "found the end of the text";
    const std::string_view rest = text_.substr(at_);
    return "found " + Quote(rest.substr(0, Utf8SequenceLength(rest)));
  }

  [[nodiscard]] Failure Unexpected(std::string_view allowed) const {
    return Bad("syntax", Here(), fmt::format("{}; {}", Found(), allowed));
  }

  void StartLine() {
    ++line_;
    line_start_ = at_ + 1;
  }

  // White space and, in JSONC, comments.
  Status SkipBlanks() {
    for (; !AtEnd(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        StartLine();
      } else if (c == '/') {
        RETURN_IF_ERROR(SkipComment());
        // A line comment leaves its line break, a block comment its last character.
        if (AtEnd()) break;
        if (text_[at_] == '\n') StartLine();
      } else if (!IsSpace(c)) {
        break;
      }
    }
    return {};
  }

  // Stops on the last character of the comment, or at the end of the text.
  Status SkipComment() {
    if (options_.syntax == Syntax::kJson) return Unexpected("comments are not allowed in JSON");
    const Position start = Here();
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("//")) {
      at_ += std::min(rest.find('\n'), rest.size());
      return {};
    }
    if (!rest.starts_with("/*")) return Unexpected("a comment starts with // or /*");
    const std::size_t end = rest.find("*/", 2);
    if (end == std::string_view::npos) {
      return Bad("syntax", start, "the comment does not end; */ is required");
    }
    for (const std::size_t stop = at_ + end + 1; at_ < stop; ++at_) {
      if (text_[at_] == '\n') StartLine();
    }
    return {};
  }

  Status ParseValue(Value& out, int depth) {
    const Position start = Here();
    if (AtEnd()) return Unexpected("a value is required");
    Status status;
    switch (text_[at_]) {
      case '{':
        status = ParseObject(out, depth);
        break;
      case '[':
        status = ParseList(out, depth);
        break;
      case '"':
        status = ParseStringValue(out);
        break;
      default:
        status = ParseWordOrNumber(out);
        break;
    }
    out.set_position(start);
    return status;
  }

  Status ParseWordOrNumber(Value& out) {
    if (Sees('-') || SeesDigit()) return ParseNumber(out);
    if (Sees('+') || Sees('.')) {
      return Bad("number", Here(), Found() + "; a number starts with a digit or a minus sign");
    }
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("true")) {
      out = Value::Bool(true);
      at_ += 4;
    } else if (rest.starts_with("false")) {
      out = Value::Bool(false);
      at_ += 5;
    } else if (rest.starts_with("null")) {
      out = Value();
      at_ += 4;
    } else {
      return Unexpected(
          "a value is an object, a list, a string in double quotes, a number, true, false or null");
    }
    return {};
  }

  // How many children the next list or object has, as counted; also checks the depth.
  Result<std::uint32_t> OpenContainer(int depth) {
    if (depth >= options_.max_depth) {
      options_.source.Limit("json-depth");
      const Position at = Here();
      return Fail(ResourceExhausted(fmt::format("{}:{}: nested too deeply; at most {} levels",
                                                at.line, at.column, options_.max_depth)));
    }
    ++at_;
    return opened_ < counts_.size() ? counts_[opened_++] : 0;
  }

  // Behind a child: true when another one follows. `close` has been taken when not.
  Result<bool> GoOn(char close) {
    RETURN_IF_ERROR(SkipBlanks());
    if (Take(close)) return false;
    if (!Take(','))
      return Unexpected(close == ']' ? R"("," or "]" is required)" : R"("," or "}" is required)");
    RETURN_IF_ERROR(SkipBlanks());
    if (!Sees(close)) return true;
    if (options_.syntax == Syntax::kJson) {
      return Unexpected("a comma before it is not allowed in JSON");
    }
    ++at_;
    return false;
  }

  Status ParseList(Value& out, int depth) {
    ASSIGN_OR_RETURN(const std::uint32_t count, OpenContainer(depth));
    Array items;
    items.reserve(count);
    RETURN_IF_ERROR(SkipBlanks());
    bool more = !Take(']');
    while (more) {
      RETURN_IF_ERROR(ParseValue(items.emplace_back(), depth + 1));
      ASSIGN_OR_RETURN(more, GoOn(']'));
    }
    out = Value::List(std::move(items));
    return {};
  }

  Status ParseObject(Value& out, int depth) {
    ASSIGN_OR_RETURN(const std::uint32_t count, OpenContainer(depth));
    Object members;
    members.reserve(count);
    RETURN_IF_ERROR(SkipBlanks());
    bool more = !Take('}');
    while (more) {
      if (!Sees('"')) {
        return Unexpected(members.empty() ? R"(a key in double quotes or "}" is required)"
                                          : "a key in double quotes is required");
      }
      Member& member = members.emplace_back();
      member.key_position = Here();
      RETURN_IF_ERROR(ParseString(member.key));
      RETURN_IF_ERROR(SkipBlanks());
      if (!Take(':')) return Unexpected(R"(":" is required behind a key)");
      RETURN_IF_ERROR(SkipBlanks());
      RETURN_IF_ERROR(ParseValue(member.value, depth + 1));
      ASSIGN_OR_RETURN(more, GoOn('}'));
    }
    RETURN_IF_ERROR(HandleDuplicates(members));
    out = Value::Map(std::move(members));
    return {};
  }

  Status HandleDuplicates(Object& members) {
    order_.resize(members.size());
    std::iota(order_.begin(), order_.end(), 0U);
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {
      const int compared = members[a].key.compare(members[b].key);
      return compared < 0 || (compared == 0 && a < b);
    });
    struct Pair {
      std::uint32_t again;
      std::uint32_t first;
    };
    std::vector<Pair> pairs;
    for (std::size_t i = 1, first = 0; i < order_.size(); ++i) {
      if (members[order_[i]].key != members[order_[first]].key) {
        first = i;
      } else {
        pairs.push_back({.again = order_[i], .first = order_[first]});
      }
    }
    if (pairs.empty()) return {};
    std::ranges::sort(pairs, {}, &Pair::again);
    if (options_.duplicates == nullptr)
      return DuplicateError(members, pairs.front().again, pairs.front().first);
    for (const Pair& pair : pairs) {
      if (options_.duplicates->size() >= kMaxDuplicates) break;
      options_.duplicates->push_back({.key = members[pair.again].key,
                                      .first = members[pair.first].key_position,
                                      .again = members[pair.again].key_position});
    }
    std::size_t index = 0;
    auto pair = pairs.begin();
    std::erase_if(members, [&](const Member&) {
      const bool drop = pair != pairs.end() && pair->again == index;
      if (drop) ++pair;
      ++index;
      return drop;
    });
    return {};
  }

  [[nodiscard]] Failure DuplicateError(const Object& members, std::uint32_t again,
                                       std::uint32_t first) const {
    const Position at = members[first].key_position;
    return Bad("duplicate-key", members[again].key_position,
               fmt::format("the key {} is at {}:{} already; the keys of an object must differ",
                           Quote(members[again].key), at.line, at.column));
  }

  Status ParseStringValue(Value& out) {
    std::string text;
    RETURN_IF_ERROR(ParseString(text));
    out = Value::String(std::move(text));
    return {};
  }

  Status ParseString(std::string& out) {
    const Position start = Here();
    ++at_;
    while (true) {
      const std::size_t run = at_;
      while (!AtEnd() && text_[at_] != '"' && text_[at_] != '\\' && !IsControl(text_[at_])) ++at_;
      out.append(text_, run, at_ - run);
      if (Take('"')) return {};
      if (AtEnd()) {
        return Unexpected(
            fmt::format("the string from {}:{} needs a closing quote", start.line, start.column));
      }
      if (!Sees('\\')) {
        return Unexpected("control characters in a string must be escaped, as in \\n or \\u0000");
      }
      RETURN_IF_ERROR(ParseEscape(out));
    }
  }

  Status ParseEscape(std::string& out) {
    const Position start = Here();
    ++at_;
    constexpr std::string_view kShort = "\"\\/bfnrt";
    constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
    if (Take('u')) return ParseUnicodeEscape(out, start);
    const std::size_t which = AtEnd() ? std::string_view::npos : kShort.find(text_[at_]);
    if (which == std::string_view::npos) {
      return Unexpected(R"(an escape is one of \" \\ \/ \b \f \n \r \t \uXXXX)");
    }
    out += kMeaning[which];
    ++at_;
    return {};
  }

  // `start` is where the backslash stood.
  Status ParseUnicodeEscape(std::string& out, Position start) {
    ASSIGN_OR_RETURN(std::uint32_t code_point, ParseFourHexDigits());
    if (code_point >= 0xDC00 && code_point <= 0xDFFF) {
      return Bad("surrogate", start, "found the second half of a surrogate pair without the first");
    }
    if (code_point >= 0xD800 && code_point <= 0xDBFF) {
      std::uint32_t low = 0;
      if (text_.substr(at_).starts_with("\\u")) {
        at_ += 2;
        ASSIGN_OR_RETURN(low, ParseFourHexDigits());
      }
      if (low < 0xDC00 || low > 0xDFFF) {
        return Bad("surrogate", start,
                   "found the first half of a surrogate pair without the second");
      }
      code_point = 0x10000 + ((code_point - 0xD800) << 10U) + (low - 0xDC00);
    }
    AppendUtf8(out, code_point);
    return {};
  }

  Result<std::uint32_t> ParseFourHexDigits() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = AtEnd() ? '\0' : text_[at_];
      std::uint32_t digit = 0;
      if (IsDigit(c)) {
        digit = static_cast<std::uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<std::uint32_t>(c - 'a' + 10);
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<std::uint32_t>(c - 'A' + 10);
      } else {
        return Unexpected("\\u needs four hex digits");
      }
      value = (value * 16) + digit;
    }
    return value;
  }

  Status ParseNumber(Value& out) {
    const std::size_t start = at_;
    const bool negative = Take('-');
    const std::size_t first = at_;
    RETURN_IF_ERROR(SkipDigits());
    if (text_[first] == '0' && at_ - first > 1) {
      return Bad("number", PositionAt(start),
                 "a number must not start with a zero before other digits");
    }
    bool whole = true;
    if (Take('.')) {
      whole = false;
      RETURN_IF_ERROR(SkipDigits());
    }
    if (Take('e') || Take('E')) {
      whole = false;
      if (!Take('+')) Take('-');
      RETURN_IF_ERROR(SkipDigits());
    }
    if (!AtEnd() && IsNumberLike(text_[at_])) {
      return Bad("number", Here(),
                 Found() + "; a number is digits with an optional fraction and exponent");
    }
    const std::string_view number = text_.substr(start, at_ - start);
    const char* end = number.data() + number.size();
    std::int64_t integer = 0;
    if (whole && std::from_chars(number.data(), end, integer).ec == std::errc()) {
      out = Value::Integer(integer);
    } else {
      double value = 0;
      const std::errc error = std::from_chars(number.data(), end, value).ec;
      if (error == std::errc::result_out_of_range) {
        if (!IsTiny(number)) {
          return Bad("number", PositionAt(start), "the number is too large; at most about 1.8e308");
        }
        value = 0;
      }
      out = Value::Double(value);
    }
    if (negative && *out.AsDouble() == 0) {
      return Bad("number", PositionAt(start), "negative zero is not allowed; write 0");
    }
    return {};
  }

  Status SkipDigits() {
    if (!SeesDigit()) return Bad("number", Here(), Found() + "; a digit is required");
    while (SeesDigit()) ++at_;
    return {};
  }

  std::string_view text_;
  const ParseOptions& options_;
  std::vector<std::uint32_t> counts_;
  std::size_t opened_ = 0;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::size_t line_start_ = 0;
  std::vector<std::uint32_t> order_;  // Room for HandleDuplicates, kept between objects.
};

// Line and column of an offset, counted from the front.
Position LocateSlowly(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0.
  return {.line = static_cast<std::uint32_t>(std::ranges::count(before, '\n') + 1),
          .column = static_cast<std::uint32_t>(offset - line_start + 1)};
}

Status CheckEncoding(std::string_view text, const ParseOptions& options) {
  const auto bad = [&](std::size_t offset, std::string_view what) {
    options.source.Bad("utf8");
    const Position at = LocateSlowly(text, offset);
    return Fail(InvalidArgument(fmt::format("{}:{}: {}", at.line, at.column, what)));
  };
  if (text.starts_with(kByteOrderMark)) {
    return bad(0, "found a byte order mark; the text must start without one");
  }
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const std::size_t length = Utf8SequenceLength(text.substr(at));
    if (length == 0) {
      const unsigned byte = static_cast<unsigned char>(text[at]);
      return bad(at, fmt::format("found the byte 0x{:02x}; the text must be UTF-8", byte));
    }
    at += length;
  }
  return {};
}

}  // namespace

Result<Value> Parse(std::string_view text, const ParseOptions& options) {
  CHECK(options.max_depth >= 0 && options.max_depth <= kMaxDepth, "{}", options.max_depth);
  const std::size_t limit =
      std::min<std::size_t>(options.max_bytes, std::numeric_limits<std::uint32_t>::max());
  if (text.size() > limit) {
    options.source.Limit("json-bytes");
    return Fail(ResourceExhausted(
        fmt::format("the text has {} bytes; at most {} are allowed", text.size(), limit)));
  }
  RETURN_IF_ERROR(CheckEncoding(text, options));
  return Parser(text, options).ParseText();
}

}  // namespace nstance::json
