#include "core/config/reference.h"

#include <array>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "core/config/provider_args.h"
#include "core/config/schema.h"

namespace nstance::config {
namespace {

constexpr std::array kProviders = {ProviderKind::kLocal, ProviderKind::kQemu, ProviderKind::kAws,
                                   ProviderKind::kGcp, ProviderKind::kProxmox};

// A cell: bars would end it.
std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string DefaultOf(const Field& field, const ObjectSpec& spec) {
  if (field.standing == Field::Standing::kRequired) return "required";
  if (!field.default_text.empty()) return std::string(field.default_text);
  const std::string shown = field.show(*field.rule, spec.fresh.get());
  return shown.empty() ? "-" : fmt::format("`{}`", shown);
}

class Reference {
 public:
  std::string Render() {
    Section("The top level", ConfigSpec(), "");
    for (const ProviderKind kind : kProviders) {
      Section(fmt::format("`server.provider.options` of {}", Word(kind)), OptionsSpec(kind),
              "server.provider.options");
    }
    for (const ProviderKind kind : kProviders) Args(kind);
    return std::move(out_);
  }

 private:
  void Section(const std::string& title, const ObjectSpec& spec, const std::string& path) {
    out_ += fmt::format("### {}\n\n", title);
    if (spec.fields.empty()) {
      out_ += "No keys yet.\n\n";
      return;
    }
    out_ += "| Key | Value | Default | |\n|---|---|---|---|\n";
    for (const Field& field : spec.fields) Row(field, spec);
    if (spec.rest_below.spec != nullptr) {
      out_ += "| any other name | an object | - | See below. |\n";
    }
    out_ += "\n";
    for (const Field& field : spec.fields) {
      if (field.rule != nullptr) Descend(Join(path, field.key), field.rule->below());
    }
    Descend(path, spec.rest_below);
  }

  void Row(const Field& field, const ObjectSpec& spec) {
    if (field.standing == Field::Standing::kRefused) {
      out_ += fmt::format("| `{}` | - | - | {} |\n", field.key, field.doc);
      return;
    }
    out_ += fmt::format("| `{}` | {} | {} | {} |\n", field.key, Cell(field.rule->Allowed()),
                        Cell(DefaultOf(field, spec)), Cell(field.doc));
  }

  void Descend(const std::string& path, const Below& below) {
    if (below.spec == nullptr) return;
    const std::string name = path + below.suffix;
    Section(fmt::format("`{}`", name), *below.spec, name);
  }

  void Args(ProviderKind kind) {
    out_ += fmt::format("### `args` of {}\n\n| Key | Value | |\n|---|---|---|\n", Word(kind));
    for (const ArgSpec& arg : ArgsOf(kind)) {
      out_ += fmt::format("| `{}` | {} | {} |\n", arg.key, ShapeText(arg.shape), arg.doc);
    }
    out_ += "\n";
  }

  static std::string Join(const std::string& path, std::string_view key) {
    return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
  }

  std::string out_;
};

}  // namespace

std::string RenderReference() { return Reference().Render(); }

}  // namespace nstance::config
