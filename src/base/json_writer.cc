#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"

namespace nstance::json {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

void AppendUnicodeEscape(std::string& out, std::uint32_t unit) {
  out += "\\u";
  for (unsigned shift = 16; shift > 0; shift -= 4) out += kHexDigits[(unit >> (shift - 4)) & 15U];
}

// The escaped form of an ASCII character. False when it stands for itself.
bool AppendAsciiEscape(std::string& out, char c) {
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      return true;
    case '\n': out += "\\n"; return true;
    case '\r': out += "\\r"; return true;
    case '\t': out += "\\t"; return true;
    case '\b': out += "\\b"; return true;
    case '\f': out += "\\f"; return true;
    default: break;
  }
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20 && c != '<' && c != '>' && c != '&') return false;
  AppendUnicodeEscape(out, byte);
  return true;
}

class Writer {
 public:
  Writer(std::string& out, const WriteOptions& options) : out_(out), options_(options) {}

  void Put(const Value& value) {
    switch (value.type()) {
      case Type::kNull: out_ += "null"; return;
      case Type::kBool: out_ += *value.if_bool() ? "true" : "false"; return;
      case Type::kInteger: PutInteger(*value.if_integer()); return;
      case Type::kDouble: AppendDouble(out_, *value.AsDouble()); return;
      case Type::kString: AppendString(out_, *value.if_string()); return;
      case Type::kArray: PutList(*value.if_array()); return;
      case Type::kObject: PutMap(*value.if_object()); return;
    }
  }

 private:
  void PutInteger(std::int64_t value) {
    if (options_.numbers == Numbers::kAsDoubles) {
      AppendDouble(out_, static_cast<double>(value));
      return;
    }
    std::array<char, 20> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
    out_.append(buffer.data(), end.ptr);
  }

  void PutList(const Array& items) {
    out_ += '[';
    ++depth_;
    bool first = true;
    for (const Value& item : items) {
      StartChild(first);
      first = false;
      Put(item);
    }
    --depth_;
    if (!items.empty()) BreakLine();
    out_ += ']';
  }

  void PutMap(const Object& members) {
    std::vector<const Member*> order;
    order.reserve(members.size());
    for (const Member& member : members) order.push_back(&member);
    if (options_.key_order == KeyOrder::kSorted) {
      std::ranges::sort(order, {},
                        [](const Member* member) -> const std::string& { return member->key; });
    }
    out_ += '{';
    ++depth_;
    bool first = true;
    for (const Member* member : order) {
      StartChild(first);
      first = false;
      AppendString(out_, member->key);
      out_ += options_.indent > 0 ? ": " : ":";
      Put(member->value);
    }
    --depth_;
    if (!members.empty()) BreakLine();
    out_ += '}';
  }

  void StartChild(bool first) {
    if (!first) out_ += ',';
    BreakLine();
  }

  void BreakLine() {
    if (options_.indent <= 0) return;
    out_ += '\n';
    out_.append(depth_ * static_cast<std::size_t>(options_.indent), ' ');
  }

  std::string& out_;
  const WriteOptions& options_;
  std::size_t depth_ = 0;
};

}  // namespace

void AppendString(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    if (static_cast<unsigned char>(text.front()) < 0x80) {
      if (!AppendAsciiEscape(out, text.front())) out += text.front();
      text.remove_prefix(1);
      continue;
    }
    const std::size_t length = Utf8SequenceLength(text);
    const std::string_view sequence = text.substr(0, length);
    if (length == 0) {
      out += "\\ufffd";
    } else if (sequence == "\u2028") {
      out += "\\u2028";
    } else if (sequence == "\u2029") {
      out += "\\u2029";
    } else {
      out += sequence;
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out += '"';
}

// The digits come from std::to_chars in scientific form, which are the fewest that read back. They
// are laid out here, since its fixed form spells large numbers out to the last digit where Go pads
// with zeros.
void AppendDouble(std::string& out, double value) {
  CHECK(std::isfinite(value), "{}", value);
  if (value == 0) {
    out += '0';
    return;
  }
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value),
                                    std::chars_format::scientific);
  const std::string_view text(buffer.data(), result.ptr);
  const std::size_t mark = text.find('e');
  std::string digits(text.substr(0, mark));
  if (digits.size() > 1) digits.erase(1, 1);  // The point.
  int exponent = 0;
  std::from_chars(text.data() + mark + 2, result.ptr, exponent);
  if (text[mark + 1] == '-') exponent = -exponent;

  if (value < 0) out += '-';
  if (std::abs(value) < 1e-6 || std::abs(value) >= 1e21) {
    if (digits.size() > 1) digits.insert(1, ".");
    out.append(digits).append(exponent < 0 ? "e-" : "e+");
    out.append(std::to_string(std::abs(exponent)));
    return;
  }
  if (exponent < 0) {
    out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
    return;
  }
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    out.append(digits).append(whole - digits.size(), '0');
  } else {
    out.append(digits, 0, whole).append(".").append(digits, whole);
  }
}

std::string Write(const Value& value, const WriteOptions& options) {
  std::string out;
  Writer(out, options).Put(value);
  return out;
}

std::string WriteCanonical(const Value& value) {
  return Write(value,
               {.key_order = KeyOrder::kSorted, .numbers = Numbers::kAsDoubles, .indent = 0});
}

}  // namespace nstance::json
