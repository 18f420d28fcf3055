#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/grammar.h"
#include "admin/shard_flags.h"
#include "base/puidv7.h"
#include "base/text.h"

namespace nstance::admin {
namespace {

// --- What --help teaches -------------------------------------------------------------------------

constexpr Help kConfigStatus = {"Show which configuration each shard's leader has loaded",
                                "  nstance-admin config status --servers dc1-zone-a=10.0.0.1:8993"};

constexpr Help kConfigRefresh = {
    "Make the leaders load configuration and groups again, now",
    "A configuration that is not valid changes nothing. With --wait: until no group has anything\n"
    "left to do.\n"
    "\n"
    "  nstance-admin config refresh --all-shards --wait"};

constexpr Help kGroup = {"Show and change groups of instances",
                         "Try `nstance-admin group list --help`."};

constexpr Help kGroupList = {"List the groups of the tenant",
                             "  nstance-admin group list --all-shards --wide"};

constexpr Help kGroupStatus = {"Show one group: counts, settings, holds, next actions, members",
                               "  nstance-admin group status workers --shard dc1-zone-a"};

constexpr Help kGroupCreate = {
    "Create a group, or with --update change one",
    "What is not given is left as it is (a new group: empty, size 0). With --dry-run: what the\n"
    "server would do.\n"
    "\n"
    "  nstance-admin group create workers --template knd --size 3 --var ROLE=worker --wait\n"
    "  nstance-admin group create workers --update --instance-type t4g.large --dry-run"};

constexpr Help kGroupScale = {
    "Set the size of a group",
    "With --all-shards the size is that of each shard; --total divides it, larger parts to the\n"
    "shards that --servers names first.\n"
    "\n"
    "  nstance-admin group scale workers 20 --wait\n"
    "  nstance-admin group scale workers 50 --all-shards --total --dry-run"};

constexpr Help kGroupDelete = {
    "Delete a group and its instances",
    "Of a group that the configuration defines only what was changed by commands is removed.\n"
    "\n"
    "  nstance-admin group delete workers --yes --wait"};

constexpr Help kInstance = {"Show, create and delete instances",
                            "Try `nstance-admin instance list --help`."};

constexpr Help kInstanceList = {
    "List instances",
    "Phases: intended, creating, provisioned, registered, draining, deleting, gone, failed; all\n"
    "but gone if not told.\n"
    "\n"
    "  nstance-admin instance list --group workers --phase draining,deleting"};

constexpr Help kInstanceShow = {"Show everything about an instance, its holds and latest events",
                                "All shards of --servers are asked for it.\n"
                                "\n"
                                "  nstance-admin instance show knd06bgm7733st2576nx5jht4ecjw"};

constexpr Help kInstanceCreate = {
    "Create one instance on demand",
    "It belongs to a group but does not count toward its size. With --wait: until its agent has\n"
    "registered.\n"
    "\n"
    "  nstance-admin instance create --group workers --var ROLE=build --wait=5m"};

constexpr Help kInstanceDelete = {
    "Delete instances",
    "At once, unless --drain or --drain-timeout asks for a drain first. A member of a group is\n"
    "replaced. All shards of --servers are asked for the instances. With --wait: until they are\n"
    "gone.\n"
    "\n"
    "  nstance-admin instance delete knd06bgm7733st2576nx5jht4ecjw --drain --yes --wait"};

constexpr Help kPlan = {
    "Show what the planner is about to do, and what holds it back",
    "With --size or --var: what it would do after that change. Nothing is changed.\n"
    "\n"
    "  nstance-admin plan\n"
    "  nstance-admin plan workers --size 0"};

constexpr Help kWhy = {"Explain the state of an instance or a group",
                       "  nstance-admin why knd06bgm7733st2576nx5jht4ecjw\n"
                       "  nstance-admin why workers --shard dc1-zone-a"};

constexpr Help kWatch = {
    "Watch groups, instances and events live",
    "Keys: g groups, i instances, e events, arrows and page keys scroll, / filter, q quit. Not on\n"
    "a terminal, or with --json: one line (object) per event.\n"
    "\n"
    "  nstance-admin watch --all-shards\n"
    "  nstance-admin watch --group workers --instances"};

// --- Flags ---------------------------------------------------------------------------------------

// What CLI11 writes to; commands use what they need of it.
struct Texts {
  ShardFlagTexts shard = {};
  std::string group = {};
  std::string size = {};
  std::string template_name = {};
  std::string instance_type = {};
  std::string subnet_pool = {};
  std::vector<std::string> vars = {};
  std::vector<std::string> args = {};
  std::string id = {};
  std::vector<std::string> ids = {};
  std::string phases = {};
  std::string drain_timeout = {};
  std::string wait = {};
  std::string subject = {};
  bool wide = false;
  bool update = false;
  bool total = false;
  bool dry_run = false;
  bool drain = false;
  bool yes = false;
  bool instances = false;
  bool events = false;
};

// Builds one command: its flags write to `texts`.
struct Builder {
  CLI::App* app = nullptr;
  std::shared_ptr<Texts> texts = std::make_shared<Texts>();

