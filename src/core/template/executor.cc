#include "core/template/executor.h"

#include <span>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "core/template/format.h"
#include "core/template/literal.h"

namespace nstance::tmpl {
namespace {

constexpr std::uint64_t kBytesPerStep = 16;
constexpr std::string_view kInterface = "interface {}";

std::string_view StaticType(const View& view) { return view.boxed ? kInterface : view.TypeName(); }

}  // namespace

Executor::Executor(const Program& program, const RenderOptions& options)
    : program_(program),
      options_(options),
      sink_(output_, options.limits.output_bytes),
      steps_left_(options.limits.steps) {}

Result<std::string> Executor::Run(const View& data) {
  const Body& main = program_.bodies[program_.main];
  // Most templates are little more than their text.
  output_.reserve(std::min(options_.limits.output_bytes, program_.source.size() * 2));
  slots_.resize(main.slots);
  slots_[0] = data;
  calls_.push_back({.body = &main, .dot = data});
  if (!Loop()) return nstance::Fail(*std::move(error_));
  return std::move(output_);
}

// --- Messages -----------------------------------------------------------------------------------

std::pair<std::size_t, std::string> Executor::Current() {
  switch (at_type_) {
    case AtType::kPipeline: return {program_.pipelines[at_].position, PipelineText(program_, at_)};
    case AtType::kCommand: return {program_.commands[at_].position, CommandText(program_, at_)};
    case AtType::kOperand: return {program_.operands[at_].position, OperandText(program_, at_)};
    case AtType::kInstruction: break;
  }
  const std::vector<Instruction>& code = call().body->code;
  if (at_ >= code.size()) return {0, ""};
  const Instruction& instruction = code[at_];
  if (instruction.op == Op::kTemplate) {
    return {instruction.position, TemplateText(program_, instruction)};
  }
  if (instruction.pipeline != kNone) {
    return {program_.pipelines[instruction.pipeline].position,
            PipelineText(program_, instruction.pipeline)};
  }
  if (instruction.op != Op::kText) return {0, ""};
  return {static_cast<std::size_t>(instruction.text.data() - program_.source.data()), "text"};
}

bool Executor::Fail(const std::string& message, Code code) {
  const auto [position, text] = Current();
  const Place place = PlaceOf(program_.source, position);
  if (options_.error_at != nullptr) *options_.error_at = place;
  error_ = Error{.code = code,
                 .outcome = Outcome::kNotDone,
                 .message = fmt::format("template: {}:{}:{}: executing {} at <{}>: {}",
                                        program_.name, place.line, place.column - 1,
                                        Quoted(call().body->name), text, message)};
  return false;
}

bool Executor::TooManySteps() {
  return Fail(fmt::format("more than {} steps", options_.limits.steps), Code::kResourceExhausted);
}

bool Executor::OutputFull() {
  return Fail(fmt::format("the output is longer than {} bytes", options_.limits.output_bytes),
              Code::kResourceExhausted);
}

// --- Control flow -------------------------------------------------------------------------------

bool Executor::Loop() {
  while (true) {
    Call& call = this->call();
    if (call.next == call.body->code.size()) {
      slots_.resize(call.slots);
      calls_.pop_back();
      if (calls_.empty()) return true;
      continue;
    }
    const Instruction& instruction = call.body->code[call.next++];
    if (steps_left_ == 0) At(AtType::kInstruction, call.next - 1);
    if (instruction.op == Op::kText) {
      sink_.Append(instruction.text);
      if (sink_.full()) {
        At(AtType::kInstruction, call.next - 1);
        return OutputFull();
      }
      if (!Charge(1)) return false;
      continue;
    }
    if (!Charge(1) || !Step(instruction)) return false;
  }
}

bool Executor::Step(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kText: return true;
    case Op::kAction: return Action(instruction);
    case Op::kIf: return If(instruction);
    case Op::kWith: return With(instruction);
    case Op::kEndWith: Leave(1); return true;
    case Op::kRange: return Range(instruction);
    case Op::kNext: return NextElement(instruction);
    case Op::kJump: call().next = instruction.target; return true;
    case Op::kBreak:
    case Op::kContinue:
      Leave(instruction.count);
      call().next = instruction.target;
      return true;
    case Op::kTemplate: return Enter(instruction);
    case Op::kUnset: Unset(instruction); return true;
  }
  return true;
}

