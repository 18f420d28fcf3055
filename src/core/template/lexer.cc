#include "core/template/lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "core/template/literal.h"
#include "core/template/unicode.h"

namespace nstance::tmpl {
namespace {

constexpr std::string_view kLeft = "{{";
constexpr std::string_view kRight = "}}";
constexpr std::string_view kSpaces = " \t\r\n";

constexpr std::array<std::pair<std::string_view, TokenType>, 13> kKeywords = {{
    {"block", TokenType::kBlock},
    {"break", TokenType::kBreak},
    {"continue", TokenType::kContinue},
    {"define", TokenType::kDefine},
    {"else", TokenType::kElse},
    {"end", TokenType::kEnd},
    {"if", TokenType::kIf},
    {"nil", TokenType::kNil},
    {"range", TokenType::kRange},
    {"template", TokenType::kTemplate},
    {"with", TokenType::kWith},
    {"true", TokenType::kBool},
    {"false", TokenType::kBool},
}};

bool IsSpace(char c) { return kSpaces.contains(c); }

// "- " behind {{.
bool HasLeftTrim(std::string_view text) {
  return text.size() >= 2 && text[0] == '-' && IsSpace(text[1]);
}

// " -" in front of }}.
bool HasRightTrim(std::string_view text) {
  return text.size() >= 2 && IsSpace(text[0]) && text[1] == '-';
}

// Go's %#U.
std::string CodePointText(char32_t code_point) {
  std::string text = fmt::format("U+{:04X}", static_cast<std::uint32_t>(code_point));
  if (IsPrintable(code_point)) {
    text += " '";
    AppendCodePoint(text, code_point);
    text += '\'';
  }
  return text;
}

}  // namespace

std::string Token::ToString() const {
  if (type == TokenType::kEof) return "EOF";
  if (type == TokenType::kError) return error;
  if (type >= TokenType::kBlock) return fmt::format("<{}>", text);
  if (text.size() <= 10) return Quoted(text);
  std::size_t end = 0;
  for (int i = 0; i < 10 && end < text.size(); ++i) end += DecodeFirst(text.substr(end)).size;
  return Quoted(text.substr(0, end)) + "...";
}

Token Lexer::Make(TokenType type) {
  const auto first = source_.begin() + static_cast<std::ptrdiff_t>(line_at_);
  const auto last = source_.begin() + static_cast<std::ptrdiff_t>(start_);
  line_ += static_cast<std::uint32_t>(std::count(first, last, '\n'));
  line_at_ = start_;
  Token token{.type = type,
              .position = static_cast<std::uint32_t>(start_),
              .line = line_,
              .text = source_.substr(start_, at_ - start_)};
  start_ = at_;
  return token;
}

Token Lexer::Fail(std::string message) {
  Token token = Make(TokenType::kError);
  token.error = std::move(message);
  return token;
}

Token Lexer::BadCharacter() {
  return Fail("bad character " + CodePointText(DecodeFirst(rest()).code_point));
}

Token Lexer::Next() { return inside_action_ ? InsideAction() : Text(); }

Token Lexer::Text() {
  while (true) {
    const std::size_t found = source_.find(kLeft, at_);
    if (found == std::string_view::npos) {
      at_ = source_.size();
      return Make(at_ > start_ ? TokenType::kText : TokenType::kEof);
    }
    std::size_t end = found;
    if (HasLeftTrim(source_.substr(found + kLeft.size()))) {
      while (end > start_ && IsSpace(source_[end - 1])) --end;
    }
    if (end > start_) {
      at_ = end;
      Token text = Make(TokenType::kText);
      at_ = found;
      Ignore();
      return text;
    }
    at_ = found;
    Ignore();
    const std::string_view after = source_.substr(at_ + kLeft.size());
    const std::size_t marker = HasLeftTrim(after) ? 2 : 0;
    if (!after.substr(marker).starts_with("/*")) return LeftDelimiter();
    at_ += kLeft.size() + marker;
    Ignore();
    Token error;
    if (!SkipComment(error)) return error;
  }
}

Token Lexer::LeftDelimiter() {
  at_ += kLeft.size();
  Token token = Make(TokenType::kLeftDelimiter);
  inside_action_ = true;
  parentheses_ = 0;
  if (HasLeftTrim(rest())) at_ += 2;
  Ignore();
  return token;
}

bool Lexer::SkipComment(Token& error) {
  const std::size_t end = source_.find("*/", at_ + 2);
  if (end == std::string_view::npos) {
    error = Fail("unclosed comment");
    return false;
  }
  at_ = end + 2;
  bool trimmed = false;
  if (!AtRightDelimiter(trimmed)) {
    error = Fail("comment ends before closing delimiter");
    return false;
  }
  at_ += kRight.size() + (trimmed ? 2 : 0);
  if (trimmed) at_ = std::min(source_.find_first_not_of(kSpaces, at_), source_.size());
  Ignore();
  return true;
}

bool Lexer::AtRightDelimiter(bool& trimmed) const {
  trimmed = HasRightTrim(rest()) && rest().substr(2).starts_with(kRight);
  return trimmed || rest().starts_with(kRight);
}

Token Lexer::RightDelimiter() {
  bool trimmed = false;
  (void)AtRightDelimiter(trimmed);
  if (trimmed) {
    at_ += 2;
    Ignore();
  }
  at_ += kRight.size();
  Token token = Make(TokenType::kRightDelimiter);
  if (trimmed) at_ = std::min(source_.find_first_not_of(kSpaces, at_), source_.size());
  Ignore();
  inside_action_ = false;
  return token;
}

Token Lexer::InsideAction() {
  bool trimmed = false;
  if (AtRightDelimiter(trimmed)) {
    return parentheses_ == 0 ? RightDelimiter() : Fail("unclosed left paren");
  }
  if (at_end()) return Fail("unclosed action");
  const char c = source_[at_];
  if (IsSpace(c)) return Space();
  const bool number_follows =
      at_ + 1 >= source_.size() || (source_[at_ + 1] >= '0' && source_[at_ + 1] <= '9');
  switch (c) {
    case '"': return Quoted('"');
    case '\'': return Quoted('\'');
    case '`': return RawString();
    case '$': ++at_; return FieldOrVariable(TokenType::kVariable);
    case '.':
      if (number_follows) return Number();
      ++at_;
      return FieldOrVariable(TokenType::kField);
    case '+':
    case '-': return Number();
    default: break;
  }
  if (c >= '0' && c <= '9') return Number();
  const Decoded first = DecodeFirst(rest());
  if (IsNamePart(first.code_point)) return Name();
  if (first.code_point > 0x7F || !IsPrintable(first.code_point)) {
    return Fail("unrecognized character in action: " + CodePointText(first.code_point));
  }
  return Single(c);
}

Token Lexer::Single(char c) {
  ++at_;
  switch (c) {
    case '=': return Make(TokenType::kAssign);
    case '|': return Make(TokenType::kPipe);
    case ':':
      if (at_end() || source_[at_] != '=') return Fail("expected :=");
      ++at_;
      return Make(TokenType::kDeclare);
    case '(': ++parentheses_; return Make(TokenType::kLeftParenthesis);
    case ')':
      if (parentheses_ == 0) return Fail("unexpected right paren");
      --parentheses_;
      return Make(TokenType::kRightParenthesis);
    default: return Make(TokenType::kPunctuation);
  }
}

Token Lexer::Space() {
  at_ = std::min(source_.find_first_not_of(kSpaces, at_), source_.size());
  // The last blank may belong to " -}}".
  const std::string_view last = source_.substr(at_ - 1);
  if (HasRightTrim(last) && last.substr(2).starts_with(kRight)) {
    --at_;
    if (at_ == start_) return RightDelimiter();
  }
  return Make(TokenType::kSpace);
}

bool Lexer::AtTerminator() const {
  if (at_end()) return true;
  const char c = source_[at_];
  return IsSpace(c) || std::string_view(".,|:)(").contains(c) || rest().starts_with(kRight);
}

void Lexer::SkipNameParts() {
  while (!at_end()) {
    const Decoded next = DecodeFirst(rest());
    if (!IsNamePart(next.code_point)) return;
    at_ += next.size;
  }
}

Token Lexer::Name() {
  SkipNameParts();
  if (!AtTerminator()) return BadCharacter();
  const std::string_view word = source_.substr(start_, at_ - start_);
  const auto* const keyword =
      std::ranges::find(kKeywords, word, &std::pair<std::string_view, TokenType>::first);
  return Make(keyword == kKeywords.end() ? TokenType::kIdentifier : keyword->second);
}

Token Lexer::FieldOrVariable(TokenType type) {
  if (AtTerminator()) return Make(type == TokenType::kVariable ? type : TokenType::kDot);
  SkipNameParts();
  return AtTerminator() ? Make(type) : BadCharacter();
}

Token Lexer::Quoted(char quote) {
  ++at_;
  while (!at_end() && source_[at_] != '\n') {
    const char c = source_[at_++];
    if (c == quote) {
      return Make(quote == '"' ? TokenType::kString : TokenType::kCharacter);
    }
    if (c != '\\') continue;
    if (at_end() || source_[at_] == '\n') break;
    ++at_;
  }
  return Fail(quote == '"' ? "unterminated quoted string" : "unterminated character constant");
}

Token Lexer::RawString() {
  const std::size_t end = source_.find('`', at_ + 1);
  if (end == std::string_view::npos) return Fail("unterminated raw quoted string");
  at_ = end + 1;
  return Make(TokenType::kRawString);
}

bool Lexer::Accept(std::string_view set) {
  if (at_end() || !set.contains(source_[at_])) return false;
  ++at_;
  return true;
}

bool Lexer::ScanNumber() {
  constexpr std::string_view kDecimal = "0123456789_";
  constexpr std::string_view kHex = "0123456789abcdefABCDEF_";
  Accept("+-");
  std::string_view digits = kDecimal;
  if (Accept("0")) {
    if (Accept("xX")) {
      digits = kHex;
    } else if (Accept("oO")) {
      digits = "01234567_";
    } else if (Accept("bB")) {
      digits = "01_";
    }
  }
  while (Accept(digits)) continue;
  if (Accept(".")) {
    while (Accept(digits)) continue;
  }
  const std::string_view exponent = digits == kDecimal ? "eE" : (digits == kHex ? "pP" : "");
  if (Accept(exponent)) {
    Accept("+-");
    while (Accept(kDecimal)) continue;
  }
  Accept("i");
  if (at_end()) return true;
  const Decoded next = DecodeFirst(rest());
  if (!IsNamePart(next.code_point)) return true;
  at_ += next.size;
  return false;
}

Token Lexer::Number() {
  bool complex = false;
  bool good = ScanNumber();
  if (good && !at_end() && (source_[at_] == '+' || source_[at_] == '-')) {
    complex = true;
    good = ScanNumber() && source_[at_ - 1] == 'i';
  }
  if (!good) {
    return Fail("bad number syntax: " + tmpl::Quoted(source_.substr(start_, at_ - start_)));
  }
  return Make(complex ? TokenType::kComplex : TokenType::kNumber);
}

}  // namespace nstance::tmpl
