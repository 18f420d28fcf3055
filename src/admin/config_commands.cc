#include "admin/config_commands.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/preview.h"
#include "admin/print.h"
#include "base/check.h"
#include "base/json.h"
#include "core/config/load.h"
#include "core/config/problem.h"
#include "core/instance_config/template_check.h"
#include "core/template/template.h"
#include "core/template/value.h"

namespace nstance::admin {
namespace {

constexpr std::size_t kMaxDataBytes = std::size_t{4} * 1024 * 1024;

// --- Problems of a file --------------------------------------------------------------------------

struct Findings {
  std::string file;
  std::string text;
  std::vector<config::Problem> errors;
  std::size_t errors_left_off = 0;
  std::vector<config::Problem> warnings;
};

json::Value ToJson(const std::vector<config::Problem>& problems) {
  json::Array array;
  for (const config::Problem& problem : problems) {
    json::Value entry = json::Value::Map({});
    entry.Set("line", json::Value::Integer(problem.at.line));
    entry.Set("column", json::Value::Integer(problem.at.column));
    entry.Set("path", json::Value::String(problem.path));
    entry.Set("message", json::Value::String(problem.message));
    array.push_back(std::move(entry));
  }
  return json::Value::List(std::move(array));
}

std::string JsonReport(const Findings& findings) {
  json::Value report = json::Value::Map({});
  report.Set("file", json::Value::String(findings.file));
  report.Set("valid", json::Value::Bool(findings.errors.empty()));
  report.Set("errors", ToJson(findings.errors));
  report.Set("errors_left_off",
             json::Value::Integer(static_cast<std::int64_t>(findings.errors_left_off)));
  report.Set("warnings", ToJson(findings.warnings));
  return json::Write(report, {.indent = 2}) + "\n";
}

std::string Count(std::size_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string TextReport(const Findings& findings, const CommonFlags& common) {
  std::string report;
  for (const config::Problem& problem : findings.errors) {
    report += config::FormatWithExcerpt(problem, findings.file, findings.text);
  }
  if (findings.errors_left_off > 0) {
    report += fmt::format("and {} more\n", Count(findings.errors_left_off, "error"));
  }
  if (common.quiet) return report;
  for (config::Problem problem : findings.warnings) {
    problem.message.insert(0, "warning: ");
    report += config::FormatWithExcerpt(problem, findings.file, findings.text);
  }
  return report;
}

Ending NotValid(const Findings& findings, const CommonFlags& common) {
  const std::string summary =
      fmt::format("{} is not valid: {}", findings.file,
                  Count(findings.errors.size() + findings.errors_left_off, "error"));
  Ending ending = Failed(summary, "INVALID_ARGUMENT", common.output);
  if (common.output == Output::kTable) ending.err.insert(0, TextReport(findings, common));
  return ending;
}

struct Checked {
  Findings findings;
  std::optional<config::Config> config;  // Exactly when there is no error.
};

Result<Checked> Check(const std::string& file, const ReadFile& read) {
  ASSIGN_OR_RETURN(std::string text, read(file, config::kMaxConfigBytes));
  config::LoadResult loaded = LoadChecked(text);
  Checked checked{.findings = {.file = file,
                               .text = std::move(text),
                               .errors = std::move(loaded.errors),
                               .errors_left_off = loaded.errors_left_off,
                               .warnings = std::move(loaded.warnings)},
                  .config = std::move(loaded.config)};
  return checked;
}

std::string Summary(const Checked& checked) {
  std::size_t groups = 0;
  for (const auto& [tenant, of_tenant] : checked.config->groups) groups += of_tenant.size();
  const config::Server& server = checked.config->server;
  return fmt::format("{} is valid: cluster {}, shard {}, {}, {}{}\n", checked.findings.file,
                     server.cluster_id.text(), server.shard.text(),
                     Count(checked.config->templates.size(), "template"), Count(groups, "group"),
                     checked.findings.warnings.empty()
                         ? ""
                         : ", " + Count(checked.findings.warnings.size(), "warning"));
}

// Null pointer when the file has no such group.
const config::GroupLayer* FindGroup(const config::Config& config,
                                    const ConfigRenderGroup& command) {
  const auto tenant = config.groups.find(command.tenant);
  if (tenant == config.groups.end()) return nullptr;
  const auto group = tenant->second.find(command.group);
  return group == tenant->second.end() ? nullptr : &group->second;
}

Error UnknownGroup(const config::Config& config, const ConfigRenderGroup& command) {
  std::vector<std::string> names;
  for (const auto& [tenant, groups] : config.groups) {
    for (const auto& [group, layer] : groups) names.push_back(tenant.text() + "/" + group.text());
  }
  return NotFound(fmt::format("{} has no group {}/{}; its groups: {}", command.file,
                              command.tenant.text(), command.group.text(),
                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

std::string BaseName(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

Result<std::string> RenderOne(const ConfigRenderTemplate& command, const ReadFile& read) {
  ASSIGN_OR_RETURN(const std::string source, read(command.template_file, tmpl::kMaxSourceBytes));
  ASSIGN_OR_RETURN(const std::string text, read(command.data_file, kMaxDataBytes));
  const Result<json::Value> data = json::Parse(text, {.max_bytes = kMaxDataBytes});
  if (!data) return Fail(data.error().Under(command.data_file));
  ASSIGN_OR_RETURN(const tmpl::Template parsed,
                   tmpl::Template::Parse(BaseName(command.template_file), source));
  return parsed.Render(tmpl::Value::FromJson(*data));
}

}  // namespace

Ending Run(const ConfigValidate& command, const CommonFlags& common, const ReadFile& read) {
  const Result<Checked> checked = Check(command.file, read);
  if (!checked) return Failed(checked.error(), common.output);
  Ending ending = checked->config ? Ending{} : NotValid(checked->findings, common);
  if (common.output == Output::kJson) {
    ending.out = JsonReport(checked->findings);
  } else if (checked->config) {
    ending.err = TextReport(checked->findings, common);
    if (!common.quiet) ending.out = Summary(*checked);
  }
  return ending;
}

Ending Run(const ConfigConvert& command, const CommonFlags& common, const ReadFile& read) {
  const Result<Checked> checked = Check(command.file, read);
  if (!checked) return Failed(checked.error(), common.output);
  if (!checked->config) return NotValid(checked->findings, common);
  config::ConvertResult converted = config::Convert(checked->findings.text);
  CHECK(converted.text.has_value(), "what loads can be converted");
  Ending ending{.out = *std::move(converted.text)};
  if (!ending.out.ends_with('\n')) ending.out += '\n';
  if (common.output == Output::kTable) ending.err = TextReport(checked->findings, common);
  return ending;
}

Ending Run(const ConfigRenderGroup& command, const CommonFlags& common, const ReadFile& read) {
  const Result<Checked> checked = Check(command.file, read);
  if (!checked) return Failed(checked.error(), common.output);
  if (!checked->config) return NotValid(checked->findings, common);
  const config::GroupLayer* group = FindGroup(*checked->config, command);
  if (group == nullptr) return Failed(UnknownGroup(*checked->config, command), common.output);
  const Result<Preview> preview = PreviewInstance(*checked->config, *group, command);
  if (!preview) return Failed(preview.error(), common.output);
  if (common.output == Output::kJson) return {.out = JsonPreview(*preview, command.part)};
  return TextPreview(*preview, command.part);
}

Ending Run(const ConfigRenderTemplate& command, const CommonFlags& common, const ReadFile& read) {
  Result<std::string> rendered = RenderOne(command, read);
  if (!rendered) return Failed(rendered.error(), common.output);
  return {.out = *std::move(rendered)};
}

}  // namespace nstance::admin
