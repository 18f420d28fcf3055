// RenderPlan: everything of a merged instance configuration that holds templates, parsed. One plan
// per group and configuration; rendered for each of its instances.
//
//   ASSIGN_OR_RETURN(const RenderPlan plan, RenderPlan::Compile(merged, config.certificates));
//   ASSIGN_OR_RETURN(const std::string userdata, plan.RenderUserData(creation_data));
//   ASSIGN_OR_RETURN(const RenderedFiles files, plan.RenderFiles(files_data));
//
// Guarantees, each held by a test:
//   - the result depends on the merged configuration and the data alone
//   - files are all or nothing; an error names the file
//   - the content of a file is what Go's encoders write: env lines sorted by key without quoting, a
//     value with a newline is an error; JSON with two-space indent and sorted keys
//   - a rendered name of a secret or stored object cannot leave its place, nor name the keys of the
//     cluster itself, whatever the variables of a tenant say
//
// Data comes from template_data.h: ForCreation() for user data and args, ForFiles() for files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "core/config/config.h"
#include "core/instance_config/compiled_text.h"
#include "core/instance_config/merge.h"
#include "core/object_key.h"
#include "core/template/value.h"
#include "crypto/certificate_authority.h"

namespace nstance {

// Kinds env, json and string: the bytes.
struct TextFile {
  std::string content = {};
  friend bool operator==(const TextFile&, const TextFile&) = default;
};
// Kind secret: a name in the secret store.
struct SecretFile {
  ObjectKey name;
  friend bool operator==(const SecretFile&, const SecretFile&) = default;
};
// Kind storage: a name below `file/`.
struct StorageFile {
  ObjectKey name;
  friend bool operator==(const StorageFile&, const StorageFile&) = default;
};
// Kind certificate: what to issue, for the agent's public key of that name.
struct CertificateFile {
  std::string certificate = {};  // Name in `certificates`.
  crypto::FileSubject subject = {};
  Duration ttl = {};
  std::string key_name = {};  // "<base>": without .pub.
};

using RenderedFile = std::variant<TextFile, SecretFile, StorageFile, CertificateFile>;
using RenderedFiles = std::map<std::string, RenderedFile>;

class RenderPlan final {
 public:
  // kInvalidArgument: a template that does not parse, user data that does not decode.
  // kFailedPrecondition: a certificate that is not defined.
  [[nodiscard]] static Result<RenderPlan> Compile(const MergedInstanceConfig& merged,
                                                  const config::Certificates& certificates);

  [[nodiscard]] Result<json::Object> RenderArgs(const tmpl::Value& data) const;

  // Whether the user data is behind a URL, and must be fetched before it can be rendered.
  [[nodiscard]] bool needs_fetch() const { return needs_fetch_; }
  // `fetched` is the body as it came from the URL. kFailedPrecondition: there is no user data at
  // all. REQUIRES: `fetched` is given exactly when needs_fetch().
  [[nodiscard]] Result<std::string> RenderUserData(
      const tmpl::Value& data, std::optional<std::string_view> fetched = std::nullopt) const;

  // All files of the template, or those of the list (the warm files of a pool).
  [[nodiscard]] Result<RenderedFiles> RenderFiles(
      const tmpl::Value& data, const std::vector<std::string>* only = nullptr) const;

 private:
  struct CompiledCertificate {
    std::string name;
    config::CertificateKind kind = config::CertificateKind::kClient;
    Duration ttl;
    std::string key_name;
    CompiledText common_name;
    // In the order of the members of FileSubject.
    std::vector<std::vector<CompiledText>> lists;
  };
  struct CompiledFile {
    config::FileKind kind = config::FileKind::kString;
    std::variant<CompiledText, CompiledJson, CompiledCertificate> content;
  };

  explicit RenderPlan(CompiledJson args) : args_(std::move(args)) {}

  Status CompileUserData(const config::UserData& userdata);
  [[nodiscard]] static Result<CompiledFile> CompileFile(const std::string& path,
                                                        const config::File& file,
                                                        const config::Certificates& certificates);
  [[nodiscard]] static Result<CompiledCertificate> CompileCertificate(
      const config::File& file, const config::Certificates& certificates);
  [[nodiscard]] static Result<RenderedFile> RenderFile(const CompiledFile& file,
                                                       const tmpl::Value& data);

  std::string template_name_;
  CompiledJson args_;
  std::optional<CompiledText> userdata_;
  config::UserDataEncoding encoding_ = config::UserDataEncoding::kPlain;
  bool needs_fetch_ = false;
  std::map<std::string, CompiledFile> files_;
};

}  // namespace nstance
