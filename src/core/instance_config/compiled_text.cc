#include "core/instance_config/compiled_text.h"

#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "core/config/place.h"

namespace nstance {
namespace {

// Longer ones are parsed all the same, so that the limit on sources holds for every string.
bool HoldsTemplate(std::string_view text) {
  return text.contains("{{") || text.size() > tmpl::kMaxSourceBytes;
}

}  // namespace

Result<CompiledText> CompiledText::Compile(std::string_view name, std::string_view source) {
  if (!HoldsTemplate(source)) return CompiledText(std::string(source));
  ASSIGN_OR_RETURN(tmpl::Template parsed, tmpl::Template::Parse(name, source));
  RETURN_IF_ERROR(parsed.CheckNames());
  return CompiledText(std::move(parsed));
}

Result<std::string> CompiledText::Render(const tmpl::Value& data) const {
  if (const auto* text = std::get_if<std::string>(&content_)) return *text;
  return std::get<tmpl::Template>(content_).Render(data);
}

Result<CompiledJson> CompiledJson::Compile(std::string_view name, json::Value value) {
  CompiledJson compiled(std::move(value));
  RETURN_IF_ERROR(compiled.CompileLeaves(std::string(name), compiled.value_));
  return compiled;
}

Status CompiledJson::CompileLeaves(const std::string& name, const json::Value& value) {
  if (const std::string* text = value.if_string(); text != nullptr && HoldsTemplate(*text)) {
    ASSIGN_OR_RETURN(tmpl::Template parsed, tmpl::Template::Parse(name, *text));
    RETURN_IF_ERROR(parsed.CheckNames());
    leaves_.push_back(std::move(parsed));
  } else if (const json::Array* items = value.if_array()) {
    for (std::size_t i = 0; i < items->size(); ++i) {
      RETURN_IF_ERROR(CompileLeaves(fmt::format("{}[{}]", name, i), (*items)[i]));
    }
  } else if (const json::Object* members = value.if_object()) {
    for (const json::Member& member : *members) {
      std::string path = name;
      config::AppendStep(path, member.key);
      RETURN_IF_ERROR(CompileLeaves(path, member.value));
    }
  }
  return {};
}

Status CompiledJson::RenderLeaves(json::Value& value, std::size_t& next,
                                  const tmpl::Value& data) const {
  if (const std::string* text = value.if_string(); text != nullptr && HoldsTemplate(*text)) {
    CHECK(next < leaves_.size());
    ASSIGN_OR_RETURN(std::string rendered, leaves_[next++].Render(data));
    value = json::Value::String(std::move(rendered));
  } else if (json::Array* items = value.if_array()) {
    for (json::Value& item : *items) RETURN_IF_ERROR(RenderLeaves(item, next, data));
  } else if (json::Object* members = value.if_object()) {
    for (json::Member& member : *members) RETURN_IF_ERROR(RenderLeaves(member.value, next, data));
  }
  return {};
}

Result<json::Value> CompiledJson::Render(const tmpl::Value& data) const {
  json::Value rendered = value_;
  std::size_t next = 0;
  RETURN_IF_ERROR(RenderLeaves(rendered, next, data));
  return rendered;
}

}  // namespace nstance
