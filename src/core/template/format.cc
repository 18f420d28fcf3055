#include "core/template/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/template/literal.h"
#include "core/template/unicode.h"

namespace nstance::tmpl {
namespace {

// Of a width or precision: when it is an argument; and before the last digit, when it is written.
constexpr int kMaxNumber = 1'000'000;

struct Flags {
  bool has_width = false;
  bool has_precision = false;
  bool minus = false;
  bool plus = false;
  bool sharp = false;
  bool space = false;
  bool zero = false;
  // %+v and %#v, which are forms of their own: `plus` and `sharp` are not set then.
  bool plus_v = false;
  bool sharp_v = false;
  int width = 0;
  int precision = 0;
};

// How an integer is written.
struct IntegerForm {
  int base = 10;
  bool upper = false;
  bool is_signed = true;
  bool octal_prefix = false;  // %O
};

class Printer final {
 public:
  explicit Printer(Sink& sink) : sink_(sink) {}

  Flags& flags() { return flags_; }
  void Argument(const View& value, char32_t verb);
  void TypeAndValue(const View& value);

 private:
  void Padding(int count);
  void Padded(std::string_view text);
  // The same, but never with zeros.
  void PaddedWithBlanks(std::string_view text);
  void Nested(const View& value, char32_t verb);
  void BadVerb(const View& value, char32_t verb);
  void Boolean(const View& value, char32_t verb);
  void Integer(const View& value, char32_t verb);
  void Number(std::uint64_t value, const IntegerForm& form);
  void CodePoint(std::uint64_t value);
  void Real(const View& value, char32_t verb);
  void FloatText(Float value, char verb, int precision);
  void KeepZeros(std::string& number, char verb, int precision) const;
  void String(const View& value, char32_t verb);
  void Hex(std::string_view text, char32_t verb);
  void QuotedText(std::string_view text);
  [[nodiscard]] std::string_view Truncated(std::string_view text) const;
  void List(const View& value, char32_t verb);
  void Map(const View& value, char32_t verb);
  void Record(const View& value, char32_t verb);
  void Separator(std::size_t index);

