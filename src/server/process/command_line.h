// The command line of nstance-server (server.md 16).
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>

#include "base/name.h"
#include "core/config/config.h"

namespace nstance {

// What names objects have in the bucket (formats.md, appendix A).
enum class LayoutChoice : std::uint8_t {
  kAuto,  // kSeed, unless only a configuration of nstance-v2 is there.
  kSeed,
  kNstanceV2,
};

struct ServerCommandLine {
  std::string id = {};
  std::string shard = {};
  std::string storage = {};  // "file", "s3", "gcs".
  std::string bucket = {};
  std::string prefix = {};
  LayoutChoice layout = LayoutChoice::kAuto;
  std::string cachedir = "./cache";
  std::optional<std::string> advertise_host = std::nullopt;
  config::Advertise bind = {};
  config::Advertise advertise = {};
  std::string addresses_file = {};
  bool validate = false;
  std::string validate_file = {};  // Empty: the stored one.
  unsigned io_threads = 1;
  bool debug = false;
  bool text_logs = false;
};

// What the process prints, and how it ends.
struct ServerEnding {
  int exit_code = 0;
  std::string out = {};
  std::string err = {};
};

// `words` without the program's own name. --help and --version end with 0, what is wrong with 2.
// `libraries`: the lines of --version after its first.
[[nodiscard]] std::expected<ServerCommandLine, ServerEnding> ParseServerCommandLine(
    std::span<const std::string> words, const std::string& libraries = {});

}  // namespace nstance
