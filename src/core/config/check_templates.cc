#include <algorithm>
#include <array>
#include <string>

#include <fmt/core.h>

#include "base/text.h"
#include "core/config/check.h"
#include "core/config/provider_args.h"
#include "core/config/rule.h"
#include "core/config/words.h"
#include "core/instance_config/user_data_fetch.h"

namespace nstance::config {
namespace {

constexpr std::array<std::string_view, 5> kUsualEndings = {".env", ".crt", ".pub", ".key", ".json"};

// What a kind of file needs of `source`, `template` and `key`.
struct FileNeeds {
  FileKind kind;
  bool source;
  std::string_view content;  // Empty: none.
  bool key;
};

constexpr std::array kFileNeeds = {
    FileNeeds{FileKind::kSecret, true, "", false},
    FileNeeds{FileKind::kStorage, true, "", false},
    FileNeeds{FileKind::kCertificate, false, "the name of a certificate", true},
    FileNeeds{FileKind::kEnv, false, "an object of strings", false},
    FileNeeds{FileKind::kJson, false, "an object", false},
    FileNeeds{FileKind::kString, false, "a string", false},
};

bool IsBase64(std::string_view content) {
  std::string packed;
  for (const char c : content) {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') packed += c;
  }
  return Base64Decode(packed).has_value();
}

class UserDataCheck {
 public:
  UserDataCheck(const Place& place, const UserData& userdata, Problems& problems)
      : place_(place), userdata_(userdata), problems_(problems) {}

  void Run() const {
    const Place source = place_.Child("source");
    const Place encoding = place_.Child("encoding");
    const Place content = place_.Child("content");
    if (problems_.HasErrorAt(source) || problems_.HasErrorAt(content) || !Present(content)) return;
    if (userdata_.effective_source() == UserDataSource::kUrl) {
      CheckUrl(content);
      return;
    }
    const Place digest = place_.Child("sha256");
    if (Present(digest)) RefuseKey(problems_, digest, "only with source url");
    if (problems_.HasErrorAt(encoding)) return;
    switch (userdata_.effective_encoding()) {
      case UserDataEncoding::kGzip:
        problems_.Error(encoding, "gzip is only for source url; plain, base64 or base64+gzip");
        break;
      case UserDataEncoding::kBase64:
      case UserDataEncoding::kBase64Gzip:
        if (!IsBase64(userdata_.content)) {
          problems_.Error(content,
                          "is not base64; the standard alphabet, padded, white space "
                          "allowed");
        }
        break;
      case UserDataEncoding::kPlain: break;
    }
  }

 private:
  void CheckUrl(const Place& content) const {
    if (content.value()->if_string() == nullptr) {
      problems_.Error(content, "is a list; the URL, a string");
      return;
    }
    // A digest that is wrong has been told of already.
    const bool has_digest = Present(place_.Child("sha256"));
    const Status allowed = CheckUserDataUrl(userdata_.content, has_digest ? "given" : "");
    if (!allowed) problems_.Error(content, allowed.error().message);
  }

  const Place& place_;
  const UserData& userdata_;
  Problems& problems_;
};

class FileCheck {
 public:
  FileCheck(const Place& place, const File& file, Problems& problems)
      : place_(place), file_(file), problems_(problems) {}

  void Run(const std::vector<std::string_view>& certificates) const {
    if (!Present(place_.Child("kind")) || problems_.HasErrorAt(place_.Child("kind"))) return;
    const auto needs = std::ranges::find(kFileNeeds, file_.kind, &FileNeeds::kind);
    Exactly("source", needs->source, "a string");
    Exactly("template", !needs->content.empty(), needs->content);
    Exactly("key", needs->key, "an object with `source` and `name`");
    const Place content = place_.Child("template");
    if (needs->content.empty() || !Present(content)) return;
    if (!HasShape(*content.value())) {
      problems_.Error(content, fmt::format("is {}; {}", json::TypeName(content.value()->type()),
                                           needs->content));
      return;
    }
    if (file_.kind == FileKind::kEnv) CheckEnv(content);
    if (file_.kind == FileKind::kCertificate && !Contains(certificates, *TextAt(content))) {
      problems_.Error(content,
                      NotDefined(problems_, content, "one of `certificates`", certificates));
    }
  }

 private:
  void Exactly(std::string_view key, bool wanted, std::string_view allowed) const {
    const Place at = place_.Child(key);
    if (wanted && !Present(at)) {
      problems_.Error(at, fmt::format("missing; {}", allowed));
    } else if (!wanted && Present(at)) {
      RefuseKey(problems_, at, fmt::format("a file of kind {} has none", Word(file_.kind)));
    }
  }

