#include "core/instance_config/render_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"
#include "core/config/place.h"
#include "core/instance_config/user_data.h"

namespace nstance {
namespace {

using config::Certificate;
using config::Certificates;
using config::File;
using config::FileKind;
using config::UserData;
using tmpl::Value;

// What the server keeps for itself in the secret store.
constexpr std::array<std::string_view, 2> kReservedSecrets = {"ca.key", "registration-nonce.key"};

std::string PathOf(std::string_view root, std::string_view name) {
  std::string path(root);
  config::AppendStep(path, name);
  return path;
}

Result<std::vector<CompiledText>> CompileList(const std::string& path,
                                              const std::vector<std::string>& strings) {
  std::vector<CompiledText> list;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    ASSIGN_OR_RETURN(CompiledText text,
                     CompiledText::Compile(fmt::format("{}[{}]", path, i), strings[i]));
    list.push_back(std::move(text));
  }
  return list;
}

Result<std::vector<std::string>> RenderList(const std::vector<CompiledText>& list,
                                            const Value& data) {
  std::vector<std::string> rendered;
  for (const CompiledText& text : list) {
    ASSIGN_OR_RETURN(std::string value, text.Render(data));
    rendered.push_back(std::move(value));
  }
  return rendered;
}

// "KEY=value" lines sorted by key, without a last newline.
Result<std::string> EnvText(const json::Value& value) {
  config::StringMap sorted;
  for (const json::Member& member : *value.if_object()) {
    const std::string* const text = member.value.if_string();
    if (text == nullptr) {
      return Fail(InvalidArgument(fmt::format("{} is {}; a string", Quote(member.key),
                                              json::TypeName(member.value.type()))));
    }
    if (text->contains('\n')) {
      return Fail(InvalidArgument(
          fmt::format("the value of {} has a newline; one line", Quote(member.key))));
    }
    sorted[member.key] = *text;
  }
  std::string out;
  for (const auto& [key, text] : sorted) {
    if (!out.empty()) out += '\n';
    out.append(key).append("=").append(text);
  }
  return out;
}

Result<ObjectKey> NameOf(std::string_view rendered) {
  return Under(ObjectKey::Parse(rendered), "source");
}

}  // namespace

Result<RenderPlan> RenderPlan::Compile(const MergedInstanceConfig& merged,
                                       const Certificates& certificates) {
  ASSIGN_OR_RETURN(CompiledJson args, CompiledJson::Compile("args", json::Value::Map(merged.args)));
  RenderPlan plan(std::move(args));
  plan.template_name_ = merged.template_name;
  if (merged.userdata) RETURN_IF_ERROR(Under(plan.CompileUserData(*merged.userdata), "userdata"));
  for (const auto& [name, file] : merged.files) {
    ASSIGN_OR_RETURN(CompiledFile compiled,
                     Under(CompileFile(PathOf("files", name), file, certificates),
                           fmt::format("file {}", Quote(name))));
    plan.files_.emplace(name, std::move(compiled));
  }
  return plan;
}

Status RenderPlan::CompileUserData(const UserData& userdata) {
  encoding_ = userdata.effective_encoding();
  needs_fetch_ = userdata.effective_source() == config::UserDataSource::kUrl;
  if (needs_fetch_) return {};
  ASSIGN_OR_RETURN(const std::string text, DecodeUserData(encoding_, userdata.content));
  ASSIGN_OR_RETURN(CompiledText compiled, CompiledText::Compile("userdata", text));
  userdata_ = std::move(compiled);
  return {};
}

Result<RenderPlan::CompiledFile> RenderPlan::CompileFile(const std::string& path, const File& file,
                                                         const Certificates& certificates) {
  const json::Value content = file.content.value_or(json::Value());
  switch (file.kind) {
    case FileKind::kSecret:
    case FileKind::kStorage: {
      ASSIGN_OR_RETURN(CompiledText source, CompiledText::Compile(path + ".source", file.source));
      return CompiledFile{.kind = file.kind, .content = std::move(source)};
    }
    case FileKind::kCertificate: {
      ASSIGN_OR_RETURN(CompiledCertificate compiled, CompileCertificate(file, certificates));
      return CompiledFile{.kind = file.kind, .content = std::move(compiled)};
    }
    case FileKind::kEnv:
    case FileKind::kJson: {
      if (content.if_object() == nullptr) return Fail(InvalidArgument("template is not an object"));
      ASSIGN_OR_RETURN(CompiledJson tree, CompiledJson::Compile(path + ".template", content));
      return CompiledFile{.kind = file.kind, .content = std::move(tree)};
    }
    case FileKind::kString: break;
  }
  if (content.if_string() == nullptr) return Fail(InvalidArgument("template is not a string"));
  ASSIGN_OR_RETURN(CompiledText text,
                   CompiledText::Compile(path + ".template", *content.if_string()));
  return CompiledFile{.kind = file.kind, .content = std::move(text)};
}