  Sink& sink_;
  Flags flags_;
};

void Printer::Padding(int count) {
  if (count > 0)
    sink_.Fill(static_cast<std::size_t>(count), flags_.zero && !flags_.minus ? '0' : ' ');
}

void Printer::Padded(std::string_view text) {
  if (flags_.width == 0) {
    sink_.Append(text);
    return;
  }
  // A text longer than any width needs no padding.
  constexpr std::size_t kWidest = std::size_t{kMaxNumber} * 11;
  const int count = static_cast<int>(std::min(CountCodePoints(text), kWidest));
  if (!flags_.minus) Padding(flags_.width - count);
  sink_.Append(text);
  if (flags_.minus) Padding(flags_.width - count);
}

void Printer::PaddedWithBlanks(std::string_view text) {
  const bool zero = std::exchange(flags_.zero, false);
  Padded(text);
  flags_.zero = zero;
}

void Printer::BadVerb(const View& value, char32_t verb) {
  std::string text = "%!";
  AppendCodePoint(text, verb);
  sink_.Append(text);
  sink_.Append('(');
  if (value.kind == Kind::kNil) {
    sink_.Append("<nil>");
  } else {
    TypeAndValue(value);
  }
  sink_.Append(')');
}

void Printer::TypeAndValue(const View& value) {
  sink_.Append(value.TypeName());
  sink_.Append('=');
  Nested(value, 'v');
}

void Printer::Argument(const View& value, char32_t verb) {
  const bool compound = value.kind >= Kind::kList;
  if (value.kind == Kind::kNil) {
    if (verb == 'T' || verb == 'v') {
      Padded("<nil>");
    } else {
      BadVerb(value, verb);
    }
  } else if (verb == 'T') {
    Padded(Truncated(value.TypeName()));
  } else if (verb == 'p' || (verb == 'w' && compound)) {
    BadVerb(value, verb);
  } else {
    Nested(value, verb);
  }
}

void Printer::Nested(const View& value, char32_t verb) {
  if (sink_.full()) return;
  switch (value.kind) {
    case Kind::kNil:
    case Kind::kUnset: sink_.Append(flags_.sharp_v ? "interface {}(nil)" : "<nil>"); break;
    case Kind::kBool: Boolean(value, verb); break;
    case Kind::kInt:
    case Kind::kByte: Integer(value, verb); break;
    case Kind::kFloat: Real(value, verb); break;
    case Kind::kString: String(value, verb); break;
    case Kind::kList: List(value, verb); break;
    case Kind::kMap: Map(value, verb); break;
    case Kind::kRecord: Record(value, verb); break;
  }
}

void Printer::Boolean(const View& value, char32_t verb) {
  if (verb != 't' && verb != 'v') {
    BadVerb(value, verb);
    return;
  }
  Padded(value.integer != 0 ? "true" : "false");
}

// --- Integers -----------------------------------------------------------------------------------

void Printer::Integer(const View& value, char32_t verb) {
  const auto bits = static_cast<std::uint64_t>(value.integer);
  IntegerForm form{.is_signed = value.kind == Kind::kInt};
  switch (verb) {
    case 'v':
      if (flags_.sharp_v && !form.is_signed) {
        form.base = 16;
        const bool sharp = std::exchange(flags_.sharp, true);
        Number(bits, form);
        flags_.sharp = sharp;
        return;
      }
      break;
    case 'd': break;
    case 'b': form.base = 2; break;
    case 'o': form.base = 8; break;
    case 'O':
      form.base = 8;
      form.octal_prefix = true;
      break;
    case 'x': form.base = 16; break;
    case 'X':
      form.base = 16;
      form.upper = true;
      break;
    case 'c':
    case 'q': {
      const char32_t code = IsCodePoint(bits) ? static_cast<char32_t>(bits) : kReplacement;
      std::string text;
      if (verb == 'c') {
        AppendCodePoint(text, code);
      } else {
        AppendQuotedCharacter(text, code, flags_.plus ? Ascii::kOnly : Ascii::kNo);
      }
      Padded(text);
      return;
    }
    case 'U': CodePoint(bits); return;
    default: BadVerb(value, verb); return;
  }
  Number(bits, form);
}

void Printer::Number(std::uint64_t value, const IntegerForm& form) {
  const bool negative = form.is_signed && static_cast<std::int64_t>(value) < 0;
  if (negative) value = 0 - value;
  int digits = 0;
  if (flags_.has_precision) {
    digits = flags_.precision;
    if (digits == 0 && value == 0) {  // Nothing but its width.
      sink_.Fill(static_cast<std::size_t>(flags_.width), ' ');
      return;
    }
  } else if (flags_.zero && !flags_.minus && flags_.has_width) {
    digits = flags_.width - (negative || flags_.plus || flags_.space ? 1 : 0);
  }
  std::array<char, 64> buffer{};
  const char* const end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, form.base).ptr;
  if (form.upper) {
    std::ranges::transform(buffer, buffer.begin(), [](char c) {
      return c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c;
    });
  }
  const std::string_view number(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t zeros = static_cast<std::size_t>(std::max(digits, 0)) > number.size()
                                ? static_cast<std::size_t>(digits) - number.size()
                                : 0;
  std::string text;
  if (negative) {
    text += '-';
  } else if (flags_.plus || flags_.space) {
    text += flags_.plus ? '+' : ' ';
  }
  if (form.octal_prefix) text += "0o";
  if (flags_.sharp) {
    if (form.base == 2) text += "0b";
    if (form.base == 8 && zeros == 0 && number[0] != '0') text += '0';
    if (form.base == 16) text += form.upper ? "0X" : "0x";
  }
  text.append(zeros, '0').append(number);
  PaddedWithBlanks(text);
}

void Printer::CodePoint(std::uint64_t value) {
  std::array<char, 16> buffer{};
  const char* const end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, 16).ptr;
  const auto count = static_cast<int>(end - buffer.data());
  const int digits = flags_.has_precision ? std::max(flags_.precision, 4) : 4;
  std::string text = "U+";
  text.append(static_cast<std::size_t>(std::max(digits - count, 0)), '0');
  for (const char c : std::string_view(buffer.data(), end)) {
    text += c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  if (flags_.sharp && value <= kMaxCodePoint && IsPrintable(static_cast<char32_t>(value))) {
    text += " '";
    AppendCodePoint(text, static_cast<char32_t>(value));
    text += '\'';
  }
  PaddedWithBlanks(text);
}

// --- Floats -------------------------------------------------------------------------------------

void Printer::Real(const View& value, char32_t verb) {
  switch (verb) {
    case 'v': FloatText(value.real, 'g', -1); break;
    case 'b':
    case 'g':
    case 'G':
    case 'x':
    case 'X': FloatText(value.real, static_cast<char>(verb), -1); break;
    case 'f':
    case 'e':
    case 'E': FloatText(value.real, static_cast<char>(verb), 6); break;
    case 'F': FloatText(value.real, 'f', 6); break;
    default: BadVerb(value, verb);
  }
}

void Printer::FloatText(Float value, char verb, int precision) {
  if (flags_.has_precision) precision = flags_.precision;
  std::string number = FormatFloat(value, verb, precision);
  if (number[0] != '-' && number[0] != '+') number.insert(0, 1, '+');
  if (flags_.space && number[0] == '+' && !flags_.plus) number[0] = ' ';
  if (number[1] == 'I' || number[1] == 'N') {
    if (number[1] == 'N' && !flags_.space && !flags_.plus) number.erase(0, 1);
    PaddedWithBlanks(number);
    return;
  }
  if (flags_.sharp && verb != 'b') KeepZeros(number, verb, precision);
  if (!flags_.plus && number[0] == '+') {
    Padded(std::string_view(number).substr(1));
    return;
  }
  const auto size = static_cast<int>(number.size());
  if (flags_.zero && !flags_.minus && flags_.has_width && flags_.width > size) {
    // The sign stands in front of the zeros.
    sink_.Append(number[0]);
    Padding(flags_.width - size);
    sink_.Append(std::string_view(number).substr(1));
    return;
  }
  Padded(number);
}

// The flag # keeps the point and the zeros behind it.
void Printer::KeepZeros(std::string& number, char verb, int precision) const {
  int digits = 0;
  if (verb == 'g' || verb == 'G' || verb == 'x') digits = precision < 0 ? 6 : precision;
  const bool hex = verb == 'x' || verb == 'X';
  const std::size_t exponent = std::min(number.find_first_of(hex ? "pP" : "eE"), number.size());
  const std::string tail = number.substr(exponent);
  number.erase(exponent);
  bool significant = false;
  for (const char c : std::string_view(number).substr(1)) {
    if (c == '.') continue;
    significant = significant || c != '0';
    if (significant) --digits;
  }
  if (!number.contains('.')) {
    if (number.size() == 2 && number[1] == '0') --digits;
    number += '.';
  }
  number.append(static_cast<std::size_t>(std::max(digits, 0)), '0').append(tail);
}

// --- Strings ------------------------------------------------------------------------------------

void Printer::String(const View& value, char32_t verb) {
  switch (verb) {
    case 'v':
      if (flags_.sharp_v) {
        QuotedText(value.string());
      } else {
        Padded(Truncated(value.string()));
      }
      break;
    case 's': Padded(Truncated(value.string())); break;
    case 'x':
    case 'X': Hex(value.string(), verb); break;
    case 'q': QuotedText(value.string()); break;
    default: BadVerb(value, verb);
  }
}

std::string_view Printer::Truncated(std::string_view text) const {
  if (!flags_.has_precision) return text;
  std::size_t at = 0;
  for (int left = flags_.precision; left > 0 && at < text.size(); --left) {
    at += DecodeFirst(text.substr(at)).size;
  }
  return text.substr(0, at);
}

void Printer::QuotedText(std::string_view text) {
  text = Truncated(text);
  std::string out;
  if (flags_.sharp && CanBackquote(text)) {
    out.append("`").append(text).append("`");
  } else {
    AppendQuoted(out, text, flags_.plus ? Ascii::kOnly : Ascii::kNo);
  }
  Padded(out);
}

void Printer::Hex(std::string_view text, char32_t verb) {
  if (flags_.has_precision) text = text.substr(0, static_cast<std::size_t>(flags_.precision));
  if (text.empty()) {
    Padding(flags_.width);
    return;
  }
  const std::string_view digits = verb == 'x' ? "0123456789abcdef" : "0123456789ABCDEF";
  const std::string_view prefix = verb == 'x' ? "0x" : "0X";
  std::string out;
  out.reserve(text.size() * (flags_.space ? 5 : 2) + 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (flags_.space && i > 0) out += ' ';
    if (flags_.sharp && (flags_.space || i == 0)) out += prefix;
    const auto byte = static_cast<unsigned char>(text[i]);
    out += digits[byte >> 4U];
    out += digits[byte & 15U];
  }
  Padded(out);
}

// --- Lists, maps, records -----------------------------------------------------------------------

void Printer::Separator(std::size_t index) {
  if (index > 0) sink_.Append(flags_.sharp_v ? ", " : " ");
}

void Printer::List(const View& value, char32_t verb) {
  if (flags_.sharp_v) sink_.Append(value.TypeName());
  sink_.Append(flags_.sharp_v ? '{' : '[');
  for (std::size_t i = 0; i < value.size && !sink_.full(); ++i) {
    Separator(i);
    Nested(View::Of(value.items[i]), verb);
  }
  sink_.Append(flags_.sharp_v ? '}' : ']');
}

void Printer::Map(const View& value, char32_t verb) {
  sink_.Append(flags_.sharp_v ? value.TypeName() : "map");
  sink_.Append(flags_.sharp_v ? '{' : '[');
  const auto& members = value.map->members;
  for (std::size_t i = 0; i < members.size() && !sink_.full(); ++i) {
    Separator(i);
    Nested(View::String(members[i].first), verb);
    sink_.Append(':');
    Nested(View::Of(members[i].second), verb);
  }
  sink_.Append(flags_.sharp_v ? '}' : ']');
}

void Printer::Record(const View& value, char32_t verb) {
  if (flags_.sharp_v) sink_.Append(value.TypeName());
  sink_.Append('{');
  const RecordData& record = *value.record;
  for (std::size_t i = 0; i < record.fields.size() && !sink_.full(); ++i) {
    Separator(i);
    if (flags_.plus_v || flags_.sharp_v) {
      sink_.Append(record.type->fields[i]);
      sink_.Append(':');
    }
    Nested(View::Of(record.fields[i]), verb);
  }
  sink_.Append('}');
}

// --- Formats ------------------------------------------------------------------------------------

struct FormatNumber {
  int value = 0;
  bool present = false;
};

// Reads one format and prints its values.
class FormatRun final {
 public:
  FormatRun(Sink& sink, std::string_view format, std::span<const View> values)
      : sink_(sink), printer_(sink), format_(format), values_(values) {
    last_bracket_ = format.rfind(']');
  }