  [[nodiscard]] bool HasShape(const json::Value& value) const {
    const bool object = file_.kind == FileKind::kEnv || file_.kind == FileKind::kJson;
    return object ? value.if_object() != nullptr : value.if_string() != nullptr;
  }

  void CheckEnv(const Place& content) const {
    for (const json::Member& member : MembersAt(content)) {
      const Place line = content.Child(member);
      if (member.value.if_string() == nullptr) {
        problems_.Error(line, fmt::format("is {}; a string", json::TypeName(member.value.type())));
      }
      const bool good = !member.key.empty() && std::ranges::all_of(member.key, [](char c) {
        return static_cast<unsigned char>(c) > 0x20 && c != '=' && c != '#';
      });
      if (!good) {
        problems_.ErrorAtKey(line, fmt::format("{} is not allowed as a name; no blanks, `=` or `#`",
                                               Quote(member.key)));
      }
    }
  }

  const Place& place_;
  const File& file_;
  Problems& problems_;
};

class TemplateCheck {
 public:
  explicit TemplateCheck(const Checking& checking)
      : problems_(checking.problems),
        certificates_place_(checking.root.Child("certificates")),
        server_(checking.root.Child("server")),
        pools_place_(server_.Child("subnet_pools")),
        pools_(KeysAt(pools_place_)) {
    for (const std::string_view name : KeysAt(certificates_place_)) {
      if (name != "ca" && name != "agent" && name != "operator") certificates_.push_back(name);
    }
  }

  void Run(const Place& place, const Template& entry) const {
    const Place pool = place.Child("subnet_pool");
    if (const std::string* name = TextAt(pool); name != nullptr && Present(pools_place_) &&
                                                !problems_.HasErrorAt(pool) &&
                                                !Contains(pools_, *name)) {
      problems_.Error(pool, NotDefined(problems_, pool, "one of `server.subnet_pools`", pools_));
    }
    const Place type = place.Child("instance_type");
    const auto& allowed = entry.allowed_instance_types;
    if (!allowed.empty() && !entry.instance_type.empty() &&
        std::ranges::find(allowed, entry.instance_type) == allowed.end()) {
      const std::vector<std::string_view> types(allowed.begin(), allowed.end());
      problems_.Error(type, Shown(type) + " is not in `allowed_instance_types`; " +
                                (types.size() <= kMaxListed ? OneOf(types) : "one of them"));
    }
    if (entry.userdata) UserDataCheck(place.Child("userdata"), *entry.userdata, problems_).Run();
    const Place files = place.Child("files");
    for (const json::Member& member : MembersAt(files)) {
      const auto file = entry.files.find(member.key);
      if (file != entry.files.end()) RunFile(files.Child(member), file->second);
    }
  }

 private:
  void RunFile(const Place& place, const File& file) const {
    FileCheck(place, file, problems_).Run(certificates_);
    const std::string_view name = place.key();
    if (std::ranges::any_of(kUsualEndings,
                            [&](std::string_view ending) { return name.ends_with(ending); })) {
      return;
    }
    problems_.WarnAtKey(place,
                        "agents of the Go implementation refuse files that do not end in "
                        ".env, .crt, .pub, .key or .json");
  }

  Problems& problems_;
  Place certificates_place_;
  Place server_;
  Place pools_place_;
  std::vector<std::string_view> pools_;
  std::vector<std::string_view> certificates_;
};

}  // namespace

void CheckTemplates(const Checking& checking) {
  const ProviderKind kind = checking.config.server.provider.kind;
  const Place defaults = checking.root.Child("defaults");
  if (checking.provider_known) CheckArgs(defaults.Child("args"), kind, checking.problems);
  if (checking.config.defaults.userdata) {
    UserDataCheck(defaults.Child("userdata"), *checking.config.defaults.userdata, checking.problems)
        .Run();
  }
  const TemplateCheck check(checking);
  const Place templates = checking.root.Child("templates");
  for (const json::Member& member : MembersAt(templates)) {
    const auto entry = checking.config.templates.find(member.key);
    if (entry == checking.config.templates.end()) continue;
    const Place place = templates.Child(member);
    check.Run(place, entry->second);
    if (checking.provider_known) CheckArgs(place.Child("args"), kind, checking.problems);
  }
}

}  // namespace nstance::config