bool Executor::Action(const Instruction& instruction) {
  const Scratch::Mark mark = scratch_.mark();
  View value;
  if (!EvalPipeline(instruction.pipeline, value)) return false;
  if (program_.pipelines[instruction.pipeline].declarations.count == 0) {
    if (value.kind == Kind::kNil) {
      sink_.Append("<no value>");
    } else {
      PrintOne(sink_, value);
    }
    if (sink_.full()) return OutputFull();
  }
  if (!instruction.declares) scratch_.Release(mark);
  return true;
}

bool Executor::If(const Instruction& instruction) {
  const Scratch::Mark mark = scratch_.mark();
  View value;
  if (!EvalPipeline(instruction.pipeline, value)) return false;
  if (!value.Truth()) call().next = instruction.target;
  if (!instruction.declares) scratch_.Release(mark);
  return true;
}

bool Executor::With(const Instruction& instruction) {
  View value;
  if (!EvalPipeline(instruction.pipeline, value)) return false;
  if (!value.Truth()) {
    call().next = instruction.target;
    return true;
  }
  blocks_.push_back({.outer_dot = std::exchange(call().dot, value), .subject = {}});
  return true;
}

void Executor::Leave(std::uint32_t blocks) {
  if (blocks == 0) return;
  const std::size_t left = blocks_.size() - blocks;
  call().dot = blocks_[left].outer_dot;
  blocks_.resize(left);
}

bool Executor::Range(const Instruction& instruction) {
  View subject;
  if (!EvalPipeline(instruction.pipeline, subject)) return false;
  Block block{.outer_dot = call().dot, .subject = subject};
  if (!BeginRange(instruction, subject, block)) return false;
  if (block.count <= 0) {
    call().next = instruction.target;
    return true;
  }
  blocks_.push_back(block);
  return Element(program_.pipelines[instruction.pipeline], block);
}

bool Executor::BeginRange(const Instruction& instruction, const View& subject, Block& block) {
  switch (subject.kind) {
    case Kind::kNil: return true;
    case Kind::kInt:
    case Kind::kByte:
      if (program_.pipelines[instruction.pipeline].declarations.count > 1) {
        return Fail(
            fmt::format("can't use {} to iterate over more than one variable", subject.integer));
      }
      block.count = subject.integer;
      return true;
    case Kind::kList: block.count = static_cast<std::int64_t>(subject.size); return true;
    case Kind::kMap:
      block.count = static_cast<std::int64_t>(subject.map->members.size());
      return true;
    default:
      return Fail(fmt::format("range can't iterate over a value of type {}", subject.TypeName()));
  }
}

bool Executor::NextElement(const Instruction& instruction) {
  Block& block = blocks_.back();
  if (++block.index >= block.count) {
    Leave(1);
    return true;
  }
  call().next = instruction.target;
  return Element(program_.pipelines[instruction.pipeline], block);
}

// Sets the dot and the variables of an iteration.
bool Executor::Element(const Pipeline& pipeline, const Block& block) {
  View key = View::Int(block.index);
  View element;
  const View& subject = block.subject;
  if (subject.kind == Kind::kList) {
    element = View::Element(subject.items[block.index]);
  } else if (subject.kind == Kind::kMap) {
    const auto& member = subject.map->members[static_cast<std::size_t>(block.index)];
    key = View::String(member.first);
    element = subject.map->strings ? View::Of(member.second) : View::Element(member.second);
  } else {
    element = View::Integer(subject.kind, block.index);
  }
  call().dot = element;
  const Slice& declared = pipeline.declarations;
  for (std::uint32_t i = 0; i < declared.count; ++i) {
    const bool is_key = i == 0 && declared.count > 1;
    if (!Assign(program_.declarations[declared.first + i], is_key ? key : element)) return false;
  }
  return true;
}