  void Run();

 private:
  [[nodiscard]] bool at_end() const { return at_ >= format_.size(); }
  [[nodiscard]] bool Next(char c) const { return !at_end() && format_[at_] == c; }
  void Directive();
  void ReadFlags();
  void ReadWidth();
  void ReadPrecision();
  // True after "[3]".
  bool ReadIndex();
  FormatNumber ReadNumber(std::size_t end);
  FormatNumber TakeNumberArgument();
  void Verb(char32_t verb);
  void Mistake(char32_t verb, std::string_view what);
  void Extra();

  Sink& sink_;
  Printer printer_;
  std::string_view format_;
  std::span<const View> values_;
  std::size_t last_bracket_ = 0;
  std::size_t at_ = 0;
  std::size_t argument_ = 0;
  bool reordered_ = false;
  bool good_index_ = true;
  bool after_index_ = false;
};

void FormatRun::Run() {
  while (!at_end() && !sink_.full()) {
    const std::size_t percent = std::min(format_.find('%', at_), format_.size());
    sink_.Append(format_.substr(at_, percent - at_));
    at_ = percent;
    if (at_end()) break;
    ++at_;
    Directive();
  }
  if (!reordered_ && argument_ < values_.size()) Extra();
}

void FormatRun::Directive() {
  good_index_ = true;
  ReadFlags();
  after_index_ = ReadIndex();
  ReadWidth();
  ReadPrecision();
  if (!after_index_) after_index_ = ReadIndex();
  if (at_end()) {
    sink_.Append("%!(NOVERB)");
    return;
  }
  const Decoded verb = DecodeFirst(format_.substr(at_));
  at_ += verb.size;
  Verb(verb.code_point);
}

void FormatRun::ReadFlags() {
  Flags& flags = printer_.flags();
  flags = {};
  for (; !at_end(); ++at_) {
    switch (format_[at_]) {
      case '#': flags.sharp = true; break;
      case '0': flags.zero = true; break;
      case '+': flags.plus = true; break;
      case '-': flags.minus = true; break;
      case ' ': flags.space = true; break;
      default: return;
    }
  }
}

FormatNumber FormatRun::ReadNumber(std::size_t end) {
  FormatNumber number;
  for (; at_ < end && format_[at_] >= '0' && format_[at_] <= '9'; ++at_) {
    if (number.value > kMaxNumber) {
      at_ = end;
      return {};
    }
    number.value = number.value * 10 + (format_[at_] - '0');
    number.present = true;
  }
  return number;
}

bool FormatRun::ReadIndex() {
  if (!Next('[')) return false;
  reordered_ = true;
  // Known beforehand, so that a format full of brackets that never close is not read again and
  // again.
  const bool closes = last_bracket_ != std::string_view::npos && last_bracket_ > at_;
  if (!closes || format_.size() - at_ < 3) {
    ++at_;
    good_index_ = false;
    return false;
  }
  const std::size_t close = format_.find(']', at_);
  ++at_;
  const FormatNumber number = ReadNumber(close);
  const bool ok = number.present && at_ == close;
  at_ = close + 1;
  if (ok && number.value >= 1 && static_cast<std::size_t>(number.value) <= values_.size()) {
    argument_ = static_cast<std::size_t>(number.value) - 1;
  } else {
    good_index_ = false;
  }
  return ok;
}

FormatNumber FormatRun::TakeNumberArgument() {
  if (argument_ >= values_.size()) return {};
  const View& value = values_[argument_++];
  if (!value.is_integer() || value.integer > kMaxNumber || value.integer < -kMaxNumber) return {};
  return {.value = static_cast<int>(value.integer), .present = true};
}

void FormatRun::ReadWidth() {
  Flags& flags = printer_.flags();
  FormatNumber number;
  if (Next('*')) {
    ++at_;
    number = TakeNumberArgument();
    if (!number.present) sink_.Append("%!(BADWIDTH)");
    if (number.value < 0) {
      number.value = -number.value;
      flags.minus = true;
      flags.zero = false;
    }
    after_index_ = false;
  } else {
    number = ReadNumber(format_.size());
    if (after_index_ && number.present) good_index_ = false;
  }
  flags.width = number.value;
  flags.has_width = number.present;
}

void FormatRun::ReadPrecision() {
  if (!Next('.') || at_ + 1 >= format_.size()) return;
  ++at_;
  if (after_index_) good_index_ = false;
  after_index_ = ReadIndex();
  Flags& flags = printer_.flags();
  FormatNumber number;
  if (Next('*')) {
    ++at_;
    number = TakeNumberArgument();
    if (number.value < 0) number = {};
    if (!number.present) sink_.Append("%!(BADPREC)");
    after_index_ = false;
  } else {
    number = ReadNumber(format_.size());
    number.present = true;
  }
  flags.precision = number.value;
  flags.has_precision = number.present;
}

void FormatRun::Mistake(char32_t verb, std::string_view what) {
  std::string text = "%!";
  AppendCodePoint(text, verb);
  sink_.Append(text.append(what));
}

void FormatRun::Verb(char32_t verb) {
  if (verb == '%') {
    sink_.Append('%');
  } else if (!good_index_) {
    Mistake(verb, "(BADINDEX)");
  } else if (argument_ >= values_.size()) {
    Mistake(verb, "(MISSING)");
  } else {
    if (verb == 'v' || verb == 'w') {
      Flags& flags = printer_.flags();
      flags.sharp_v = std::exchange(flags.sharp, false);
      flags.plus_v = std::exchange(flags.plus, false);
    }
    printer_.Argument(values_[argument_++], verb);
  }
}

void FormatRun::Extra() {
  printer_.flags() = {};
  sink_.Append("%!(EXTRA ");
  for (std::size_t i = argument_; i < values_.size(); ++i) {
    if (i > argument_) sink_.Append(", ");
    if (values_[i].kind == Kind::kNil) {
      sink_.Append("<nil>");
    } else {
      printer_.TypeAndValue(values_[i]);
    }
  }
  sink_.Append(')');
}

}  // namespace

void PrintOne(Sink& sink, const View& value) {
  if (value.kind == Kind::kString) {
    sink.Append(value.string());
    return;
  }
  if (value.is_integer()) {
    std::array<char, 24> buffer{};
    const char* const end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value.integer).ptr;
    sink.Append({buffer.data(), end});
    return;
  }
  Printer(sink).Argument(value, 'v');
}

void Print(Sink& sink, std::span<const View> values) {
  bool after_string = true;
  for (const View& value : values) {
    const bool is_string = value.kind == Kind::kString;
    if (!after_string && !is_string) sink.Append(' ');
    PrintOne(sink, value);
    after_string = is_string;
  }
}

void PrintLine(Sink& sink, std::span<const View> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) sink.Append(' ');
    PrintOne(sink, values[i]);
  }
  sink.Append('\n');
}

void PrintFormat(Sink& sink, std::string_view format, std::span<const View> values) {
  FormatRun(sink, format, values).Run();
}

}  // namespace nstance::tmpl
