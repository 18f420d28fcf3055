#include "admin/preview.h"

#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "admin/print.h"
#include "base/overloaded.h"
#include "core/group/group_merge.h"
#include "core/instance_config/config_hash.h"
#include "core/instance_config/merge.h"
#include "core/instance_config/template_check.h"
#include "core/instance_config/template_data.h"

namespace nstance::admin {
namespace {

InstanceFacts FactsOf(const MergedInstanceConfig& merged, const ConfigRenderGroup& command) {
  InstanceFacts facts = SampleInstance(merged.kind);
  facts.arch = merged.arch;
  facts.type = merged.instance_type;
  facts.tenant = command.tenant.text();
  facts.group = command.group.text();
  facts.vars = merged.vars;
  return facts;
}

bool Wants(RenderPart part, RenderPart what) { return part == RenderPart::kAll || part == what; }

json::Value Texts(const std::vector<std::string>& texts) {
  json::Array array;
  for (const std::string& text : texts) array.push_back(json::Value::String(text));
  return json::Value::List(std::move(array));
}

json::Value ToJson(const CertificateFile& file) {
  json::Value value = json::Value::Map({});
  const crypto::FileSubject& subject = file.subject;
  const auto add = [&](std::string_view key, const std::vector<std::string>& texts) {
    if (!texts.empty()) value.Set(key, Texts(texts));
  };
  value.Set("kind", json::Value::String("certificate"));
  value.Set("template", json::Value::String(file.certificate));
  value.Set("key", json::Value::String(file.key_name + ".pub"));
  value.Set("cn", json::Value::String(subject.common_name));
  add("organization", subject.organization);
  add("country", subject.country);
  add("province", subject.province);
  add("locality", subject.locality);
  add("street", subject.street);
  add("postal_code", subject.postal_code);
  add("dns", subject.names.dns);
  add("ip", subject.names.ip);
  add("uri", subject.names.uri);
  value.Set("ttl", json::Value::String(FormatDuration(file.ttl)));
  return value;
}

json::Value Pair(std::string_view kind, std::string_view key, std::string text) {
  json::Value value = json::Value::Map({});
  value.Set("kind", json::Value::String(std::string(kind)));
  value.Set(key, json::Value::String(std::move(text)));
  return value;
}

json::Value ToJson(const RenderedFile& file, config::FileKind kind) {
  const std::string_view word = config::Word(kind);
  return std::visit(
      Overloaded{
          [&](const TextFile& text) { return Pair(word, "content", text.content); },
          [&](const SecretFile& secret) { return Pair(word, "source", secret.name.text()); },
          [&](const StorageFile& stored) { return Pair(word, "source", stored.name.text()); },
          [](const CertificateFile& certificate) { return ToJson(certificate); },
      },
      file);
}

// Contents that are not known here are told in words.
std::string ToText(const RenderedFile& file) {
  return std::visit(Overloaded{
                        [](const TextFile& text) { return text.content; },
                        [](const SecretFile& secret) {
                          return fmt::format("(the secret {})", secret.name.text());
                        },
                        [](const StorageFile& stored) {
                          return fmt::format("(the stored object {})", stored.name.text());
                        },
                        [](const CertificateFile& certificate) {
                          return "(a certificate) " +
                                 json::Write(ToJson(certificate), {.indent = 2});
                        },
                    },
                    file);
}

std::string ArgsText(const Preview& preview) {
  return json::Write(json::Value::Map(preview.args), {.indent = 2}) + "\n";
}

// A heading, as `head` and `tail` print it, and the text with a newline at its end.
void AppendSection(std::string& out, std::string_view name, std::string_view text) {
  if (!out.empty()) out += '\n';
  out += fmt::format("==> {} <==\n{}", name, text);
  if (!out.ends_with('\n')) out += '\n';
}

std::string UrlNote(const Preview& preview) {
  return fmt::format(
      "the user data of this group is fetched from {}; render the body with "
      "`nstance-admin config render --template FILE --data FILE`",
      preview.userdata_url);
}

}  // namespace

Result<Preview> PreviewInstance(const config::Config& config, const config::GroupLayer& group,
                                const ConfigRenderGroup& command) {
  const EffectiveGroup effective{.layer = group, .is_static = true};
  ASSIGN_OR_RETURN(const config::GroupLayer layer,
                   OverlayInstance(config, effective, {.vars = command.vars}));
  ASSIGN_OR_RETURN(const MergedInstanceConfig merged, MergeInstanceConfig(config, layer));
  ASSIGN_OR_RETURN(const RenderPlan plan, RenderPlan::Compile(merged, config.certificates));
  const InstanceFacts facts = FactsOf(merged, command);
  const SharedTemplateData shared(SampleServer(config), SampleImages(config));
  const tmpl::Value data = shared.ForCreation(facts, SampleNonce());
  Preview preview{.instance_id = facts.id,
                  .tenant = facts.tenant,
                  .group = facts.group,
                  .runtime_config_hash = RuntimeConfigHash(merged),
                  .infra_config_hash = InfraConfigHash(merged)};
  if (plan.needs_fetch()) {
    preview.userdata_url = merged.userdata->content;
  } else {
    ASSIGN_OR_RETURN(preview.userdata, plan.RenderUserData(data));
  }
  ASSIGN_OR_RETURN(preview.args, plan.RenderArgs(data));
  ASSIGN_OR_RETURN(preview.files, plan.RenderFiles(shared.ForFiles(facts)));
  for (const auto& [name, file] : merged.files) preview.kinds.emplace(name, file.kind);
  return preview;
}

Ending TextPreview(const Preview& preview, RenderPart part) {
  Ending ending;
  if (part == RenderPart::kUserData) {
    if (preview.userdata) return {.out = *preview.userdata};
    return Failed(FailedPrecondition(UrlNote(preview)), Output::kTable);
  }
  if (part == RenderPart::kArgs) return {.out = ArgsText(preview)};
  if (part == RenderPart::kAll) {
    AppendSection(ending.out, "instance",
                  fmt::format("{} of {}/{}\nruntime config {}\ninfra config   {}\n",
                              preview.instance_id, preview.tenant, preview.group,
                              preview.runtime_config_hash, preview.infra_config_hash));
    AppendSection(ending.out, "userdata",
                  preview.userdata ? *preview.userdata : "(" + UrlNote(preview) + ")");
    AppendSection(ending.out, "args", ArgsText(preview));
  }
  for (const auto& [name, file] : preview.files) {
    AppendSection(ending.out, part == RenderPart::kAll ? "files/" + name : name, ToText(file));
  }
  return ending;
}

std::string JsonPreview(const Preview& preview, RenderPart part) {
  json::Value value = json::Value::Map({});
  value.Set("instance_id", json::Value::String(preview.instance_id));
  value.Set("tenant", json::Value::String(preview.tenant));
  value.Set("group", json::Value::String(preview.group));
  value.Set("runtime_config_hash", json::Value::String(preview.runtime_config_hash));
  value.Set("infra_config_hash", json::Value::String(preview.infra_config_hash));
  if (Wants(part, RenderPart::kUserData)) {
    if (preview.userdata) {
      value.Set("userdata", json::Value::String(*preview.userdata));
    } else {
      value.Set("userdata_url", json::Value::String(preview.userdata_url));
    }
  }
  if (Wants(part, RenderPart::kArgs)) value.Set("args", json::Value::Map(preview.args));
  if (Wants(part, RenderPart::kFiles)) {
    json::Value files = json::Value::Map({});
    for (const auto& [name, file] : preview.files) {
      files.Set(name, ToJson(file, preview.kinds.at(name)));
    }
    value.Set("files", std::move(files));
  }
  return json::Write(value, {.indent = 2}) + "\n";
}

}  // namespace nstance::admin