bool Executor::Enter(const Instruction& instruction) {
  At(AtType::kInstruction, call().next - 1);
  if (instruction.body == kNone) {
    return Fail(fmt::format("template {} not defined", Quoted(instruction.text)));
  }
  if (calls_.size() > options_.limits.depth) {
    return Fail(fmt::format("exceeded maximum template depth ({})", options_.limits.depth),
                Code::kResourceExhausted);
  }
  View dot;
  if (instruction.pipeline != kNone && !EvalPipeline(instruction.pipeline, dot)) return false;
  const Body& body = program_.bodies[instruction.body];
  const std::size_t slots = slots_.size();
  slots_.resize(slots + body.slots);
  slots_[slots] = dot;
  calls_.push_back({.body = &body, .slots = slots, .dot = dot});
  return true;
}

void Executor::Unset(const Instruction& instruction) {
  for (std::uint32_t i = 0; i < instruction.count; ++i) {
    slots_[call().slots + instruction.target + i].kind = Kind::kUnset;
  }
}

// --- Expressions --------------------------------------------------------------------------------

bool Executor::EvalPipeline(std::uint32_t index, View& result) {
  At(AtType::kPipeline, index);
  const Pipeline& pipeline = program_.pipelines[index];
  View piped;
  for (std::uint32_t i = 0; i < pipeline.commands.count; ++i) {
    if (!Charge(1)) return false;
    View value;
    if (!EvalCommand(pipeline.commands.first + i, i == 0 ? nullptr : &piped, value)) return false;
    value.boxed = false;
    piped = value;
  }
  for (std::uint32_t i = 0; i < pipeline.declarations.count; ++i) {
    const Declaration& declaration = program_.declarations[pipeline.declarations.first + i];
    if (pipeline.assign) {
      if (!Assign(declaration, piped)) return false;
    } else {
      slots_[call().slots + program_.slots[declaration.slots.first]] = piped;
    }
  }
  result = piped;
  return true;
}

// Sets the innermost variable that has been declared.
bool Executor::Assign(const Declaration& declaration, const View& value) {
  for (std::uint32_t i = 0; i < declaration.slots.count; ++i) {
    View& slot = slots_[call().slots + program_.slots[declaration.slots.first + i]];
    if (slot.kind == Kind::kUnset) continue;
    slot = value;
    return true;
  }
  return Fail(fmt::format("undefined variable: {}", declaration.name));
}

bool Executor::NotAFunction(const Slice& operands, const View* piped) {
  if (operands.count <= 1 && piped == nullptr) return true;
  return Fail("can't give argument to non-function " +
              OperandText(program_, Argument(operands, 0)));
}

bool Executor::EvalCommand(std::uint32_t index, const View* piped, View& result) {
  const Slice& operands = program_.commands[index].operands;
  const std::uint32_t first = Argument(operands, 0);
  const Operand& operand = program_.operands[first];
  const bool has_arguments = operands.count > 1 || piped != nullptr;
  switch (operand.type) {
    case OperandType::kField:
      At(AtType::kOperand, first);
      return EvalFields(operand, call().dot, has_arguments, result);
    case OperandType::kChain: {
      At(AtType::kOperand, first);
      View receiver;
      return EvalOperand(operand.child, receiver) &&
             EvalFields(operand, receiver, has_arguments, result);
    }
    case OperandType::kVariable: {
      At(AtType::kOperand, first);
      const View* value = nullptr;
      if (!EvalVariable(operand, &value)) return false;
      if (operand.names.count > 1) return EvalFields(operand, *value, has_arguments, result);
      result = *value;
      return NotAFunction(operands, piped);
    }
    case OperandType::kFunction:
      At(AtType::kOperand, first);
      return EvalCall({.function = operand.function,
                       .operands = {.first = operands.first + 1, .count = operands.count - 1},
                       .piped = piped,
                       .at_type = AtType::kCommand,
                       .at = index},
                      result);
    case OperandType::kPipe:
      return NotAFunction(operands, piped) && EvalPipeline(operand.child, result);
    default: break;
  }
  At(AtType::kOperand, first);
  if (!NotAFunction(operands, piped)) return false;
  if (operand.type == OperandType::kNil) return Fail("nil is not a command");
  return EvalConstant(operand, result);
}

