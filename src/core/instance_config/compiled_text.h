// Strings and JSON values that hold templates, parsed once and rendered many times.
//
//   ASSIGN_OR_RETURN(const CompiledJson args, CompiledJson::Compile("args", object));
//   ASSIGN_OR_RETURN(const json::Value rendered, args.Render(data));
//
// A string without "{{" is itself: it costs nothing to render. In a JSON value every string leaf of
// objects and lists is a template; keys and other values stay as they are. Nothing is rendered in
// part: the first error is the result.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "core/template/template.h"
#include "core/template/value.h"

namespace nstance {

class CompiledText final {
 public:
  // `name` stands in messages: "template: <name>:1:3: ...".
  [[nodiscard]] static Result<CompiledText> Compile(std::string_view name, std::string_view source);

  [[nodiscard]] Result<std::string> Render(const tmpl::Value& data) const;

 private:
  explicit CompiledText(std::variant<std::string, tmpl::Template> content)
      : content_(std::move(content)) {}

  std::variant<std::string, tmpl::Template> content_;
};

class CompiledJson final {
 public:
  // The names of leaves are `name` and their path: `args.tags["a.b"][0]`.
  [[nodiscard]] static Result<CompiledJson> Compile(std::string_view name, json::Value value);

  [[nodiscard]] Result<json::Value> Render(const tmpl::Value& data) const;

 private:
  explicit CompiledJson(json::Value value) : value_(std::move(value)) {}

  Status CompileLeaves(const std::string& name, const json::Value& value);
  Status RenderLeaves(json::Value& value, std::size_t& next, const tmpl::Value& data) const;

  json::Value value_;
  std::vector<tmpl::Template> leaves_;  // In the order of a walk through the value.
};

}  // namespace nstance
