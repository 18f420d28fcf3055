// Executor: one run of a Program. Control flow needs no machine stack; expressions need as much as
// their parentheses nest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/template/functions.h"
#include "core/template/program.h"
#include "core/template/sink.h"
#include "core/template/template.h"
#include "core/template/view.h"

namespace nstance::tmpl {

class Executor final {
 public:
  // `program` must outlive the executor.
  Executor(const Program& program, const RenderOptions& options);

  // Call once. What `data` refers to must stay until it returns.
  [[nodiscard]] Result<std::string> Run(const View& data);

 private:
  // The part of the program that a message is about.
  enum class AtType : std::uint8_t { kInstruction, kPipeline, kCommand, kOperand };

  // A running template.
  struct Call {
    const Body* body = nullptr;
    std::uint32_t next = 0;  // Instruction.
    std::size_t slots = 0;   // Where its variables begin.
    View dot;
  };

  // A `with` or `range` that is open.
  struct Block {
    View outer_dot;
    View subject;  // kRange
    std::int64_t index = 0;
    std::int64_t count = 0;
  };

  // What a function's parameter takes.
  enum class Parameter : std::uint8_t { kAny, kString };

  // One call of a function: who calls, and with what.
  struct CallSite {
    Function function = Function::kAnd;
    Slice operands = {};          // Without the function itself.
    const View* piped = nullptr;  // The value in front of the |.
    AtType at_type = AtType::kCommand;
    std::uint32_t at = 0;
  };

  // Control flow. False after an error.
  bool Loop();
  bool Step(const Instruction& instruction);
  bool Action(const Instruction& instruction);
  bool If(const Instruction& instruction);
  bool With(const Instruction& instruction);
  bool Range(const Instruction& instruction);
  bool BeginRange(const Instruction& instruction, const View& subject, Block& block);
  bool NextElement(const Instruction& instruction);
  bool Element(const Pipeline& pipeline, const Block& block);
  bool Enter(const Instruction& instruction);
  void Leave(std::uint32_t blocks);
  void Unset(const Instruction& instruction);

  // Expressions. False after an error.
  bool EvalPipeline(std::uint32_t index, View& result);
  bool EvalCommand(std::uint32_t index, const View* piped, View& result);
  bool EvalConstant(const Operand& operand, View& result);
  bool EvalFields(const Operand& operand, const View& receiver, bool has_arguments, View& result);
  bool EvalField(const View& receiver, std::string_view name, bool has_arguments, View& result);
  bool EvalVariable(const Operand& operand, const View** value);
  bool EvalOperand(std::uint32_t index, View& result);
  bool EvalArgument(std::uint32_t index, Parameter parameter, View& result);
  bool EvalCall(const CallSite& site, View& result);
  bool EvalLogic(const CallSite& site, View& result);
  bool EvalCallCall(const CallSite& site);
  bool Invoke(const CallSite& site, std::size_t first_argument, View& result);
  bool CheckCount(const CallSite& site);
  bool CheckType(const View& value, Parameter parameter);
  bool NotAFunction(const Slice& operands, const View* piped);
  bool Assign(const Declaration& declaration, const View& value);

  void At(AtType type, std::uint32_t index) {
    at_type_ = type;
    at_ = index;
  }
  // Where it is in the source, and its text.
  [[nodiscard]] std::pair<std::size_t, std::string> Current();
  bool Fail(const std::string& message, Code code = Code::kInvalidArgument);
  bool OutputFull();
  bool Charge(std::uint64_t steps) {
    if (steps <= steps_left_) [[likely]] {
      steps_left_ -= steps;
      return true;
    }
    return TooManySteps();
  }
  bool TooManySteps();
  Call& call() { return calls_.back(); }
  [[nodiscard]] std::uint32_t Argument(const Slice& operands, std::uint32_t index) const {
    return program_.arguments[operands.first + index];
  }

  const Program& program_;
  const RenderOptions& options_;
  std::string output_;
  Sink sink_;
  std::uint64_t steps_left_;
  std::vector<Call> calls_;
  std::vector<Block> blocks_;
  std::vector<View> slots_;
  std::vector<View> arguments_;  // Of the calls being evaluated.
  Scratch scratch_;
  std::string buffer_;
  AtType at_type_ = AtType::kInstruction;
  std::uint32_t at_ = 0;
  std::optional<Error> error_;
};

}  // namespace nstance::tmpl