bool Executor::EvalConstant(const Operand& operand, View& result) {
  if (operand.type == OperandType::kDot) {
    result = call().dot;
    return true;
  }
  if (operand.type == OperandType::kNumber && operand.constant.kind == Kind::kNil) {
    return Fail(fmt::format("{} overflows int", operand.source));
  }
  result = operand.constant;
  return true;
}

bool Executor::EvalVariable(const Operand& operand, const View** value) {
  for (std::uint32_t i = 0; i < operand.slots.count; ++i) {
    const View& slot = slots_[call().slots + program_.slots[operand.slots.first + i]];
    if (slot.kind == Kind::kUnset) continue;
    *value = &slot;
    return true;
  }
  return Fail(fmt::format("undefined variable: {}", program_.names[operand.names.first]));
}

// Follows .A.B from the receiver on. Only the last name could be a function with arguments.
bool Executor::EvalFields(const Operand& operand, const View& receiver, bool has_arguments,
                          View& result) {
  View value = receiver;
  const std::uint32_t skipped = operand.type == OperandType::kVariable ? 1 : 0;
  for (std::uint32_t i = skipped; i < operand.names.count; ++i) {
    const bool last = i + 1 == operand.names.count;
    View field;
    if (!EvalField(value, program_.names[operand.names.first + i], last && has_arguments, field)) {
      return false;
    }
    value = field;
  }
  result = value;
  return true;
}

bool Executor::EvalField(const View& receiver, std::string_view name, bool has_arguments,
                         View& result) {
  if (receiver.kind == Kind::kNil) {
    if (!receiver.boxed) return true;
    return Fail(fmt::format("nil pointer evaluating {}.{}", kInterface, name));
  }
  if (receiver.kind == Kind::kRecord) {
    if (const Value* const field = receiver.record->Find(name)) {
      if (has_arguments) {
        return Fail(fmt::format("{} has arguments but cannot be invoked as function", name));
      }
      result = View::Of(*field);
      result.boxed = result.kind == Kind::kNil;
      return true;
    }
  } else if (receiver.kind == Kind::kMap) {
    if (has_arguments) return Fail(fmt::format("{} is not a method but has arguments", name));
    const Value* const found = receiver.map->Find(name);
    if (found == nullptr) {
      result = View::String("");
    } else {
      result = receiver.map->strings ? View::Of(*found) : View::Element(*found);
    }
    return true;
  }
  return Fail(fmt::format("can't evaluate field {} in type {}", name, StaticType(receiver)));
}

// An operand that stands where a value is wanted.
bool Executor::EvalOperand(std::uint32_t index, View& result) {
  At(AtType::kOperand, index);
  const Operand& operand = program_.operands[index];
  switch (operand.type) {
    case OperandType::kField: return EvalFields(operand, call().dot, false, result);
    case OperandType::kVariable: {
      const View* value = nullptr;
      return EvalVariable(operand, &value) && EvalFields(operand, *value, false, result);
    }
    case OperandType::kPipe: return EvalPipeline(operand.child, result);
    case OperandType::kFunction:
      return EvalCall({.function = operand.function, .at_type = AtType::kOperand, .at = index},
                      result);
    case OperandType::kChain: {
      View receiver;
      return EvalOperand(operand.child, receiver) && EvalFields(operand, receiver, false, result);
    }
    case OperandType::kNil: return true;
    default: return EvalConstant(operand, result);
  }
}

bool Executor::CheckType(const View& value, Parameter parameter) {
  if (parameter == Parameter::kAny || value.kind == Kind::kString) return true;
  if (value.kind == Kind::kNil && !value.boxed) return Fail("invalid value; expected string");
  return Fail(fmt::format("wrong type for value; expected string; got {}",
                          value.kind == Kind::kNil ? kInterface : value.TypeName()));
}

