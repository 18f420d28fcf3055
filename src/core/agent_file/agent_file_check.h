// What an agent accepts as a file: checked by the server before it sends, by the agent before it
// writes (agent.md 6). One rule on both sides, so that nothing is sent that would be refused.
//
//   name       a base name, not starting with ".", not `write-files.last`, not `errors`, at most
//              128 bytes
//   .env       each line that is neither blank nor a # comment is KEY=..., KEY of A-Z 0-9 _
//   .crt       the first PEM block is a CERTIFICATE that parses, for `key` if there is one
//   .pub       the first PEM block is a PUBLIC KEY (SPKI)
//   .key       the first PEM block is a PRIVATE KEY (PKCS#8)
//   .json      valid JSON
//   any other  accepted (agents of the Go implementation refuse it: GoAgentAccepts())
//
// Extensions are compared without regard to case. Errors name the file and never show its content.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "crypto/ed25519.h"

namespace nstance {

inline constexpr std::size_t kMaxAgentFiles = 256;
inline constexpr std::size_t kMaxAgentFileBytes = std::size_t{3} * 1024 * 1024;
inline constexpr std::size_t kMaxAgentPatchBytes = std::size_t{16} * 1024 * 1024;
inline constexpr std::size_t kMaxAgentFileName = 128;

struct AgentFile {
  std::string_view name = {};
  std::string_view content = {};
  // .crt: the key that the instance holds under this name, if it has one.
  std::optional<crypto::PublicKey> key = std::nullopt;
};

[[nodiscard]] Status CheckAgentFileName(std::string_view name);
[[nodiscard]] bool GoAgentAccepts(std::string_view name);

// kInvalidArgument: name or content. kResourceExhausted: too long.
[[nodiscard]] Status CheckAgentFile(const AgentFile& file);
// The files of one patch: each of them, no name twice, and their number and sum. All or nothing:
// the first error is the verdict on the whole.
[[nodiscard]] Status CheckAgentPatch(std::span<const AgentFile> files);

}  // namespace nstance