Result<RenderPlan::CompiledCertificate> RenderPlan::CompileCertificate(
    const File& file, const Certificates& certificates) {
  const std::string* const text = file.content ? file.content->if_string() : nullptr;
  const std::string name = text != nullptr ? *text : "";
  const auto found = certificates.named.find(name);
  if (found == certificates.named.end()) {
    return Fail(FailedPrecondition(fmt::format("certificate {} is not defined", Quote(name))));
  }
  const Certificate& wanted = found->second;
  const std::string path = PathOf("certificates", name);
  ASSIGN_OR_RETURN(CompiledText common_name,
                   CompiledText::Compile(path + ".cn", wanted.cn.empty() ? name : wanted.cn));
  std::vector<std::vector<CompiledText>> lists;
  for (const auto& [key, strings] :
       {std::pair{".organization", &wanted.organization}, std::pair{".country", &wanted.country},
        std::pair{".province", &wanted.province}, std::pair{".locality", &wanted.locality},
        std::pair{".street", &wanted.street}, std::pair{".postal_code", &wanted.postal_code},
        std::pair{".dns", &wanted.dns}, std::pair{".ip", &wanted.ip},
        std::pair{".uri", &wanted.uri}}) {
    ASSIGN_OR_RETURN(std::vector<CompiledText> list, CompileList(path + key, *strings));
    lists.push_back(std::move(list));
  }
  std::string key_name = file.key ? file.key->name : "";
  if (key_name.ends_with(".pub")) key_name.resize(key_name.size() - 4);
  return CompiledCertificate{.name = name,
                             .kind = wanted.kind,
                             .ttl = wanted.ttl,
                             .key_name = std::move(key_name),
                             .common_name = std::move(common_name),
                             .lists = std::move(lists)};
}

Result<json::Object> RenderPlan::RenderArgs(const Value& data) const {
  ASSIGN_OR_RETURN(json::Value rendered, Under(args_.Render(data), "args"));
  return std::move(*rendered.if_object());
}

Result<std::string> RenderPlan::RenderUserData(const Value& data,
                                               std::optional<std::string_view> fetched) const {
  CHECK(fetched.has_value() == needs_fetch_, "a body is given exactly when it must be fetched");
  if (fetched) {
    ASSIGN_OR_RETURN(const std::string text,
                     Under(DecodeUserData(encoding_, *fetched), "userdata"));
    ASSIGN_OR_RETURN(const CompiledText compiled,
                     Under(CompiledText::Compile("userdata", text), "userdata"));
    return Under(compiled.Render(data), "userdata");
  }
  if (!userdata_) {
    return Fail(FailedPrecondition(
        fmt::format("userdata: missing; neither the template {} nor `defaults` has one",
                    Quote(template_name_))));
  }
  return Under(userdata_->Render(data), "userdata");
}

namespace {

Result<CertificateFile> RenderSubject(const auto& certificate, const Value& data) {
  CertificateFile file{
      .certificate = certificate.name, .ttl = certificate.ttl, .key_name = certificate.key_name};
  crypto::FileSubject& subject = file.subject;
  subject.kind = certificate.kind == config::CertificateKind::kServer
                     ? crypto::FileCertificateKind::kServer
                     : crypto::FileCertificateKind::kClient;
  ASSIGN_OR_RETURN(subject.common_name, certificate.common_name.Render(data));
  const std::array<std::vector<std::string>*, 9> targets = {
      &subject.organization, &subject.country,  &subject.province,
      &subject.locality,     &subject.street,   &subject.postal_code,
      &subject.names.dns,    &subject.names.ip, &subject.names.uri};
  for (std::size_t i = 0; i < targets.size(); ++i) {
    ASSIGN_OR_RETURN(*targets.at(i), RenderList(certificate.lists.at(i), data));
  }
  return file;
}

}  // namespace

Result<RenderedFile> RenderPlan::RenderFile(const CompiledFile& file, const Value& data) {
  if (const auto* certificate = std::get_if<CompiledCertificate>(&file.content)) {
    ASSIGN_OR_RETURN(CertificateFile rendered, RenderSubject(*certificate, data));
    return RenderedFile(std::move(rendered));
  }
  if (const auto* tree = std::get_if<CompiledJson>(&file.content)) {
    ASSIGN_OR_RETURN(const json::Value value, tree->Render(data));
    if (file.kind == FileKind::kJson) {
      return TextFile{.content =
                          json::Write(value, {.key_order = json::KeyOrder::kSorted, .indent = 2})};
    }
    ASSIGN_OR_RETURN(std::string text, EnvText(value));
    return TextFile{.content = std::move(text)};
  }
  ASSIGN_OR_RETURN(std::string text, std::get<CompiledText>(file.content).Render(data));
  if (file.kind == FileKind::kString) return TextFile{.content = std::move(text)};
  ASSIGN_OR_RETURN(ObjectKey name, NameOf(text));
  if (file.kind == FileKind::kStorage) return StorageFile{.name = std::move(name)};
  if (std::ranges::find(kReservedSecrets, name.text()) != kReservedSecrets.end()) {
    return Fail(PermissionDenied(
        fmt::format("source: {} is a key of the cluster itself; another secret", Quote(text))));
  }
  return SecretFile{.name = std::move(name)};
}

Result<RenderedFiles> RenderPlan::RenderFiles(const Value& data,
                                              const std::vector<std::string>* only) const {
  RenderedFiles rendered;
  for (const auto& [name, file] : files_) {
    if (only != nullptr && std::ranges::find(*only, name) == only->end()) continue;
    ASSIGN_OR_RETURN(RenderedFile content,
                     Under(RenderFile(file, data), fmt::format("file {}", Quote(name))));
    rendered.emplace(name, std::move(content));
  }
  return rendered;
}

}  // namespace nstance
