// Load(): the text of a configuration file in, a checked Config or everything that is wrong out.
//
//   const config::LoadResult loaded = config::Load(text, {});
//   for (const config::Problem& p : loaded.errors) Print(config::Format(p, "config/a.jsonc"));
//
// Guarantees, each held by a test:
//   - Total: any bytes in, nothing thrown; time and memory are bounded by the size limit.
//   - A Config comes out exactly when there is no error. Nothing is half-applied.
//   - All errors are told at once, the first 50 by position.
//   - Unknown, duplicate and wrongly spelled keys are errors; keys that start with `_` or `$` are
//     ignored everywhere but in maps of free names (vars, args).
//   - No value below `secrets`, `vars`, `args` or `userdata` appears in a message.
//   - The `cluster`/`shard`-rooted form gives the Config that the same values give in ours, and its
//     errors speak of the keys that the file has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_probe.h"
#include "base/json.h"
#include "base/result.h"
#include "core/config/config.h"
#include "core/config/problem.h"

namespace nstance::config {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{4} * 1024 * 1024;
inline constexpr int kMaxConfigDepth = 64;
inline constexpr std::size_t kMaxProblems = 50;

// How the store is laid out; decides the default of server.secrets.envelope.
enum class Layout : std::uint8_t { kNstance, kNstanceV2 };

struct LoadOptions {
  Layout layout = Layout::kNstance;
  InputSource source = {.interface = "config"};
};

enum class TemplateUse : std::uint8_t { kUserData, kArgs, kFile, kCertificate };

// A string of the file that is a Go template. Strings without "{{" are not listed: they are used as
// they are. User data in another encoding, or behind a URL, is not known before it is fetched.
struct TemplateSource {
  TemplateUse use = TemplateUse::kArgs;
  std::string path = {};
  json::Position at = {};
  std::string text = {};
  // Where parts of `text` begin in the file: one for a string, one per line for a list of lines,
  // none where the text was packed.
  struct Segment {
    std::size_t offset = 0;
    json::Position at = {};
  };
  std::vector<Segment> segments = {};
};

// The place in the file of byte `offset` of a template's text, escapes taken into account.
[[nodiscard]] json::Position PlaceInFile(std::string_view file_text, const TemplateSource& source,
                                         std::size_t offset);

struct LoadResult {
  std::optional<Config> config = std::nullopt;
  std::vector<Problem> errors = {};            // By position, at most kMaxProblems.
  std::size_t errors_left_off = 0;             // How many more there are.
  std::vector<Problem> warnings = {};          // By position, at most kMaxProblems.
  std::vector<TemplateSource> templates = {};  // In the order of the file; for the template parser.
};

[[nodiscard]] LoadResult Load(std::string_view text, const LoadOptions& options = {});

// Whether this configuration is meant for this server: `--shard`, and the cluster that the journal
// names once there is one.
[[nodiscard]] Status CheckIdentity(const Config& config, const ShardId& shard,
                                   const std::optional<ClusterId>& journal_cluster);

// The file in the `server`-rooted form: JSON, two-space indent, every value that was given and none
// that was not; comments are lost. The file must load.
struct ConvertResult {
  std::optional<std::string> text = std::nullopt;
  std::vector<Problem> errors = {};
};
[[nodiscard]] ConvertResult Convert(std::string_view text, const LoadOptions& options = {});

}  // namespace nstance::config
