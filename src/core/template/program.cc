#include "core/template/program.h"

#include "core/template/literal.h"

namespace nstance::tmpl {
namespace {

// Longer texts say no more to a person.
constexpr std::size_t kMaxText = 1'000;

class Writer final {
 public:
  explicit Writer(const Program& program) : program_(program) {}

  void Operand(std::uint32_t index);
  void Command(std::uint32_t index);
  void Pipeline(std::uint32_t index);

  [[nodiscard]] std::string Finish(std::string_view front = {}, std::string_view back = {}) {
    if (text_.size() > kMaxText) {
      text_.resize(kMaxText);
      text_ += "...";
    }
    return std::string(front).append(text_).append(back);
  }

 private:
  void Names(const Slice& names, std::string_view first_separator);
  void Parenthesized(std::uint32_t operand);

  const Program& program_;
  std::string text_;
};

void Writer::Names(const Slice& names, std::string_view first_separator) {
  for (std::uint32_t i = 0; i < names.count; ++i) {
    text_.append(i == 0 ? first_separator : ".").append(program_.names[names.first + i]);
  }
}

void Writer::Operand(std::uint32_t index) {
  const tmpl::Operand& operand = program_.operands[index];
  if (text_.size() > kMaxText) return;
  switch (operand.type) {
    case OperandType::kDot: text_ += '.'; break;
    case OperandType::kNil: text_ += "nil"; break;
    case OperandType::kBool:
    case OperandType::kNumber:
    case OperandType::kString:
    case OperandType::kFunction: text_ += operand.source; break;
    case OperandType::kField: Names(operand.names, "."); break;
    case OperandType::kVariable: Names(operand.names, ""); break;
    case OperandType::kPipe: Pipeline(operand.child); break;
    case OperandType::kChain:
      Parenthesized(operand.child);
      Names(operand.names, ".");
      break;
  }
}

void Writer::Parenthesized(std::uint32_t operand) {
  const bool pipe = program_.operands[operand].type == OperandType::kPipe;
  if (pipe) text_ += '(';
  Operand(operand);
  if (pipe) text_ += ')';
}

void Writer::Command(std::uint32_t index) {
  const Slice& operands = program_.commands[index].operands;
  for (std::uint32_t i = 0; i < operands.count; ++i) {
    if (i > 0) text_ += ' ';
    Parenthesized(program_.arguments[operands.first + i]);
  }
}

void Writer::Pipeline(std::uint32_t index) {
  const tmpl::Pipeline& pipeline = program_.pipelines[index];
  for (std::uint32_t i = 0; i < pipeline.declarations.count; ++i) {
    if (i > 0) text_ += ", ";
    text_ += program_.declarations[pipeline.declarations.first + i].name;
  }
  if (pipeline.declarations.count > 0) text_ += pipeline.assign ? " = " : " := ";
  for (std::uint32_t i = 0; i < pipeline.commands.count; ++i) {
    if (i > 0) text_ += " | ";
    Command(pipeline.commands.first + i);
  }
}

}  // namespace

std::string OperandText(const Program& program, std::uint32_t operand) {
  Writer writer(program);
  writer.Operand(operand);
  return writer.Finish();
}

std::string CommandText(const Program& program, std::uint32_t command) {
  Writer writer(program);
  writer.Command(command);
  return writer.Finish();
}

std::string PipelineText(const Program& program, std::uint32_t pipeline) {
  Writer writer(program);
  writer.Pipeline(pipeline);
  return writer.Finish();
}

std::string TemplateText(const Program& program, const Instruction& instruction) {
  const std::string front = "{{template " + Quoted(instruction.text);
  if (instruction.pipeline == kNone) return front + "}}";
  Writer writer(program);
  writer.Pipeline(instruction.pipeline);
  return writer.Finish(front + " ", "}}");
}

}  // namespace nstance::tmpl
