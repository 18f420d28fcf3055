// Program: a parsed template, ready to run.
//
// Text and control flow are a list of instructions per body (the template itself and each of its
// `define` and `block` parts); what stands between {{ and }} is a tree of pipelines, commands and
// operands in flat tables, addressed by index. Variables are numbered slots. Names and texts are
// views into the source, which the program keeps; nothing changes after parsing, so any number of
// runs may share one program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/template/view.h"

namespace nstance::tmpl {

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

enum class Function : std::uint8_t {
  kAnd,
  kCall,
  kEq,
  kGe,
  kGt,
  kHtml,
  kIndex,
  kJs,
  kLe,
  kLen,
  kLt,
  kNe,
  kNot,
  kOr,
  kPrint,
  kPrintf,
  kPrintln,
  kShellQuote,
  kSlice,
  kUrlQuery,
  kYamlQuote,
};

enum class OperandType : std::uint8_t {
  kDot,       // .
  kNil,       // nil
  kBool,      // true
  kNumber,    // 5
  kString,    // "x"
  kField,     // .A.B
  kVariable,  // $x.A
  kFunction,  // len
  kPipe,      // (...)
  kChain,     // (...).A, or a function's name with fields
};

// A part of a table.
struct Slice {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct Operand {
  OperandType type = OperandType::kDot;
  Function function = Function::kAnd;  // kFunction
  std::uint32_t position = 0;          // In bytes, as Go counts it for messages.
  Slice names = {};              // kField, kChain: of `names`; kVariable: with the variable's.
  Slice slots = {};              // kVariable: of `slots`, innermost first.
  std::uint32_t child = kNone;   // kPipe: the pipeline. kChain: the operand in front.
  std::string_view source = {};  // kNumber, kString, kFunction: as written.
  View constant = {};            // kBool, kNumber (nil: too large), kString
};

struct Command {
  std::uint32_t position = 0;
  Slice operands = {};  // Of `arguments`.
};

struct Declaration {
  std::string_view name;
  Slice slots = {};  // := one slot; = the candidates, innermost first.
};

struct Pipeline {
  std::uint32_t position = 0;
  bool assign = false;      // = and not :=
  Slice declarations = {};  // Of `declarations`.
  Slice commands = {};      // Of `commands`.
};

enum class Op : std::uint8_t {
  kText,      // Writes `text`.
  kAction,    // Evaluates and, unless it declares, prints.
  kIf,        // To `target` when false.
  kWith,      // To `target` when false; else a new dot until kEndWith.
  kEndWith,   // The dot of before.
  kRange,     // To `target` when there is nothing; else the first element.
  kNext,      // The next element, back to `target`; or the dot of before, and on.
  kJump,      // To `target`.
  kBreak,     // Leaves `count` withs and ranges: to `target`, the loop's end.
  kContinue,  // Leaves `count` withs and ranges: to `target`, the loop's kNext.
  kTemplate,  // Runs `body` with the pipeline's value, or nil, as dot.
  kUnset,     // `count` variables from slot `target` on have no value.
};

struct Instruction {
  Op op = Op::kText;
  bool declares = false;       // The pipeline declares or assigns variables.
  std::uint32_t position = 0;  // kTemplate
  std::uint32_t pipeline = kNone;
  std::uint32_t target = 0;
  std::uint32_t count = 0;
  std::uint32_t body = kNone;  // kTemplate; kNone: not defined.
  std::string_view text = {};  // kText; the name of kTemplate.
};

struct Body {
  std::string_view name;
  std::vector<Instruction> code = {};
  std::uint32_t slots = 1;  // The first is $.
  bool empty = true;        // Nothing but white space.
};

struct Program {
  std::string name;
  std::string source;
  std::deque<std::string> strings;  // Unquoted literals; their addresses stay.
  std::vector<std::string_view> names;
  std::vector<std::uint32_t> slots;
  std::vector<Operand> operands;
  std::vector<std::uint32_t> arguments;
  std::vector<Command> commands;
  std::vector<Declaration> declarations;
  std::vector<Pipeline> pipelines;
  std::vector<Body> bodies;
  std::uint32_t main = 0;
};

// The texts as Go writes parts of a template in messages: with single blanks, and cut when they are
// very long.
[[nodiscard]] std::string OperandText(const Program& program, std::uint32_t operand);
[[nodiscard]] std::string CommandText(const Program& program, std::uint32_t command);
[[nodiscard]] std::string PipelineText(const Program& program, std::uint32_t pipeline);
[[nodiscard]] std::string TemplateText(const Program& program, const Instruction& instruction);

}  // namespace nstance::tmpl
