// The flags of commands that work on the object store, from texts to what they mean. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "admin/grammar.h"
#include "admin/storage_command.h"

namespace nstance::admin {

// Which store, as it stands on the line.
struct BucketTexts {
  std::string provider = {};
  std::string bucket = {};
  std::string prefix = {};
  std::string layout = {};
};

// As they stand on the line.
struct StorageTexts {
  BucketTexts where = {};
  std::string cluster_id = {};
  std::string secrets_provider = {};
  std::string secrets_prefix = {};
  std::string secrets_project = {};
  std::string key_provider = {};
  std::string key_source = {};
};

// Those that name a store.
void AddBucketFlags(CLI::App& app, BucketTexts& texts);
void AddStorageFlags(CLI::App& app, StorageTexts& texts);

// Flags, then their variables, then the defaults. Nothing: no bucket is named.
[[nodiscard]] Parsed<std::optional<StorageFlags>> BucketFlagsOf(const Grammar& grammar,
                                                                const BucketTexts& texts);
[[nodiscard]] Parsed<StorageFlags> StorageFlagsOf(const Grammar& grammar,
                                                  const StorageTexts& texts);
[[nodiscard]] Parsed<ClusterFlags> ClusterFlagsOf(const Grammar& grammar,
                                                  const StorageTexts& texts);

struct WholeRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
};
// `flag` is for the message.
[[nodiscard]] Parsed<std::int64_t> WholeNumberOf(std::string_view flag, std::string_view text,
                                                 WholeRange range);

struct DurationRange {
  Duration low = {};
  Duration high = {};
};
[[nodiscard]] Parsed<Duration> DurationWithin(std::string_view flag, std::string_view text,
                                              DurationRange range);

// "workers=3", repeated; each name once.
[[nodiscard]] Parsed<std::vector<GroupSize>> GroupSizesOf(const std::vector<std::string>& words);

}  // namespace nstance::admin
