// Lexer: cuts the source of a template into tokens, as Go's text/template/parse does.
//
// Total: any bytes give tokens; the last one is kEof or kError. Trim markers and comments are
// resolved here, so the parser never sees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nstance::tmpl {

enum class TokenType : std::uint8_t {
  kError,
  kBool,
  kCharacter,  // 'a'
  kComplex,    // 1+2i
  kAssign,     // =
  kDeclare,    // :=
  kEof,
  kField,       // .x
  kIdentifier,  // x
  kLeftDelimiter,
  kLeftParenthesis,
  kNumber,
  kPipe,
  kPunctuation,  // Any other printable ASCII character.
  kRawString,
  kRightDelimiter,
  kRightParenthesis,
  kSpace,
  kString,
  kText,
  kVariable,  // $x
  // Keywords.
  kBlock,
  kBreak,
  kContinue,
  kDot,
  kDefine,
  kElse,
  kEnd,
  kIf,
  kNil,
  kRange,
  kTemplate,
  kWith,
};

struct Token {
  TokenType type = TokenType::kEof;
  std::uint32_t position = 0;  // In bytes.
  std::uint32_t line = 0;      // From 1; 0 before the first token.
  std::string_view text = {};
  std::string error = {};  // kError: what is wrong.

  // As messages show it: quoted, cut at ten characters, keywords in <>.
  [[nodiscard]] std::string ToString() const;
};

class Lexer final {
 public:
  // `source` must outlive the lexer and its tokens. REQUIRES: less than 4 GiB.
  explicit Lexer(std::string_view source) : source_(source) {}

  [[nodiscard]] Token Next();

 private:
  [[nodiscard]] std::string_view rest() const { return source_.substr(at_); }
  [[nodiscard]] bool at_end() const { return at_ >= source_.size(); }
  [[nodiscard]] bool AtTerminator() const;
  [[nodiscard]] bool AtRightDelimiter(bool& trimmed) const;
  void Ignore() { start_ = at_; }
  void SkipNameParts();
  Token Make(TokenType type);
  Token Fail(std::string message);
  Token BadCharacter();
  bool SkipComment(Token& error);
  Token Text();
  Token LeftDelimiter();
  Token RightDelimiter();
  Token InsideAction();
  Token Single(char c);
  Token Space();
  Token Name();
  Token FieldOrVariable(TokenType type);
  Token Quoted(char quote);
  Token RawString();
  Token Number();
  bool ScanNumber();
  bool Accept(std::string_view set);

  std::string_view source_;
  std::size_t at_ = 0;
  std::size_t start_ = 0;
  std::size_t line_at_ = 0;  // Where `line_` was counted up to.
  std::uint32_t line_ = 1;
  int parentheses_ = 0;
  bool inside_action_ = false;
};

}  // namespace nstance::tmpl
