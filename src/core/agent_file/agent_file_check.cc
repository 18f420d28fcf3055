#include "core/agent_file/agent_file_check.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <fmt/core.h>

#include "base/json.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "crypto/key_shape.h"
#include "crypto/pem.h"
#include "crypto/secret.h"

namespace nstance {
namespace {

// ".ENV" of "node.ENV" as ".env"; empty without a dot.
std::string ExtensionOf(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string extension(name.substr(dot));
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return extension;
}

std::string_view TrimLeft(std::string_view line) {
  const std::size_t start = line.find_first_not_of(" \t\r\v\f");
  return start == std::string_view::npos ? std::string_view() : line.substr(start);
}

bool IsEnvKey(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Status CheckEnv(std::string_view text) {
  std::size_t number = 1;
  for (std::string_view rest = text; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = TrimLeft(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return Fail(InvalidArgument(fmt::format("line {} has no =; KEY=value", number)));
    }
    if (!IsEnvKey(line.substr(0, equals))) {
      return Fail(InvalidArgument(
          fmt::format("line {} has a key with other characters; A-Z, 0-9 and _", number)));
    }
  }
  return {};
}

Status CheckCertificate(const AgentFile& file) {
  ASSIGN_OR_RETURN(const Bytes der, crypto::ReadFirstPem(file.content, crypto::kCertificatePem));
  ASSIGN_OR_RETURN(const crypto::Certificate certificate, crypto::Certificate::FromDer(der));
  if (file.key && certificate.facts().public_key != file.key) {
    return Fail(InvalidArgument("the certificate is for another key; the instance's own"));
  }
  return {};
}

Status CheckPublicKey(std::string_view text) {
  ASSIGN_OR_RETURN(const Bytes der, crypto::ReadFirstPem(text, crypto::kPublicKeyPem));
  return crypto::CheckSpkiShape(der);
}

Status CheckPrivateKey(std::string_view text) {
  // Keys of other algorithms are longer than ours.
  constexpr crypto::PemKind kAnyKey = {.label = "PRIVATE KEY", .max_bytes = std::size_t{64} * 1024};
  ASSIGN_OR_RETURN(Bytes der, crypto::ReadFirstPem(text, kAnyKey));
  const Status status = crypto::CheckPkcs8Shape(der);
  crypto::Wipe(der);
  return status;
}

Status CheckJson(std::string_view text) {
  std::vector<json::DuplicateKey> duplicates;  // Valid JSON all the same.
  ASSIGN_OR_RETURN([[maybe_unused]] const json::Value value,
                   json::Parse(text, {.max_bytes = kMaxAgentFileBytes,
                                      .max_depth = json::kMaxDepth,
                                      .duplicates = &duplicates}));
  return {};
}

Status CheckContent(const AgentFile& file) {
  const std::string extension = ExtensionOf(file.name);
  if (extension == ".env") return CheckEnv(file.content);
  if (extension == ".crt") return CheckCertificate(file);
  if (extension == ".pub") return CheckPublicKey(file.content);
  if (extension == ".key") return CheckPrivateKey(file.content);
  if (extension == ".json") return CheckJson(file.content);
  return {};
}

}  // namespace

Status CheckAgentFileName(std::string_view name) {
  const bool is_base_name =
      !name.empty() && name.size() <= kMaxAgentFileName && name.front() != '.' &&
      std::ranges::none_of(name, [](char c) {
        return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
      });
  if (is_base_name && IsValidUtf8(name) && name != "write-files.last" && name != "errors") {
    return {};
  }
  return Fail(InvalidArgument(fmt::format(
      "{} is not a file name; a base name of 1 to {} bytes, not starting with \".\", not "
      "write-files.last, not errors",
      Quote(name), kMaxAgentFileName)));
}

bool GoAgentAccepts(std::string_view name) {
  constexpr std::array<std::string_view, 5> kKnown = {".env", ".crt", ".pub", ".key", ".json"};
  return std::ranges::find(kKnown, ExtensionOf(name)) != kKnown.end();
}

Status CheckAgentFile(const AgentFile& file) {
  RETURN_IF_ERROR(CheckAgentFileName(file.name));
  if (file.content.size() > kMaxAgentFileBytes) {
    return Fail(ResourceExhausted(fmt::format("file {} has {} bytes; at most {}", Quote(file.name),
                                              file.content.size(), kMaxAgentFileBytes)));
  }
  return Under(CheckContent(file), fmt::format("file {}", Quote(file.name)));
}

Status CheckAgentPatch(std::span<const AgentFile> files) {
  if (files.size() > kMaxAgentFiles) {
    return Fail(ResourceExhausted(
        fmt::format("a patch of {} files; at most {}", files.size(), kMaxAgentFiles)));
  }
  std::size_t bytes = 0;
  std::set<std::string_view> names;
  for (const AgentFile& file : files) {
    if (!names.insert(file.name).second) {
      return Fail(InvalidArgument(fmt::format("file {} is there twice; once", Quote(file.name))));
    }
    bytes += file.content.size();
  }
  if (bytes > kMaxAgentPatchBytes) {
    return Fail(ResourceExhausted(
        fmt::format("a patch of {} bytes; at most {}", bytes, kMaxAgentPatchBytes)));
  }
  for (const AgentFile& file : files) RETURN_IF_ERROR(CheckAgentFile(file));
  return {};
}

}  // namespace nstance