  void Option(const char* name, std::string Texts::* text, const char* what, const char* type) {
    app->add_option(name, (*texts).*text, what)->type_name(type);
  }
  void Word(const char* name, std::string Texts::* text, const char* what) {
    app->add_option(name, (*texts).*text, what)->required()->type_name("");
  }
  void Flag(const char* name, bool Texts::* flag, const char* what) {
    app->add_flag(name, (*texts).*flag, what);
  }
  void Pairs(const char* name, std::vector<std::string> Texts::* pairs, const char* what) {
    app->add_option(name, (*texts).*pairs, what)->type_name("NAME=VALUE")->allow_extra_args(false);
  }
  void WaitFlag(const char* what) { app->add_flag("--wait{10m}", texts->wait, what); }
  void Change() {
    Flag("--dry-run", &Texts::dry_run, "Print the plan and change nothing");
    WaitFlag("Wait until it is done, 10m if no duration is given: --wait=30m");
  }
  void Placement() {
    Option("--template", &Texts::template_name, "The template", "NAME");
    Option("--instance-type", &Texts::instance_type, "Instead of the template's", "TYPE");
    Option("--subnet-pool", &Texts::subnet_pool, "Instead of the template's", "POOL");
    Pairs("--var", &Texts::vars, "A variable; may be repeated");
  }
};

void AddShardFlags(Builder& builder) {
  ShardFlagTexts& texts = builder.texts->shard;
  CLI::App& app = *builder.app;
  app.add_option("--servers", texts.servers,
                 "Operator ports that lead to the leaders (NSTANCE_ADMIN_SERVERS)")
      ->type_name("SHARD=HOST:PORT,...");
  app.add_option("--identity-dir", texts.identity_dir,
                 "ca.crt, identity.key, identity.crt (NSTANCE_ADMIN_IDENTITY_DIR; default "
                 "<temp-dir>/cli-operator-identity)")
      ->type_name("DIR");
  app.add_option("--shard", texts.shard, "Only this shard (NSTANCE_ADMIN_SHARD)")
      ->type_name("SHARD");
  app.add_flag("--all-shards", texts.all_shards, "Every shard of --servers");
  app.add_option("--timeout", texts.timeout,
                 "How long each shard may take, all its calls together, waits apart (default 30s)")
      ->type_name("DURATION");
  // With these, an error says who holds the lease of a shard that nobody answers for.
  AddBucketFlags(app, texts.storage);
}

using Make = Parsed<ShardAction> (*)(const Texts& texts, const ShardFlags& flags);

void Choose(Grammar& grammar, Builder builder, ShardRule rule, Make make) {
  AddShardFlags(builder);
  const auto command = [&grammar, texts = builder.texts, rule,
                        make](const CommonFlags& common) -> Parsed<Command> {
    auto flags = ShardFlagsOf(grammar, texts->shard, common, rule);
    if (!flags) return std::unexpected(flags.error());
    auto action = make(*texts, *flags);
    if (!action) return std::unexpected(action.error());
    return ShardCommand{.flags = *std::move(flags), .action = *std::move(action)};
  };
  grammar.choices.push_back({builder.app, command});
}

Builder NewCommand(CLI::App& above, const char* name, const Help& help) {
  return {.app = AddCommand(above, name, help)};
}

// --- From texts to commands ----------------------------------------------------------------------

Parsed<GroupKey> GroupOf(std::string_view text) {
  auto group = GroupKey::Parse(text);
  if (!group) return std::unexpected(group.error().message);
  return *std::move(group);
}

// Empty: none.
Parsed<std::string> OptionalGroup(const std::string& text) {
  if (text.empty()) return text;
  const auto group = GroupOf(text);
  if (!group) return std::unexpected(group.error());
  return text;
}

Parsed<std::string> InstanceIdOf(const std::string& text) {
  const auto id = ReadPuidv7(text);
  if (!id) {
    return std::unexpected(
        fmt::format("{} is not the id of an instance: {}", Quote(text), id.error().message));
  }
  return id->text();
}

// --arg NAME=value, repeated.
Parsed<config::StringMap> ArgsOf(const std::vector<std::string>& words) {
  config::StringMap args;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || !IsValidUtf8(word)) {
      return std::unexpected(fmt::format("--arg: {} is not NAME=value in UTF-8", Quote(word)));
    }
    if (!args.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      return std::unexpected(fmt::format("--arg: {} is given twice", word.substr(0, equals)));
    }
  }
  return args;
}

