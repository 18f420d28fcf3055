// Parser: the source of a template into a Program.
//
// Accepts what Go's text/template accepts, with the same messages ("template: <name>:<line>: ..."),
// except that
//   - complex numbers are refused
//   - parentheses nest at most 200 deep (Go: 10,000), blocks and `else if`s at most 500
//   - at most 2,000 variables are declared at once, and 15 of one name in parentheses
// Blocks are kept on a stack of the parser's own, so deep nesting costs no machine stack.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/template/lexer.h"
#include "core/template/program.h"

namespace nstance::tmpl {

inline constexpr int kMaxExpressionDepth = 200;
inline constexpr std::size_t kMaxBlockDepth = 500;
inline constexpr std::size_t kMaxVariables = 2'000;
inline constexpr std::uint32_t kMaxCandidates = 16;

struct ParseFailure {
  Error error;
  std::uint32_t position = 0;  // In bytes.
};

class Parser final {
 public:
  // `program` has its name and source, and nothing else; it must outlive the parser.
  explicit Parser(Program& program);

  // Null when the program is complete.
  [[nodiscard]] std::optional<ParseFailure> Run();

 private:
  struct Variable {
    std::string_view name;
    std::uint32_t slot = kNone;  // kNone: assigned to, or not yet declared.
    bool conditional = false;    // Declared in parentheses, which may not be evaluated.
  };

  // What Go keeps per parse tree: the template, and each `define` and `block` in it.
  struct Tree {
    std::uint32_t body = 0;
    std::array<Token, 3> tokens;  // Looked ahead; the first is the last one read.
    int ahead = 0;
    std::vector<Variable> variables;
    std::uint32_t next_slot = 1;
    int ranges = 0;
    std::uint32_t action_line = 0;
    int depth = 0;  // Of parentheses.
  };

  enum class BlockType : std::uint8_t { kIf, kWith, kRange, kDefine, kBlock };

  struct OpenBlock {
    BlockType type = BlockType::kIf;
    bool in_else = false;
    bool implied = false;       // The `if` of an `else if`: ends with the block around it.
    std::uint32_t opener = 0;   // Its kIf, kWith or kRange.
    std::size_t variables = 0;  // How many there were before.
    std::uint32_t next_slot = 0;
    std::size_t inner_variables = 0;  // With those of the header.
    std::uint32_t inner_slot = 0;
    std::vector<std::uint32_t> to_end;   // Jumps whose target is the end.
    std::vector<std::uint32_t> to_next;  // `continue`s.
  };

  struct Header {
    std::uint32_t pipeline = kNone;
    std::uint32_t first_slot = 0;
    std::uint32_t slots = 0;  // Of which some are conditional; 0 if none is.
    bool declares = false;    // Or assigns.
  };

  // Tokens.
  Tree& tree() { return trees_.back(); }
  const Token& Next();
  const Token& Peek();
  void Backup() { ++tree().ahead; }
  void Backup(const Token& first);
  void Backup(const Token& first, const Token& second);
  const Token& NextNonSpace();
  const Token& PeekNonSpace();

  // Messages. All return false.
  bool Fail(const std::string& message) { return Fail(tree(), message); }
  bool Fail(const Tree& at, const std::string& message);
  bool Unexpected(const Token& token, std::string_view context);
  bool Expect(TokenType type, std::string_view context);

  // Texts and blocks.
  bool Step();
  bool TopLevel();
  bool TextOrAction();
  bool Action();
  bool Control(BlockType type);
  bool Else();
  bool End();
  bool BreakOrContinue(Op op);
  bool Template();
  bool Define();
  bool Block();
  bool NewTree(BlockType type, std::string_view name);
  bool CloseTree();
  void CloseControl(OpenBlock& block);
  bool Add(std::uint32_t body);
  void Resolve();

  // Pipelines.
  bool ReadHeader(std::string_view context, Header& header);
  bool ReadPipeline(std::string_view context, TokenType end, std::uint32_t& index);
  bool ReadDeclarations(std::string_view context, Pipeline& pipeline,
                        std::vector<Declaration>& declarations);
  bool AfterComma(std::string_view context, std::size_t declared, bool& more);
  bool CheckPipeline(const std::vector<Command>& commands, std::string_view context);
  bool FinishDeclarations(Pipeline& pipeline, std::vector<Declaration>& declarations);
  bool ReadCommand(Command& command);
  bool ReadOperand(std::optional<std::uint32_t>& index);
  bool ReadChain(std::uint32_t& index);
  bool ReadTerm(std::optional<std::uint32_t>& index);
  bool ReadConstant(const Token& token, Operand& operand);
  bool ReadParenthesis(Operand& operand);
  bool ReadVariable(const Token& token, Operand& operand);
  bool ReadName(const Token& token, std::string_view context, std::string_view& name);
  bool Knows(std::string_view variable);
  bool Candidates(std::string_view name, Slice& slots);
  std::uint32_t NewSlot();

  // Code.
  Body& body() { return program_.bodies[tree().body]; }
  std::uint32_t here() { return static_cast<std::uint32_t>(body().code.size()); }
  Instruction& Emit(Op op);
  Instruction& EmitHeader(Op op, const Header& header);
  std::string_view Keep(std::string text);

  Program& program_;
  Lexer lexer_;
  std::vector<Tree> trees_;
  std::vector<OpenBlock> blocks_;
  std::map<std::string_view, std::uint32_t> defined_;  // Name to body.
  std::optional<ParseFailure> failure_;
  // Of the header that is being read:
  bool conditional_ = false;  // A variable was declared in parentheses.
  bool assigned_ = false;     // A variable was assigned to.
  bool done_ = false;
};

}  // namespace nstance::tmpl