bool Executor::EvalArgument(std::uint32_t index, Parameter parameter, View& result) {
  if (!EvalOperand(index, result)) return false;
  if (parameter == Parameter::kAny || result.kind == Kind::kString) return true;
  switch (program_.operands[index].type) {
    case OperandType::kNil: return Fail("cannot assign nil to string");
    case OperandType::kBool:
    case OperandType::kNumber:
      return Fail("expected string; found " + OperandText(program_, index));
    default: return CheckType(result, parameter);
  }
}

bool Executor::CheckCount(const CallSite& site) {
  const Signature& signature = SignatureOf(site.function);
  const std::uint32_t given = site.operands.count + (site.piped != nullptr ? 1 : 0);
  if (signature.variadic) {
    if (given >= signature.fixed) return true;
    return Fail(fmt::format("wrong number of args for {}: want at least {} got {}", signature.name,
                            signature.fixed, site.operands.count));
  }
  if (given == signature.fixed) return true;
  return Fail(fmt::format("wrong number of args for {}: want {} got {}", signature.name,
                          signature.fixed, given));
}

bool Executor::EvalCall(const CallSite& site, View& result) {
  if (!CheckCount(site)) return false;
  if (site.function == Function::kAnd || site.function == Function::kOr) {
    return EvalLogic(site, result);
  }
  const bool first_is_string = SignatureOf(site.function).first_is_string;
  const std::size_t first = arguments_.size();
  for (std::uint32_t i = 0; i < site.operands.count; ++i) {
    View value;
    const Parameter parameter = first_is_string && i == 0 ? Parameter::kString : Parameter::kAny;
    if (!EvalArgument(Argument(site.operands, i), parameter, value)) return false;
    arguments_.push_back(value);
  }
  if (site.piped != nullptr) {
    const bool is_first = site.operands.count == 0;
    const Parameter parameter = first_is_string && is_first ? Parameter::kString : Parameter::kAny;
    if (!CheckType(*site.piped, parameter)) return false;
    arguments_.push_back(*site.piped);
  }
  if (site.function == Function::kCall) return EvalCallCall(site);
  const bool good = Invoke(site, first, result);
  arguments_.resize(first);
  return good;
}

bool Executor::Invoke(const CallSite& site, std::size_t first_argument, View& result) {
  CallContext context{
      .max_text = options_.limits.output_bytes, .scratch = &scratch_, .buffer = &buffer_};
  const std::span<const View> arguments = std::span(arguments_).subspan(first_argument);
  const bool good = tmpl::Call(site.function, arguments, context, result);
  if (!good) {
    At(site.at_type, site.at);
    return Fail(fmt::format("error calling {}: {}", SignatureOf(site.function).name, context.error),
                context.too_large ? Code::kResourceExhausted : Code::kInvalidArgument);
  }
  return Charge(context.work / kBytesPerStep);
}

// `and` and `or`: the first argument that decides, or the last one.
bool Executor::EvalLogic(const CallSite& site, View& result) {
  const bool decisive = site.function == Function::kOr;
  for (std::uint32_t i = 0; i < site.operands.count; ++i) {
    View value;
    if (!EvalArgument(Argument(site.operands, i), Parameter::kAny, value)) return false;
    result = value;
    if (value.Truth() == decisive) return true;
  }
  if (site.piped != nullptr) result = *site.piped;
  return true;
}

// There are no function values, so that `call` can only fail.
bool Executor::EvalCallCall(const CallSite& site) {
  const View& callee =
      arguments_[arguments_.size() - site.operands.count - (site.piped != nullptr ? 1 : 0)];
  At(site.at_type, site.at);
  if (callee.kind == Kind::kNil) return Fail("error calling call: call of nil");
  const std::string name = site.operands.count > 0
                               ? OperandText(program_, Argument(site.operands, 0))
                               : fmt::format("<{} Value>", callee.TypeName());
  return Fail(
      fmt::format("error calling call: non-function {} of type {}", name, callee.TypeName()));
}

}  // namespace nstance::tmpl