Parsed<std::optional<std::int32_t>> OptionalSize(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto size = SizeOf("--size", text, config::kMaxGroupSize);
  if (!size) return std::unexpected(size.error());
  return *size;
}

template <class What>
Parsed<ShardAction> ChangeOf(const Texts& texts, What what) {
  auto group = GroupOf(texts.group);
  if (!group) return std::unexpected(group.error());
  const auto wait = WaitOf(texts.wait);
  if (!wait) return std::unexpected(wait.error());
  if (texts.dry_run && *wait) return std::unexpected("--dry-run changes nothing to --wait for");
  return GroupChange{
      .group = *std::move(group), .what = std::move(what), .dry_run = texts.dry_run, .wait = *wait};
}

Parsed<ShardAction> CreateOf(const Texts& texts, const ShardFlags&) {
  if (texts.template_name.empty() && !texts.update) {
    return std::unexpected("--template is missing: a template of the server's configuration");
  }
  const auto size = OptionalSize(texts.size);
  if (!size) return std::unexpected(size.error());
  auto vars = VarsOf(texts.vars);
  if (!vars) return std::unexpected(vars.error());
  auto args = ArgsOf(texts.args);
  if (!args) return std::unexpected(args.error());
  return ChangeOf(texts, GroupCreate{.template_name = texts.template_name,
                                     .size = *size,
                                     .instance_type = texts.instance_type,
                                     .subnet_pool = texts.subnet_pool,
                                     .vars = *std::move(vars),
                                     .args = *std::move(args),
                                     .update = texts.update});
}

Parsed<ShardAction> ScaleOf(const Texts& texts, const ShardFlags& flags) {
  const std::size_t shards = flags.servers.size();
  const auto most = static_cast<std::int32_t>(texts.total ? shards : 1) * config::kMaxGroupSize;
  const auto size = SizeOf("size", texts.size, most);
  if (!size) return std::unexpected(size.error());
  return ChangeOf(texts,
                  GroupScale{.sizes = texts.total ? Divide(*size, shards)
                                                  : std::vector<std::int32_t>(shards, *size)});
}

Parsed<ShardAction> InstanceListOf(const Texts& texts, const ShardFlags&) {
  auto group = OptionalGroup(texts.group);
  if (!group) return std::unexpected(group.error());
  auto phases = PhasesOf(texts.phases);
  if (!phases) return std::unexpected(phases.error());
  return InstanceList{.group = *std::move(group), .phases = *std::move(phases), .wide = texts.wide};
}

Parsed<ShardAction> InstanceCreateOf(const Texts& texts, const ShardFlags&) {
  if (texts.group.empty()) return std::unexpected("--group is missing");
  auto group = GroupOf(texts.group);
  if (!group) return std::unexpected("--group: " + group.error());
  std::string id;
  if (!texts.id.empty()) {
    auto read = InstanceIdOf(texts.id);
    if (!read) return std::unexpected("--id: " + read.error());
    id = *std::move(read);
  }
  auto vars = VarsOf(texts.vars);
  if (!vars) return std::unexpected(vars.error());
  const auto wait = WaitOf(texts.wait);
  if (!wait) return std::unexpected(wait.error());
  return InstanceCreate{.group = *std::move(group),
                        .id = std::move(id),
                        .template_name = texts.template_name,
                        .instance_type = texts.instance_type,
                        .subnet_pool = texts.subnet_pool,
                        .vars = *std::move(vars),
                        .wait = *wait};
}

