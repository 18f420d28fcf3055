// What an instance's folder says of it, and how it is written.
//
//   <root>/<instance id>/     0700
//     lock          held by the keeper for life: held = running (or being made)
//     meta.json     0600; Meta: whose it is and how it is started. Never changes
//     userdata      0700; run with the shell
//     work/         0700; where it runs, its HOME and TMPDIR
//     console.log   what it wrote; console.log.1 is the part before
//     run.json      0600; Run: written before the first instruction of the user data, and once more
//                   at the end. Not there: it never ran. The first to write it decides: a keeper
//                   that it runs, a removal (kCalledOff) that it never will
//   <root>/.new-<id>-<random>/  being made; <root>/.trash-<id>/  being removed; <root>/logs/
//
// Both files have a version; readers refuse what they do not know and ignore other keys.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "adapters/provider_local/processes.h"
#include "base/name.h"
#include "base/puidv7.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/provider.h"

namespace nstance::provider_local {

inline constexpr std::string_view kLockFile = "lock";
inline constexpr std::string_view kMetaFile = "meta.json";
inline constexpr std::string_view kRunFile = "run.json";
inline constexpr std::string_view kUserDataFile = "userdata";
inline constexpr std::string_view kConsoleFile = "console.log";
inline constexpr std::string_view kOldConsoleFile = "console.log.1";
inline constexpr std::string_view kWorkFolder = "work";
inline constexpr std::size_t kRecordLimit = std::size_t{1} << 20U;

// A run.json that names no keeper: read as the run of an instance of which nothing is known.
inline constexpr std::string_view kCalledOff = "{\"version\":1,\"called_off\":true}\n";

// Of the whole environment: variables, values and the bytes between them.
inline constexpr std::size_t kMaxEnvironmentBytes = std::size_t{128} << 10U;

struct Meta {
  InstanceId instance_id;
  std::string cluster_id = {};
  std::string shard = {};
  std::string tenant = {};
  std::string group = {};
  std::string template_name = {};
  std::string kind = {};
  std::string instance_type = {};
  std::string subnet = {};
  std::string region = {};
  std::string zone = {};
  Timestamp created_at = {};
  std::map<std::string, std::string> tags = {};
  std::string request_sha256 = {};  // Of the whole ProviderCreate.
  // How it is started; fixed at creation.
  std::string shell = {};
  std::map<std::string, std::string> environment = {};
  std::optional<Duration> run_limit = std::nullopt;
  Duration kill_grace = {};
  friend bool operator==(const Meta&, const Meta&) = default;
};

struct Run {
  ProcessName keeper = {};
  std::string boot_id = {};
  std::string pid_namespace = {};
  Timestamp started_at = {};
  // As shells tell it: 128 + n for signal n.
  std::optional<int> exit_code = std::nullopt;
  friend bool operator==(const Run&, const Run&) = default;
};

[[nodiscard]] std::string WriteMeta(const Meta& meta);
// kDataLoss when it is not what WriteMeta writes.
[[nodiscard]] Result<Meta> ParseMeta(std::string_view text);
[[nodiscard]] std::string WriteRun(const Run& run);
[[nodiscard]] Result<Run> ParseRun(std::string_view text);

// kNotFound when the file is not there.
[[nodiscard]] Result<Meta> ReadMeta(int folder);
// Nothing when it never ran.
[[nodiscard]] Result<std::optional<Run>> ReadRun(int folder);

// What `args` asks for.
struct LocalArgs {
  std::map<std::string, std::string> environment = {};
  std::optional<Duration> run_limit = std::nullopt;
};
// kInvalidArgument names the key and what is allowed.
[[nodiscard]] Result<LocalArgs> ParseArgs(const json::Object& args);
// Names of shell variables, none of them the mark; values without zero bytes.
[[nodiscard]] Status CheckEnvironment(const std::map<std::string, std::string>& environment,
                                      std::string_view where);

// Everything that a VM was asked for with, in 64 hex digits: the same request, the same digest.
[[nodiscard]] std::string RequestDigest(const ProviderCreate& request);

}  // namespace nstance::provider_local
