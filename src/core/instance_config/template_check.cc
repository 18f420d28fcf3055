#include "core/instance_config/template_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"
#include "core/agent_file/agent_file_check.h"
#include "core/config/place.h"
#include "core/instance_config/merge.h"
#include "core/instance_config/render_plan.h"
#include "core/instance_config/user_data.h"
#include "core/template/lint.h"
#include "core/template/template.h"

namespace nstance {
namespace {

using config::Config;
using config::LoadResult;
using config::Problem;
using config::TemplateSource;
using config::TemplateUse;

constexpr std::size_t kMaxContexts = 8;

// ---- paths and places ---------------------------------------------------------------------------

// The steps of `templates.knd.files["node.env"].template`; list indices too.
std::vector<std::string> StepsOf(std::string_view path) {
  std::vector<std::string> steps;
  while (!path.empty()) {
    if (path.front() == '.') path.remove_prefix(1);
    if (path.starts_with("[\"")) {
      const std::size_t end = std::min(path.find("\"]"), path.size());
      steps.emplace_back(path.substr(2, end - 2));
      path.remove_prefix(std::min(end + 2, path.size()));
      continue;
    }
    const std::size_t end = std::min(path.find_first_of(".[", 1), path.size());
    steps.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return steps;
}

std::size_t OffsetOf(std::string_view text, json::Position at) {
  std::size_t start = 0;
  for (std::uint32_t line = 1; line < at.line; ++line) {
    const std::size_t end = text.find('\n', start);
    if (end == std::string_view::npos) return text.size();
    start = end + 1;
  }
  return std::min(start + (at.column > 0 ? at.column - 1 : 0), text.size());
}

// "template: <name>:<line>:<column>: what" without what the problem says itself.
std::string Bare(std::string_view message, std::string_view name) {
  const std::string prefix = fmt::format("template: {}:", name);
  if (!message.starts_with(prefix)) return std::string(message);
  std::string_view rest = message.substr(prefix.size());
  rest.remove_prefix(std::min(rest.find_first_not_of("0123456789:"), rest.size()));
  rest.remove_prefix(rest.starts_with(' ') ? 1 : 0);
  return std::string(rest);
}

// ---- contexts -----------------------------------------------------------------------------------

// What a template is tried with.
struct Context {
  std::string template_name;
  std::string tenant;
  std::string group;  // Empty: no group of the file uses the template.
  MergedInstanceConfig merged;

  [[nodiscard]] bool certain() const { return !group.empty(); }
};

std::vector<Context> ContextsOf(const Config& config) {
  std::vector<Context> contexts;
  std::set<std::string> used;
  for (const auto& [tenant, groups] : config.groups) {
    for (const auto& [key, layer] : groups) {
      Result<MergedInstanceConfig> merged = MergeInstanceConfig(config, layer);
      if (!merged) continue;
      used.insert(merged->template_name);
      contexts.push_back({.template_name = merged->template_name,
                          .tenant = tenant.text(),
                          .group = key.text(),
                          .merged = *std::move(merged)});
    }
  }
  for (const auto& [name, entry] : config.templates) {
    if (used.contains(name)) continue;
    contexts.push_back({.template_name = name,
                        .tenant = DefaultTenant().text(),
                        .group = "",
                        .merged = *MergeInstanceConfig(config, {.template_name = name})});
  }
  return contexts;
}

// What we make ourselves holds nothing that a shell or YAML would act on.
bool IsSafeAction(std::string_view action) {
  constexpr auto kSafe = std::to_array<std::string_view>(
      {".Nonce", ".Instance.ID", ".Instance.Kind", ".Instance.Arch", ".Cluster.ID",
       ".Cluster.CACert", ".ClusterID", ".Server.Shard", ".Server.RegistrationAddr",
       ".Server.AgentAddr", ".Server.OperatorAddr", ".Provider.Kind", ".Tenant", ".Group"});
  if (action.starts_with('$')) action.remove_prefix(1);
  return std::ranges::find(kSafe, action) != kSafe.end();
}

class Checker {
 public:
  Checker(std::string_view text, const LoadResult& loaded)
      : text_(text),
        loaded_(loaded),
        contexts_(ContextsOf(*loaded.config)),
        shared_(SampleServer(*loaded.config), SampleImages(*loaded.config)) {}

  TemplateVerdict Run() {
    for (const TemplateSource& source : loaded_.templates) CheckSource(source);
    CheckPackedUserData();
    CheckFiles();
    CheckDraws();
    for (std::vector<Problem>* list : {&verdict_.errors, &verdict_.warnings}) {
      std::ranges::stable_sort(*list, {},
                               [](const Problem& p) { return std::tuple(p.at.line, p.at.column); });
    }
    return std::move(verdict_);
  }

 private:
  struct Verdict {
    std::size_t offset = 0;
    std::string message;
    bool is_error = true;
  };

  void CheckSource(const TemplateSource& source) {
    if (verdict_.errors.size() >= config::kMaxProblems) return;
    const bool hides = source.use == TemplateUse::kUserData || source.use == TemplateUse::kArgs;
    const auto add = [&](std::vector<Problem>& list, std::size_t offset, std::string message) {
      const json::Position at = config::PlaceInFile(text_, source, offset);
      list.push_back({.at = at,
                      .offset = OffsetOf(text_, at),
                      .path = source.path,
                      .message = std::move(message),
                      .hides_value = hides});
    };
    tmpl::Place place;
    const Result<tmpl::Template> parsed =
        tmpl::Template::Parse(source.path, source.text, {.error_at = &place});
    if (!parsed)
      return add(verdict_.errors, place.offset, Bare(parsed.error().message, source.path));
    if (const std::optional<Verdict> bad = Try(*parsed, source)) {
      add(bad->is_error ? verdict_.errors : verdict_.warnings, bad->offset, bad->message);
    }
    for (const tmpl::Finding& finding : tmpl::FindRawInsertions(*parsed)) {
      if (IsSafeAction(finding.action)) continue;
      add(verdict_.warnings, finding.place.offset, finding.message);
    }
  }

  // The first thing that goes wrong with any of the contexts; errors before warnings.
  std::optional<Verdict> Try(const tmpl::Template& parsed, const TemplateSource& source) {
    tmpl::Place place;
    if (const Status names = parsed.CheckNames(&place); !names) {
      return Verdict{place.offset, Bare(names.error().message, parsed.name()), true};
    }
    std::optional<Verdict> doubt;
    for (const Context* context : ContextsFor(source)) {
      const Result<std::string> rendered =
          parsed.Render(DataOf(*context, source.use), {.error_at = &place});
      if (rendered) continue;
      std::string message = Bare(rendered.error().message, parsed.name());
      const bool structural = rendered.error().code == Code::kResourceExhausted ||
                              message.contains("can't evaluate field");
      if (context->certain() || structural) {
        if (context->certain()) {
          message += fmt::format(" (group {}/{})", context->tenant, context->group);
        }
        return Verdict{place.offset, std::move(message), true};
      }
      message += " (with the template's own vars)";
      doubt = Verdict{place.offset, std::move(message), false};
    }
    return doubt;
  }

  [[nodiscard]] tmpl::Value DataOf(const Context& context, TemplateUse use) const {
    InstanceFacts facts = SampleInstance(context.merged.kind);
    facts.arch = context.merged.arch;
    facts.type = context.merged.instance_type;
    facts.tenant = context.tenant;
    facts.group = context.certain() ? context.group : "sample";
    facts.vars = context.merged.vars;
    const bool at_creation = use == TemplateUse::kUserData || use == TemplateUse::kArgs;
    return at_creation ? shared_.ForCreation(facts, SampleNonce()) : shared_.ForFiles(facts);
  }

  // Those in which the string can appear, with different variables each.
  [[nodiscard]] std::vector<const Context*> ContextsFor(const TemplateSource& source) const {
    const std::vector<std::string> steps = StepsOf(source.path);
    std::vector<const Context*> chosen;
    for (const Context& context : contexts_) {
      if (chosen.size() == kMaxContexts) break;
      if (!Concerns(steps, context)) continue;
      const bool known = std::ranges::any_of(chosen, [&](const Context* other) {
        return other->certain() == context.certain() && other->merged.vars == context.merged.vars;
      });
      if (!known) chosen.push_back(&context);
    }
    return chosen;
  }

  [[nodiscard]] bool Concerns(const std::vector<std::string>& steps, const Context& context) const {
    if (steps.size() < 2) return true;
    if (steps[0] == "templates") return steps[1] == context.template_name;
    if (steps[0] == "defaults" && steps[1] == "userdata") {
      const auto entry = loaded_.config->templates.find(context.template_name);
      return entry == loaded_.config->templates.end() || !entry->second.userdata;
    }
    if (steps[0] != "groups") return true;
    // `groups.<tenant>.<group>`, or `groups.<group>` where the tenant is left out.
    const bool named = steps.size() > 2 && steps[1] == context.tenant && steps[2] == context.group;
    return named || (steps[1] == context.group && context.tenant == DefaultTenant().text() &&
                     steps.size() > 2 && steps[2] == "args");
  }

  // Inline user data in base64+gzip: its text has no place in the file of its own.
  void CheckPackedUserData() {
    const Config& config = *loaded_.config;
    if (config.defaults.userdata) CheckPacked("defaults", *config.defaults.userdata);
    for (const auto& [name, entry] : config.templates) {
      std::string path = "templates";
      config::AppendStep(path, name);
      if (entry.userdata) CheckPacked(path, *entry.userdata);
    }
  }

  void CheckPacked(const std::string& owner, const config::UserData& userdata) {
    if (userdata.effective_source() != config::UserDataSource::kInline ||
        userdata.effective_encoding() != config::UserDataEncoding::kBase64Gzip) {
      return;
    }
    const std::string path = owner + ".userdata.content";
    const Result<std::string> text =
        DecodeUserData(userdata.effective_encoding(), userdata.content);
    if (!text) return AddAt(verdict_.errors, path, text.error().message);
    CheckSource(
        {.use = TemplateUse::kUserData, .path = path, .at = PositionOf(path), .text = *text});
  }

  // Whole files, as an agent will see them.
  void CheckFiles() {
    std::set<std::string> told;
    std::map<std::string, std::size_t> tried;
    for (const Context& context : contexts_) {
      if (++tried[context.template_name] > kMaxContexts) continue;
      const Result<RenderPlan> plan =
          RenderPlan::Compile(context.merged, loaded_.config->certificates);
      if (!plan) continue;  // Told already.
      const Result<RenderedFiles> files = plan->RenderFiles(DataOf(context, TemplateUse::kFile));
      if (!files) continue;
      for (const auto& [name, file] : *files) CheckFile(context, name, file, told);
    }
  }

  void CheckFile(const Context& context, const std::string& name, const RenderedFile& file,
                 std::set<std::string>& told) {
    const auto* const text = std::get_if<TextFile>(&file);
    if (text == nullptr) return;
    const Status status = CheckAgentFile({.name = name, .content = text->content});
    std::string path = "templates";
    config::AppendStep(path, context.template_name);
    path += ".files";
    config::AppendStep(path, name);
    if (status || !told.insert(path).second) return;
    AddAt(verdict_.warnings, path,
          fmt::format("agents would refuse it with sample data: {}", status.error().message));
  }

  // A member of a pool was started with the variables of the pool, and cannot be started again.
  void CheckDraws() {
    for (const auto& [tenant, groups] : loaded_.config->groups) {
      for (const auto& [key, layer] : groups) {
        if (!layer.draw_from) continue;
        const Context* const group = FindContext(tenant.text(), key.text());
        const Context* const pool = FindContext(tenant.text(), layer.draw_from->text());
        if (group != nullptr && pool != nullptr) CheckDraw(*group, *pool);
      }
    }
  }

  void CheckDraw(const Context& group, const Context& pool) {
    const Result<RenderPlan> plan = RenderPlan::Compile(pool.merged, loaded_.config->certificates);
    if (!plan || plan->needs_fetch()) return;
    const auto render = [&](config::StringMap vars) {
      Context with = pool;
      with.merged.vars = std::move(vars);
      return plan->RenderUserData(DataOf(with, TemplateUse::kUserData));
    };
    const Result<std::string> expected = render(pool.merged.vars);
    if (!expected || render(group.merged.vars) == expected) return;
    std::string name;  // Of a variable that makes the difference alone.
    for (const std::string& each : DifferingVars(group.merged.vars, pool.merged.vars)) {
      config::StringMap vars = pool.merged.vars;
      const auto at = group.merged.vars.find(each);
      vars[each] = at == group.merged.vars.end() ? "" : at->second;
      if (render(std::move(vars)) == expected) continue;
      name = each;
      break;
    }
    std::string path = "groups";
    for (const std::string* step : {&group.tenant, &group.group}) config::AppendStep(path, *step);
    AddAt(
        verdict_.errors, path + ".draw_from",
        fmt::format("user data{} gives other bytes than in the pool `{}`, whose members have "
                    "started already; the same value in both, or a file instead of user data",
                    name.empty() ? "" : fmt::format(" with the variable `{}`", name), pool.group));
  }

  static std::set<std::string> DifferingVars(const config::StringMap& a,
                                             const config::StringMap& b) {
    std::set<std::string> names;
    for (const auto* each : {&a, &b}) {
      for (const auto& [name, value] : *each) {
        const auto in_a = a.find(name);
        const auto in_b = b.find(name);
        const bool same = in_a != a.end() && in_b != b.end() && in_a->second == in_b->second;
        if (!same) names.insert(name);
      }
    }
    return names;
  }

  [[nodiscard]] const Context* FindContext(std::string_view tenant, std::string_view group) const {
    const auto at = std::ranges::find_if(contexts_, [&](const Context& context) {
      return context.tenant == tenant && context.group == group;
    });
    return at == contexts_.end() ? nullptr : &*at;
  }

  // Where the value at a path of the `server`-rooted form stands, or its nearest ancestor.
  [[nodiscard]] json::Position PositionOf(std::string_view path) {
    if (!document_) {
      document_ = json::Parse(text_, {.syntax = json::Syntax::kJsonc,
                                      .max_bytes = config::kMaxConfigBytes,
                                      .max_depth = config::kMaxConfigDepth})
                      .value_or(json::Value());
    }
    const json::Value* at = &*document_;
    json::Position position = at->position();
    for (const std::string& step : StepsOf(path)) {
      const json::Value* const next = at->Find(step);
      if (next == nullptr) break;
      at = next;
      position = at->position();
    }
    return position;
  }

  void AddAt(std::vector<Problem>& list, const std::string& path, std::string message) {
    const json::Position at = PositionOf(path);
    list.push_back({.at = at,
                    .offset = OffsetOf(text_, at),
                    .path = path,
                    .message = std::move(message),
                    .hides_value = true});
  }

  std::string_view text_;
  const LoadResult& loaded_;
  std::vector<Context> contexts_;
  SharedTemplateData shared_;
  std::optional<json::Value> document_;
  TemplateVerdict verdict_;
};

void AddSorted(std::vector<Problem>& to, std::vector<Problem> more) {
  std::ranges::move(more, std::back_inserter(to));
  std::ranges::stable_sort(to, {},
                           [](const Problem& p) { return std::tuple(p.at.line, p.at.column); });
}

}  // namespace

TemplateVerdict CheckTemplates(std::string_view text, const LoadResult& loaded) {
  CHECK(loaded.config.has_value(), "only a configuration that loads has templates to check");
  return Checker(text, loaded).Run();
}

LoadResult LoadChecked(std::string_view text, const config::LoadOptions& options) {
  LoadResult loaded = config::Load(text, options);
  if (!loaded.config) return loaded;
  TemplateVerdict verdict = CheckTemplates(text, loaded);
  if (!verdict.errors.empty()) loaded.config.reset();
  AddSorted(loaded.errors, std::move(verdict.errors));
  AddSorted(loaded.warnings, std::move(verdict.warnings));
  if (loaded.errors.size() > config::kMaxProblems) {
    loaded.errors_left_off += loaded.errors.size() - config::kMaxProblems;
    loaded.errors.resize(config::kMaxProblems);
  }
  if (loaded.warnings.size() > config::kMaxProblems) loaded.warnings.resize(config::kMaxProblems);
  return loaded;
}

}  // namespace nstance