Parsed<ShardAction> InstanceDeleteOf(const Texts& texts, const ShardFlags&) {
  InstanceDelete command{.drain = texts.drain, .yes = texts.yes};
  for (const std::string& text : texts.ids) {
    auto id = InstanceIdOf(text);
    if (!id) return std::unexpected(id.error());
    if (std::ranges::find(command.ids, *id) == command.ids.end()) {
      command.ids.push_back(*std::move(id));
    }
  }
  if (!texts.drain_timeout.empty()) {
    const auto timeout = DurationOf("--drain-timeout", texts.drain_timeout, Duration::Days(7));
    if (!timeout) return std::unexpected(timeout.error());
    command.drain_timeout = *timeout;
  }
  const auto wait = WaitOf(texts.wait);
  if (!wait) return std::unexpected(wait.error());
  command.wait = *wait;
  return command;
}

Parsed<ShardAction> PlanOf(const Texts& texts, const ShardFlags&) {
  auto group = OptionalGroup(texts.group);
  if (!group) return std::unexpected(group.error());
  const auto size = OptionalSize(texts.size);
  if (!size) return std::unexpected(size.error());
  auto vars = VarsOf(texts.vars);
  if (!vars) return std::unexpected(vars.error());
  if (group->empty() && (*size || !vars->empty())) {
    return std::unexpected("--size and --var need a group");
  }
  return ShowPlan{.group = *std::move(group), .size = *size, .vars = *std::move(vars)};
}

Parsed<ShardAction> WhyOf(const Texts& texts, const ShardFlags&) {
  if (const auto id = InstanceIdOf(texts.subject)) return Why{.subject = *id, .is_instance = true};
  if (!GroupOf(texts.subject)) {
    return std::unexpected(fmt::format("{} is neither the id of an instance nor a group's name",
                                       Quote(texts.subject)));
  }
  return Why{.subject = texts.subject, .is_instance = false};
}

Parsed<ShardAction> WatchOf(const Texts& texts, const ShardFlags&) {
  auto group = OptionalGroup(texts.group);
  if (!group) return std::unexpected(group.error());
  if (texts.instances && texts.events) {
    return std::unexpected("--instances and --events contradict each other: keys change the view");
  }
  WatchView view = WatchView::kGroups;
  if (texts.instances) view = WatchView::kInstances;
  if (texts.events) view = WatchView::kEvents;
  return Watch{.group = *std::move(group), .view = view};
}

// --- The families --------------------------------------------------------------------------------

void AddGroupChanges(Grammar& grammar, CLI::App& group) {
  Builder create = NewCommand(group, "create", kGroupCreate);
  create.Word("group", &Texts::group, "The group");
  create.Placement();
  create.Option("--size", &Texts::size, "How many instances", "N");
  create.Pairs("--arg", &Texts::args, "A provider argument; may be repeated");
  create.Flag("--update", &Texts::update, "Change the group if it exists");
  create.Change();
  Choose(grammar, create, ShardRule::kChosen, CreateOf);

  Builder scale = NewCommand(group, "scale", kGroupScale);
  scale.Word("group", &Texts::group, "The group");
  scale.Word("size", &Texts::size, "How many instances");
  scale.Flag("--total", &Texts::total, "The size is that of all shards together");
  scale.Change();
  Choose(grammar, scale, ShardRule::kChosen, ScaleOf);

  Builder remove = NewCommand(group, "delete", kGroupDelete);
  remove.Word("group", &Texts::group, "The group");
  remove.Flag("-y,--yes", &Texts::yes, "Do not ask");
  remove.Change();
  Choose(grammar, remove, ShardRule::kChosen,
         [](const Texts& texts, const ShardFlags&) -> Parsed<ShardAction> {
           return ChangeOf(texts, GroupDelete{.yes = texts.yes});
         });
}

void AddGroupCommands(Grammar& grammar, CLI::App& group) {
  Builder list = NewCommand(group, "list", kGroupList);
  list.Flag("--wide", &Texts::wide, "More columns");
  Choose(grammar, list, ShardRule::kChosen,
         [](const Texts& texts, const ShardFlags&) -> Parsed<ShardAction> {
           return GroupList{.wide = texts.wide};
         });
  Builder status = NewCommand(group, "status", kGroupStatus);
  status.Word("group", &Texts::group, "The group");
  Choose(grammar, status, ShardRule::kChosen,
         [](const Texts& texts, const ShardFlags&) -> Parsed<ShardAction> {
           auto key = GroupOf(texts.group);
           if (!key) return std::unexpected(key.error());
           return GroupShow{.group = *std::move(key)};
         });
  AddGroupChanges(grammar, group);
}

