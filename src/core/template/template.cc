#include "core/template/template.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "core/template/executor.h"
#include "core/template/literal.h"
#include "core/template/parser.h"
#include "core/template/program.h"

namespace nstance::tmpl {

Place PlaceOf(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  return {.offset = before.size(),
          .line = static_cast<std::uint32_t>(std::ranges::count(before, '\n')) + 1,
          .column = static_cast<std::uint32_t>(before.size() - begin) + 1};
}

Result<Template> Template::Parse(std::string_view name, std::string_view source,
                                 const ParseOptions& options) {
  if (options.error_at != nullptr) *options.error_at = {};
  const std::size_t limit = std::min(options.max_bytes, kMaxSourceBytes);
  if (source.size() > limit) {
    options.source.Limit("template-bytes");
    return Fail(ResourceExhausted(
        fmt::format("template: {}: {} bytes; at most {} are allowed", name, source.size(), limit)));
  }
  auto program = std::make_shared<Program>();
  program->name = name;
  program->source = source;
  if (std::optional<ParseFailure> failure = Parser(*program).Run()) {
    options.source.Bad("template-syntax");
    if (options.error_at != nullptr) *options.error_at = PlaceOf(source, failure->position);
    return Fail(std::move(failure->error));
  }
  return Template(std::move(program));
}

Result<std::string> Template::Render(const Value& data, const RenderOptions& options) const {
  return Executor(*program_, options).Run(View::Of(data));
}

Status Template::CheckNames(Place* error_at) const {
  for (const Body& body : program_->bodies) {
    for (const Instruction& instruction : body.code) {
      if (instruction.op != Op::kTemplate || instruction.body != kNone) continue;
      const Place place = PlaceOf(program_->source, instruction.position);
      if (error_at != nullptr) *error_at = place;
      return Fail(
          InvalidArgument(fmt::format("template: {}:{}:{}: template {} not defined", name(),
                                      place.line, place.column - 1, Quoted(instruction.text))));
    }
  }
  return {};
}

const std::string& Template::name() const { return program_->name; }
const std::string& Template::source() const { return program_->source; }

}  // namespace nstance::tmpl
