#include <string_view>

#include <fmt/format.h>

#include "admin/grammar.h"
#include "base/text.h"

namespace nstance::admin {
namespace {

constexpr Help kValidate = {
    "Check a configuration with the rules and messages of the server",
    "All problems are told at once, each with its place, what is allowed and, where something "
    "close\n"
    "exists, what was probably meant. Exit 0: valid (there may be warnings). Exit 1: not valid.\n"
    "\n"
    "  nstance-admin config validate config/dc1-zone-a.jsonc\n"
    "  nstance-admin config validate --json config/dc1-zone-a.jsonc"};

constexpr Help kConvert = {
    "Print the `server`-rooted form of a `cluster`/`shard`-rooted file",
    "Every value that the file gives is kept; comments are not. The file must be valid.\n"
    "\n"
    "  nstance-admin config convert old.jsonc > config/dc1-zone-a.jsonc"};

constexpr Help kRender = {
    "Print what an instance would get, or render one template",
    "With --config and --group: user data, provider arguments and files of an instance of the "
    "group,\n"
    "with a made-up id, token and addresses. Contents of secrets and stored objects are not "
    "fetched.\n"
    "With --template and --data: one template against one JSON document; the output is exactly "
    "the\n"
    "rendered bytes.\n"
    "\n"
    "  nstance-admin config render --config config/dc1-zone-a.jsonc --group prod/workers\n"
    "  nstance-admin config render --config c.jsonc --group workers --part userdata --var ROLE=db\n"
    "  nstance-admin config render --template user-data.tmpl --data values.json"};

struct RenderFlags {
  std::string config;
  std::string group;
  std::string part;
  std::vector<std::string> vars;
  std::string template_file;
  std::string data_file;
};

Parsed<RenderPart> PartOf(std::string_view text) {
  if (text.empty()) return RenderPart::kAll;
  if (text == "userdata") return RenderPart::kUserData;
  if (text == "args") return RenderPart::kArgs;
  if (text == "files") return RenderPart::kFiles;
  return std::unexpected(
      fmt::format("--part: {} is unknown; one of: userdata, args, files", Quote(text)));
}

Parsed<Command> GroupRenderOf(const RenderFlags& flags) {
  const std::size_t slash = flags.group.find('/');
  const bool named = slash != std::string::npos;
  const auto tenant = TenantId::Parse(named ? flags.group.substr(0, slash) : "default");
  if (!tenant) return std::unexpected("--group: " + tenant.error().message);
  const auto group = GroupKey::Parse(named ? flags.group.substr(slash + 1) : flags.group);
  if (!group) return std::unexpected("--group: " + group.error().message);
  const auto part = PartOf(flags.part);
  if (!part) return std::unexpected(part.error());
  auto vars = VarsOf(flags.vars);
  if (!vars) return std::unexpected(vars.error());
  return ConfigCommand(ConfigRenderGroup{.file = flags.config,
                                         .tenant = *tenant,
                                         .group = *group,
                                         .part = *part,
                                         .vars = *std::move(vars)});
}

Parsed<Command> RenderOf(const RenderFlags& flags) {
  const bool group_form = !flags.config.empty() || !flags.group.empty();
  const bool template_form = !flags.template_file.empty() || !flags.data_file.empty();
  constexpr const char* kForms =
      "use --config and --group for an instance, or --template and --data for one template";
  if (group_form == template_form) return std::unexpected(kForms);
  if (group_form) {
    if (flags.config.empty()) return std::unexpected("--config is missing: the file to render");
    if (flags.group.empty()) return std::unexpected("--group is missing: [tenant/]group");
    return GroupRenderOf(flags);
  }
  if (flags.template_file.empty()) return std::unexpected("--template is missing");
  if (flags.data_file.empty()) return std::unexpected("--data is missing: a JSON document");
  if (!flags.part.empty() || !flags.vars.empty()) {
    return std::unexpected("--part and --var go with --config and --group");
  }
  return ConfigCommand(
      ConfigRenderTemplate{.template_file = flags.template_file, .data_file = flags.data_file});
}

// One file, and a command that is nothing else.
template <class T>
void AddFileCommand(Grammar& grammar, CLI::App* app) {
  const auto command = std::make_shared<T>();
  app->add_option("file", command->file, "The configuration file; - is standard input")
      ->required()
      ->type_name("");
  grammar.choices.push_back(
      {app, [command](const CommonFlags&) -> Parsed<Command> { return ConfigCommand(*command); }});
}

}  // namespace

void AddConfigFileCommands(Grammar& grammar, CLI::App& config) {
  AddFileCommand<ConfigValidate>(grammar, AddCommand(config, "validate", kValidate));
  AddFileCommand<ConfigConvert>(grammar, AddCommand(config, "convert", kConvert));
  CLI::App* render = AddCommand(config, "render", kRender);
  const auto flags = std::make_shared<RenderFlags>();
  render->add_option("--config", flags->config, "The configuration file")->type_name("FILE");
  render->add_option("--group", flags->group, "The group; its tenant is default if not named")
      ->type_name("[TENANT/]GROUP");
  render->add_option("--part", flags->part, "Only this: userdata, args or files")
      ->type_name("PART");
  render->add_option("--var", flags->vars, "A variable over those of the group; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  render->add_option("--template", flags->template_file, "A file with one template")
      ->type_name("FILE");
  render->add_option("--data", flags->data_file, "A file with one JSON document")
      ->type_name("FILE");
  grammar.choices.push_back(
      {render, [flags](const CommonFlags&) -> Parsed<Command> { return RenderOf(*flags); }});
}

}  // namespace nstance::admin