void AddInstanceCommands(Grammar& grammar, CLI::App& instance) {
  Builder list = NewCommand(instance, "list", kInstanceList);
  list.Option("--group", &Texts::group, "Only of this group", "GROUP");
  list.Option("--phase", &Texts::phases, "Only in these phases", "PHASE,...");
  list.Flag("--wide", &Texts::wide, "More columns");
  Choose(grammar, list, ShardRule::kChosen, InstanceListOf);

  Builder show = NewCommand(instance, "show", kInstanceShow);
  show.Word("id", &Texts::id, "The instance");
  Choose(grammar, show, ShardRule::kAllAlike,
         [](const Texts& texts, const ShardFlags&) -> Parsed<ShardAction> {
           auto id = InstanceIdOf(texts.id);
           if (!id) return std::unexpected(id.error());
           return InstanceShow{.id = *std::move(id)};
         });

  Builder create = NewCommand(instance, "create", kInstanceCreate);
  create.Option("--group", &Texts::group, "The group (required)", "GROUP");
  create.Option("--id", &Texts::id, "Its id; else the server makes one", "ID");
  create.Placement();
  create.WaitFlag("Wait until it has registered, 10m if no duration is given: --wait=5m");
  Choose(grammar, create, ShardRule::kOnlyOne, InstanceCreateOf);

  Builder remove = NewCommand(instance, "delete", kInstanceDelete);
  remove.app->add_option("id", remove.texts->ids, "The instances")->required()->type_name("");
  remove.Flag("--drain", &Texts::drain, "Drain first, for as long as the group says");
  remove.Option("--drain-timeout", &Texts::drain_timeout,
                "Drain first, at most so long; 0 deletes at once, whatever --drain says",
                "DURATION");
  remove.Flag("-y,--yes", &Texts::yes, "Do not ask");
  remove.WaitFlag("Wait until they are gone, 10m if no duration is given: --wait=5m");
  Choose(grammar, remove, ShardRule::kAllAlike, InstanceDeleteOf);
}

void AddExplainCommands(Grammar& grammar) {
  Builder plan = NewCommand(*grammar.app, "plan", kPlan);
  plan.app->add_option("group", plan.texts->group, "Only of this group")->type_name("");
  plan.Option("--size", &Texts::size, "As if it had this size", "N");
  plan.Pairs("--var", &Texts::vars, "As if it had this variable; may be repeated");
  Choose(grammar, plan, ShardRule::kChosen, PlanOf);

  Builder why = NewCommand(*grammar.app, "why", kWhy);
  why.Word("subject", &Texts::subject, "The id of an instance, or a group");
  Choose(grammar, why, ShardRule::kAllAlike, WhyOf);

  Builder watch = NewCommand(*grammar.app, "watch", kWatch);
  watch.Option("--group", &Texts::group, "Only this group", "GROUP");
  watch.Flag("--instances", &Texts::instances, "Begin with instances");
  watch.Flag("--events", &Texts::events, "Begin with events");
  Choose(grammar, watch, ShardRule::kChosen, WatchOf);
}

}  // namespace

void AddConfigShardCommands(Grammar& grammar, CLI::App& config) {
  Choose(grammar, NewCommand(config, "status", kConfigStatus), ShardRule::kChosen,
         [](const Texts&, const ShardFlags&) -> Parsed<ShardAction> { return ConfigStatus{}; });
  Builder refresh = NewCommand(config, "refresh", kConfigRefresh);
  refresh.WaitFlag("Wait until nothing is left to do, 10m if no duration is given: --wait=30m");
  Choose(grammar, refresh, ShardRule::kChosen,
         [](const Texts& texts, const ShardFlags&) -> Parsed<ShardAction> {
           const auto wait = WaitOf(texts.wait);
           if (!wait) return std::unexpected(wait.error());
           return ConfigRefresh{.wait = *wait};
         });
}

void AddShardCommands(Grammar& grammar) {
  AddGroupCommands(grammar, *AddFamily(*grammar.app, "group", kGroup));
  AddInstanceCommands(grammar, *AddFamily(*grammar.app, "instance", kInstance));
  AddExplainCommands(grammar);
}

}  // namespace nstance::admin
