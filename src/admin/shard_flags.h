// The flags of commands that talk to shard leaders, from texts to what they mean. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "admin/common_flags.h"
#include "admin/grammar.h"
#include "admin/shard_command.h"
#include "admin/storage_flags.h"

namespace nstance::admin {

// As they stand on the line.
struct ShardFlagTexts {
  std::string servers = {};
  std::string identity_dir = {};
  std::string shard = {};
  bool all_shards = false;
  std::string timeout = {};
  BucketTexts storage = {};
};

// Which shards a command may mean.
enum class ShardRule : std::uint8_t {
  kChosen,    // --shard or --all-shards, unless there is only one.
  kOnlyOne,   // --shard, unless there is only one.
  kAllAlike,  // All that are named: the command looks for the right one itself. --shard narrows.
};

// "dc1-zone-a=10.0.0.1:8993,dc1-zone-b=[fd00::1]:8993"; at most 256 shards, each once.
[[nodiscard]] Parsed<std::vector<ServerAddress>> ParseServers(std::string_view text);

// Flags, then their variables, then the defaults.
[[nodiscard]] Parsed<ShardFlags> ShardFlagsOf(const Grammar& grammar, const ShardFlagTexts& texts,
                                              const CommonFlags& common, ShardRule rule);

// Above zero, at most `max`. `flag` is for the message.
[[nodiscard]] Parsed<Duration> PositiveDurationOf(std::string_view flag, std::string_view text,
                                                  Duration max);
// The same from zero on.
[[nodiscard]] Parsed<Duration> DurationOf(std::string_view flag, std::string_view text,
                                          Duration max);
// Empty text: do not wait.
[[nodiscard]] Parsed<Wait> WaitOf(std::string_view text);

// 0 to `max`. `what` is for the message.
[[nodiscard]] Parsed<std::int32_t> SizeOf(std::string_view what, std::string_view text,
                                          std::int32_t max);

// `total` over so many shards: the parts differ by at most one, the larger ones first.
[[nodiscard]] std::vector<std::int32_t> Divide(std::int32_t total, std::size_t shards);

// Words of the phases of instances, separated by commas.
[[nodiscard]] Parsed<std::vector<api::InstancePhase>> PhasesOf(std::string_view text);

}  // namespace nstance::admin
