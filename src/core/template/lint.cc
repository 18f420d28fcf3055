#include "core/template/lint.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "core/template/program.h"

namespace nstance::tmpl {
namespace {

bool IsSafeFunction(Function function, Script script) {
  switch (function) {
    case Function::kShellQuote:
    case Function::kEq:
    case Function::kGe:
    case Function::kGt:
    case Function::kLe:
    case Function::kLen:
    case Function::kLt:
    case Function::kNe:
    case Function::kNot: return true;
    case Function::kYamlQuote: return script == Script::kYaml;
    default: return false;
  }
}

bool IsSafe(const Program& program, std::uint32_t pipeline, Script script) {
  const Slice& commands = program.pipelines[pipeline].commands;
  const Command& last = program.commands[commands.first + commands.count - 1];
  const Operand& operand = program.operands[program.arguments[last.operands.first]];
  switch (operand.type) {
    case OperandType::kNil:
    case OperandType::kBool:
    case OperandType::kNumber:
    case OperandType::kString: return true;
    case OperandType::kFunction: return IsSafeFunction(operand.function, script);
    // Parentheses nest at most kMaxExpressionDepth deep.
    case OperandType::kPipe: return IsSafe(program, operand.child, script);
    default: return false;
  }
}

}  // namespace

Script ScriptOf(std::string_view source) {
  const std::string_view line = source.substr(0, source.find_first_of("\r\n"));
  if (line.starts_with("#cloud-config")) return Script::kYaml;
  if (!line.starts_with("#!")) return Script::kNone;
  constexpr std::array<std::string_view, 6> kShells = {"sh", "bash", "dash", "ash", "ksh", "zsh"};
  std::string_view rest = line.substr(2);
  while (!rest.empty()) {
    const std::size_t begin = std::min(rest.find_first_not_of(" \t"), rest.size());
    rest.remove_prefix(begin);
    const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
    const std::string_view program = word.substr(word.rfind('/') + 1);
    if (std::ranges::find(kShells, program) != kShells.end()) return Script::kShell;
    // Behind `env` and its options stands the program.
    if (program != "env" && !word.starts_with('-')) return Script::kNone;
    rest.remove_prefix(word.size());
  }
  return Script::kNone;
}

std::vector<Finding> FindRawInsertions(const Template& parsed) {
  const Program& program = parsed.program();
  const Script script = ScriptOf(program.source);
  std::vector<Finding> findings;
  if (script == Script::kNone) return findings;
  const std::string_view quote = script == Script::kShell ? "shellquote" : "yamlquote";
  for (const Body& body : program.bodies) {
    for (const Instruction& instruction : body.code) {
      if (instruction.op != Op::kAction) continue;
      const Pipeline& pipeline = program.pipelines[instruction.pipeline];
      if (pipeline.declarations.count > 0) continue;
      if (IsSafe(program, instruction.pipeline, script)) continue;
      const std::string text = PipelineText(program, instruction.pipeline);
      findings.push_back({.place = PlaceOf(program.source, pipeline.position),
                          .action = text,
                          .message = fmt::format("{{{{{0}}}}} is not quoted; use {{{{{0} | {1}}}}}",
                                                 text, quote)});
    }
  }
  std::ranges::sort(findings, {}, [](const Finding& finding) { return finding.place.offset; });
  return findings;
}

}  // namespace nstance::tmpl
