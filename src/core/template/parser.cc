#include "core/template/parser.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "core/template/functions.h"
#include "core/template/literal.h"
#include "core/template/unicode.h"

namespace nstance::tmpl {
namespace {

bool IsBlank(std::string_view text) {
  while (!text.empty()) {
    const Decoded next = DecodeFirst(text);
    if (!IsWhiteSpace(next.code_point)) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

bool StartsOperand(TokenType type) {
  switch (type) {
    case TokenType::kBool:
    case TokenType::kCharacter:
    case TokenType::kComplex:
    case TokenType::kDot:
    case TokenType::kField:
    case TokenType::kIdentifier:
    case TokenType::kNumber:
    case TokenType::kNil:
    case TokenType::kRawString:
    case TokenType::kString:
    case TokenType::kVariable:
    case TokenType::kLeftParenthesis: return true;
    default: return false;
  }
}

}  // namespace

Parser::Parser(Program& program) : program_(program), lexer_(program.source) {
  program_.bodies.push_back({.name = program_.name});
  trees_.push_back({.body = 0, .tokens = {}, .variables = {{.name = "$", .slot = 0}}});
}

std::optional<ParseFailure> Parser::Run() {
  while (!done_ && Step()) continue;
  if (!failure_ && Add(0)) Resolve();
  return std::move(failure_);
}

// --- Tokens -------------------------------------------------------------------------------------

const Token& Parser::Next() {
  Tree& tree = this->tree();
  if (tree.ahead > 0) {
    --tree.ahead;
  } else {
    tree.tokens[0] = lexer_.Next();
  }
  return tree.tokens.at(static_cast<std::size_t>(tree.ahead));
}

const Token& Parser::Peek() {
  Tree& tree = this->tree();
  if (tree.ahead == 0) {
    tree.tokens[0] = lexer_.Next();
    tree.ahead = 1;
  }
  return tree.tokens.at(static_cast<std::size_t>(tree.ahead) - 1);
}

void Parser::Backup(const Token& first) {
  tree().tokens[1] = first;
  tree().ahead = 2;
}

void Parser::Backup(const Token& first, const Token& second) {
  tree().tokens[2] = first;
  tree().tokens[1] = second;
  tree().ahead = 3;
}

const Token& Parser::NextNonSpace() {
  while (true) {
    const Token& token = Next();
    if (token.type != TokenType::kSpace) return token;
  }
}

const Token& Parser::PeekNonSpace() {
  NextNonSpace();
  Backup();
  return Peek();
}

// --- Messages -----------------------------------------------------------------------------------

bool Parser::Fail(const Tree& at, const std::string& message) {
  const Token& last = at.tokens[0];
  failure_ = {.error = InvalidArgument(
                  fmt::format("template: {}:{}: {}", program_.name, last.line, message)),
              .position = last.position};
  return false;
}

bool Parser::Unexpected(const Token& token, std::string_view context) {
  const std::uint32_t position = token.position;
  if (token.type == TokenType::kError) {
    std::string extra;
    const std::uint32_t begin = tree().action_line;
    if (begin != 0 && begin != token.line) {
      extra =
          fmt::format("{} started at {}:{}", token.error.ends_with(" action") ? "" : " in action",
                      program_.name, begin);
    }
    Fail(token.error + extra);
  } else {
    Fail(fmt::format("unexpected {} in {}", token.ToString(), context));
  }
  failure_->position = position;
  return false;
}

bool Parser::Expect(TokenType type, std::string_view context) {
  const Token& token = NextNonSpace();
  return token.type == type || Unexpected(token, context);
}

// --- Texts and blocks ---------------------------------------------------------------------------

bool Parser::Step() {
  if (blocks_.empty()) return TopLevel();
  if (PeekNonSpace().type == TokenType::kEof) return Fail("unexpected EOF");
  return TextOrAction();
}

// Only here may templates be defined.
bool Parser::TopLevel() {
  const TokenType first = Peek().type;
  if (first == TokenType::kEof) {
    done_ = true;
    return true;
  }
  if (first == TokenType::kLeftDelimiter) {
    const Token delimiter = Next();
    if (NextNonSpace().type == TokenType::kDefine) return Define();
    Backup(delimiter);
  }
  return TextOrAction();
}

bool Parser::TextOrAction() {
  const Token& token = NextNonSpace();
  if (token.type == TokenType::kText) {
    body().empty = body().empty && IsBlank(token.text);
    Instruction& text = Emit(Op::kText);
    text.text = token.text;
    return true;
  }
  if (token.type != TokenType::kLeftDelimiter) return Unexpected(token, "input");
  tree().action_line = token.line;
  return Action();
}

bool Parser::Action() {
  switch (NextNonSpace().type) {
    case TokenType::kBlock: return Block();
    case TokenType::kBreak: return BreakOrContinue(Op::kBreak);
    case TokenType::kContinue: return BreakOrContinue(Op::kContinue);
    case TokenType::kElse: return Else();
    case TokenType::kEnd: return End();
    case TokenType::kIf: return Control(BlockType::kIf);
    case TokenType::kRange: return Control(BlockType::kRange);
    case TokenType::kTemplate: return Template();
    case TokenType::kWith: return Control(BlockType::kWith);
    default: break;
  }
  Backup();
  Header header;
  if (!ReadHeader("command", header)) return false;
  EmitHeader(Op::kAction, header);
  tree().action_line = 0;
  return true;
}

bool Parser::Control(BlockType type) {
  constexpr std::array<std::string_view, 3> kContexts = {"if", "with", "range"};
  constexpr std::array<Op, 3> kOps = {Op::kIf, Op::kWith, Op::kRange};
  OpenBlock block{.type = type,
                  .variables = tree().variables.size(),
                  .next_slot = tree().next_slot,
                  .to_end = {},
                  .to_next = {}};
  if (blocks_.size() >= kMaxBlockDepth) {
    return Fail(fmt::format("blocks are nested more than {} deep", kMaxBlockDepth));
  }
  Header header;
  const auto index = static_cast<std::size_t>(type);
  if (!ReadHeader(kContexts.at(index), header)) return false;
  EmitHeader(kOps.at(index), header);
  block.opener = here() - 1;
  block.inner_variables = tree().variables.size();
  block.inner_slot = tree().next_slot;
  if (type == BlockType::kRange) ++tree().ranges;
  blocks_.push_back(std::move(block));
  return true;
}

bool Parser::Else() {
  const TokenType next = PeekNonSpace().type;
  const bool chained = next == TokenType::kIf || next == TokenType::kWith;
  if (!chained && !Expect(TokenType::kRightDelimiter, "else")) return false;
  tree().action_line = 0;
  if (blocks_.empty()) return Fail("unexpected {{else}}");
  OpenBlock& block = blocks_.back();
  if (block.type == BlockType::kDefine) return Fail("unexpected {{else}} in define clause");
  if (block.type == BlockType::kBlock) {
    return Fail(trees_[trees_.size() - 2], "unexpected {{else}} in block clause");
  }
  if (block.in_else) return Fail("expected end; found {{else}}");
  CloseControl(block);
  block.in_else = true;
  // Variables of the first part are known in the second, but never have a value there.
  for (std::size_t i = block.inner_variables; i < tree().variables.size(); ++i) {
    tree().variables[i].slot = kNone;
  }
  tree().next_slot = block.inner_slot;
  block.to_end.push_back(here());
  Emit(Op::kJump);
  body().code[block.opener].target = here();
  const BlockType type = block.type;
  if ((type == BlockType::kIf && next == TokenType::kIf) ||
      (type == BlockType::kWith && next == TokenType::kWith)) {
    Next();
    if (!Control(type)) return false;
    blocks_.back().implied = true;
  }
  return true;
}

// What stands at the end of a block's first part.
void Parser::CloseControl(OpenBlock& block) {
  if (block.type == BlockType::kWith) Emit(Op::kEndWith);
  if (block.type != BlockType::kRange) return;
  --tree().ranges;
  for (const std::uint32_t at : block.to_next) body().code[at].target = here();
  Emit(Op::kNext).target = block.opener + 1;
  body().code.back().pipeline = body().code[block.opener].pipeline;
}

bool Parser::End() {
  if (!Expect(TokenType::kRightDelimiter, "end")) return false;
  tree().action_line = 0;
  if (blocks_.empty()) return Fail("unexpected {{end}}");
  if (blocks_.back().type == BlockType::kDefine || blocks_.back().type == BlockType::kBlock) {
    return CloseTree();
  }
  bool implied = true;
  while (implied) {
    OpenBlock& block = blocks_.back();
    if (!block.in_else) {
      CloseControl(block);
      body().code[block.opener].target = here();
    }
    for (const std::uint32_t at : block.to_end) body().code[at].target = here();
    tree().variables.resize(block.variables);
    tree().next_slot = block.next_slot;
    implied = block.implied;
    blocks_.pop_back();
  }
  return true;
}

bool Parser::BreakOrContinue(Op op) {
  const std::string_view name = op == Op::kBreak ? "{{break}}" : "{{continue}}";
  const Token& token = NextNonSpace();
  if (token.type != TokenType::kRightDelimiter) return Unexpected(token, name);
  if (tree().ranges == 0) return Fail(fmt::format("{} outside {{{{range}}}}", name));
  tree().action_line = 0;
  // The withs and ranges that are left, each with a dot of its own. In the `else` of a loop,
  // `break` ends just that and `continue` belongs to the loop around it: so does Go.
  std::uint32_t left = 0;
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    const bool loop = block->type == BlockType::kRange;
    if (loop && (op == Op::kBreak || !block->in_else)) {
      if (op == Op::kBreak && !block->in_else) ++left;
      (op == Op::kBreak ? block->to_end : block->to_next).push_back(here());
      break;
    }
    if (!block->in_else && block->type != BlockType::kIf) ++left;
  }
  Emit(op).count = left;
  return true;
}

bool Parser::Template() {
  const Token token = NextNonSpace();
  std::string_view name;
  if (!ReadName(token, "template clause", name)) return false;
  Header header{.first_slot = tree().next_slot};
  if (NextNonSpace().type != TokenType::kRightDelimiter) {
    Backup();
    if (!ReadHeader("template clause", header)) return false;
  }
  Instruction& instruction = EmitHeader(Op::kTemplate, header);
  instruction.position = token.position;
  instruction.text = name;
  tree().action_line = 0;
  return true;
}

bool Parser::ReadName(const Token& token, std::string_view context, std::string_view& name) {
  if (token.type != TokenType::kString && token.type != TokenType::kRawString) {
    return Unexpected(token, context);
  }
  Result<std::string> text = UnquoteString(token.text);
  if (!text) return Fail(text.error().message);
  name = Keep(*std::move(text));
  return true;
}

bool Parser::Define() {
  if (!NewTree(BlockType::kDefine, {})) return false;
  const Token token = NextNonSpace();
  std::string_view name;
  if (!ReadName(token, "define clause", name)) return false;
  body().name = name;
  return Expect(TokenType::kRightDelimiter, "define clause");
}

bool Parser::Block() {
  const Token token = NextNonSpace();
  std::string_view name;
  if (!ReadName(token, "block clause", name)) return false;
  Header header;
  if (!ReadHeader("block clause", header)) return false;
  Instruction& instruction = EmitHeader(Op::kTemplate, header);
  instruction.position = token.position;
  instruction.text = name;
  return NewTree(BlockType::kBlock, name);
}

bool Parser::NewTree(BlockType type, std::string_view name) {
  if (blocks_.size() >= kMaxBlockDepth) {
    return Fail(fmt::format("blocks are nested more than {} deep", kMaxBlockDepth));
  }
  blocks_.push_back({.type = type, .to_end = {}, .to_next = {}});
  const auto body = static_cast<std::uint32_t>(program_.bodies.size());
  program_.bodies.push_back({.name = name});
  trees_.push_back({.body = body, .tokens = {}, .variables = {{.name = "$", .slot = 0}}});
  return true;
}

bool Parser::CloseTree() {
  if (!Add(tree().body)) return false;
  trees_.pop_back();
  blocks_.pop_back();
  tree().action_line = 0;
  return true;
}

// A template may be defined again only if one of the two is empty.
bool Parser::Add(std::uint32_t body) {
  const Body& added = program_.bodies[body];
  const auto [known, first] = defined_.try_emplace(added.name, body);
  if (first) return true;
  if (program_.bodies[known->second].empty) {
    known->second = body;
  } else if (!added.empty) {
    return Fail("template: multiple definition of template " + Quoted(added.name));
  }
  return true;
}

void Parser::Resolve() {
  program_.main = defined_.at(program_.name);
  for (Body& body : program_.bodies) {
    for (Instruction& instruction : body.code) {
      if (instruction.op != Op::kTemplate) continue;
      const auto found = defined_.find(instruction.text);
      if (found != defined_.end()) instruction.body = found->second;
    }
  }
}

// --- Pipelines ----------------------------------------------------------------------------------

bool Parser::ReadHeader(std::string_view context, Header& header) {
  conditional_ = false;
  assigned_ = false;
  header.first_slot = tree().next_slot;
  if (!ReadPipeline(context, TokenType::kRightDelimiter, header.pipeline)) return false;
  if (conditional_) header.slots = tree().next_slot - header.first_slot;
  header.declares = assigned_ || tree().next_slot != header.first_slot;
  return true;
}

bool Parser::ReadPipeline(std::string_view context, TokenType end, std::uint32_t& index) {
  Pipeline pipeline{.position = PeekNonSpace().position};
  std::vector<Declaration> declarations;
  if (!ReadDeclarations(context, pipeline, declarations)) return false;
  std::vector<Command> commands;
  while (true) {
    const Token& token = NextNonSpace();
    if (token.type == end) break;
    if (!StartsOperand(token.type)) return Unexpected(token, context);
    Backup();
    if (!ReadCommand(commands.emplace_back())) return false;
  }
  if (!CheckPipeline(commands, context)) return false;
  if (!FinishDeclarations(pipeline, declarations)) return false;
  pipeline.commands = {.first = static_cast<std::uint32_t>(program_.commands.size()),
                       .count = static_cast<std::uint32_t>(commands.size())};
  program_.commands.insert(program_.commands.end(), commands.begin(), commands.end());
  index = static_cast<std::uint32_t>(program_.pipelines.size());
  program_.pipelines.push_back(pipeline);
  return true;
}

bool Parser::ReadDeclarations(std::string_view context, Pipeline& pipeline,
                              std::vector<Declaration>& declarations) {
  bool more = true;
  while (more && PeekNonSpace().type == TokenType::kVariable) {
    more = false;
    const Token variable = Next();
    const Token after = Peek();
    const Token next = PeekNonSpace();
    const bool comma = next.type == TokenType::kPunctuation && next.text == ",";
    if (next.type == TokenType::kAssign || next.type == TokenType::kDeclare || comma) {
      if (!comma) pipeline.assign = next.type == TokenType::kAssign;
      NextNonSpace();
      declarations.push_back({.name = variable.text});
      // Known from here on, though without a value until the pipeline has one.
      if (!Knows(variable.text)) tree().variables.push_back({.name = variable.text});
      if (comma && !AfterComma(context, declarations.size(), more)) return false;
    } else if (after.type == TokenType::kSpace) {
      Backup(variable, after);
    } else {
      Backup(variable);
    }
  }
  return true;
}

bool Parser::AfterComma(std::string_view context, std::size_t declared, bool& more) {
  if (context != "range" || declared >= 2) {
    return Fail(fmt::format("too many declarations in {}", context));
  }
  const TokenType next = PeekNonSpace().type;
  more = next == TokenType::kVariable || next == TokenType::kRightDelimiter ||
         next == TokenType::kRightParenthesis;
  return more || Fail("range can only initialize variables");
}

bool Parser::CheckPipeline(const std::vector<Command>& commands, std::string_view context) {
  if (commands.empty()) return Fail(fmt::format("missing value for {}", context));
  for (std::size_t i = 1; i < commands.size(); ++i) {
    // Only the first may be a value.
    switch (program_.operands[program_.arguments[commands[i].operands.first]].type) {
      case OperandType::kBool:
      case OperandType::kDot:
      case OperandType::kNil:
      case OperandType::kNumber:
      case OperandType::kString:
        return Fail(fmt::format("non executable command in pipeline stage {}", i + 1));
      default: break;
    }
  }
  return true;
}

// The variables come behind those that the pipeline's own parentheses declared.
bool Parser::FinishDeclarations(Pipeline& pipeline, std::vector<Declaration>& declarations) {
  auto& variables = tree().variables;
  for (Declaration& declaration : declarations) {
    if (pipeline.assign) {
      if (!Candidates(declaration.name, declaration.slots)) return false;
      assigned_ = true;
      continue;
    }
    if (variables.size() >= kMaxVariables) {
      return Fail(fmt::format("more than {} variables are declared", kMaxVariables));
    }
    const bool conditional = tree().depth > 0;
    conditional_ = conditional_ || conditional;
    const std::uint32_t slot = NewSlot();
    variables.push_back({.name = declaration.name, .slot = slot, .conditional = conditional});
    declaration.slots = {.first = static_cast<std::uint32_t>(program_.slots.size()), .count = 1};
    program_.slots.push_back(slot);
  }
  pipeline.declarations = {.first = static_cast<std::uint32_t>(program_.declarations.size()),
                           .count = static_cast<std::uint32_t>(declarations.size())};
  program_.declarations.insert(program_.declarations.end(), declarations.begin(),
                               declarations.end());
  return true;
}

bool Parser::Knows(std::string_view variable) {
  return std::ranges::find(tree().variables, variable, &Variable::name) != tree().variables.end();
}

std::uint32_t Parser::NewSlot() {
  const std::uint32_t slot = tree().next_slot++;
  body().slots = std::max(body().slots, tree().next_slot);
  return slot;
}

// The slots that may hold the variable, innermost first; the last one surely does.
bool Parser::Candidates(std::string_view name, Slice& slots) {
  slots = {.first = static_cast<std::uint32_t>(program_.slots.size())};
  const auto& variables = tree().variables;
  for (auto variable = variables.rbegin(); variable != variables.rend(); ++variable) {
    if (variable->name != name || variable->slot == kNone) continue;
    program_.slots.push_back(variable->slot);
    ++slots.count;
    if (!variable->conditional) break;
    if (slots.count == kMaxCandidates) {
      return Fail(fmt::format("variable {} is declared in parentheses more than {} times",
                              Quoted(name), kMaxCandidates - 1));
    }
  }
  return true;
}

bool Parser::ReadCommand(Command& command) {
  command.position = PeekNonSpace().position;
  std::vector<std::uint32_t> operands;
  while (true) {
    PeekNonSpace();
    std::optional<std::uint32_t> operand;
    if (!ReadOperand(operand)) return false;
    if (operand) operands.push_back(*operand);
    const Token& token = Next();
    if (token.type == TokenType::kSpace) continue;
    if (token.type == TokenType::kRightDelimiter || token.type == TokenType::kRightParenthesis) {
      Backup();
    } else if (token.type != TokenType::kPipe) {
      return Unexpected(token, "operand");
    }
    break;
  }
  if (operands.empty()) return Fail("empty command");
  command.operands = {.first = static_cast<std::uint32_t>(program_.arguments.size()),
                      .count = static_cast<std::uint32_t>(operands.size())};
  program_.arguments.insert(program_.arguments.end(), operands.begin(), operands.end());
  return true;
}

bool Parser::ReadOperand(std::optional<std::uint32_t>& index) {
  if (!ReadTerm(index)) return false;
  if (!index || Peek().type != TokenType::kField) return true;
  return ReadChain(*index);
}

// The fields behind a term.
bool Parser::ReadChain(std::uint32_t& index) {
  const std::uint32_t position = Peek().position;
  std::vector<std::string_view> fields;
  while (Peek().type == TokenType::kField) fields.push_back(Next().text.substr(1));
  Operand operand = program_.operands[index];
  const auto first = static_cast<std::uint32_t>(program_.names.size());
  switch (operand.type) {
    case OperandType::kField:
    case OperandType::kVariable:
      for (std::uint32_t i = 0; i < operand.names.count; ++i) {
        program_.names.push_back(program_.names[operand.names.first + i]);
      }
      break;
    case OperandType::kFunction:
    case OperandType::kPipe:
    case OperandType::kChain: operand = {.type = OperandType::kChain, .child = index}; break;
    default: return Fail("unexpected . after term " + Quoted(OperandText(program_, index)));
  }
  program_.names.insert(program_.names.end(), fields.begin(), fields.end());
  operand.names = {.first = first,
                   .count = static_cast<std::uint32_t>(program_.names.size()) - first};
  operand.position = position;
  index = static_cast<std::uint32_t>(program_.operands.size());
  program_.operands.push_back(operand);
  return true;
}

bool Parser::ReadTerm(std::optional<std::uint32_t>& index) {
  const Token token = NextNonSpace();
  Operand operand{.position = token.position, .source = token.text};
  bool good = true;
  switch (token.type) {
    case TokenType::kIdentifier: {
      const std::optional<Function> function = FindFunction(token.text);
      if (!function) return Fail(fmt::format("function {} not defined", Quoted(token.text)));
      operand.type = OperandType::kFunction;
      operand.function = *function;
      break;
    }
    case TokenType::kDot: operand.type = OperandType::kDot; break;
    case TokenType::kNil: operand.type = OperandType::kNil; break;
    case TokenType::kVariable: good = ReadVariable(token, operand); break;
    case TokenType::kField:
      operand.type = OperandType::kField;
      operand.names = {.first = static_cast<std::uint32_t>(program_.names.size()), .count = 1};
      program_.names.push_back(token.text.substr(1));
      break;
    case TokenType::kBool:
    case TokenType::kCharacter:
    case TokenType::kComplex:
    case TokenType::kNumber:
    case TokenType::kString:
    case TokenType::kRawString: good = ReadConstant(token, operand); break;
    case TokenType::kLeftParenthesis: good = ReadParenthesis(operand); break;
    default: Backup(); return true;
  }
  if (!good) return false;
  index = static_cast<std::uint32_t>(program_.operands.size());
  program_.operands.push_back(operand);
  return true;
}

bool Parser::ReadVariable(const Token& token, Operand& operand) {
  if (!Knows(token.text)) return Fail("undefined variable " + Quoted(token.text));
  operand.type = OperandType::kVariable;
  if (!Candidates(token.text, operand.slots)) return false;
  operand.names = {.first = static_cast<std::uint32_t>(program_.names.size()), .count = 1};
  program_.names.push_back(token.text);
  return true;
}

bool Parser::ReadConstant(const Token& token, Operand& operand) {
  if (token.type == TokenType::kBool) {
    operand.type = OperandType::kBool;
    operand.constant = View::Bool(token.text == "true");
    return true;
  }
  if (token.type == TokenType::kString || token.type == TokenType::kRawString) {
    Result<std::string> text = UnquoteString(token.text);
    if (!text) return Fail(text.error().message);
    operand.type = OperandType::kString;
    operand.constant = View::String(Keep(*std::move(text)));
    return true;
  }
  if (token.type == TokenType::kComplex) {
    return Fail(fmt::format("complex number {} is not supported; use an integer or a float",
                            Quoted(token.text)));
  }
  const Result<Number> number =
      token.type == TokenType::kCharacter ? ParseCharacter(token.text) : ParseNumber(token.text);
  if (!number) return Fail(number.error().message);
  operand.type = OperandType::kNumber;
  if (number->kind == Number::Kind::kInt) operand.constant = View::Int(number->integer);
  if (number->kind == Number::Kind::kFloat) operand.constant = View::Real(number->real);
  return true;
}

bool Parser::ReadParenthesis(Operand& operand) {
  if (tree().depth >= kMaxExpressionDepth) return Fail("max expression depth exceeded");
  ++tree().depth;
  operand.type = OperandType::kPipe;
  const bool good =
      ReadPipeline("parenthesized pipeline", TokenType::kRightParenthesis, operand.child);
  --tree().depth;
  if (good) operand.position = program_.pipelines[operand.child].position;
  return good;
}

// --- Code ---------------------------------------------------------------------------------------

Instruction& Parser::Emit(Op op) { return body().code.emplace_back(Instruction{.op = op}); }

Instruction& Parser::EmitHeader(Op op, const Header& header) {
  body().empty = false;
  if (header.slots > 0) {
    Instruction& unset = Emit(Op::kUnset);
    unset.target = header.first_slot;
    unset.count = header.slots;
  }
  Instruction& instruction = Emit(op);
  instruction.pipeline = header.pipeline;
  instruction.declares = header.declares;
  return instruction;
}

std::string_view Parser::Keep(std::string text) {
  return program_.strings.emplace_back(std::move(text));
}

}  // namespace nstance::tmpl
