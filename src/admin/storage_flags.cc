#include "admin/storage_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "core/config/words.h"

namespace nstance::admin {
namespace {

constexpr const char* kDefaultKeyVariable = "NSTANCE_ENCRYPTION_KEY";
constexpr std::int64_t kMaxGroupSize = 10'000;

Parsed<std::optional<ClusterId>> ClusterIdOf(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const Result<ClusterId> id = ClusterId::Parse(text);
  if (!id.has_value()) return std::unexpected("--cluster-id: " + id.error().message);
  return *id;
}

Parsed<LayoutFlag> LayoutOf(const std::string& text) {
  if (text.empty() || text == "auto") return LayoutFlag::kAuto;
  if (text == "seed") return LayoutFlag::kSeed;
  if (text == "nstance-v2") return LayoutFlag::kNstanceV2;
  return std::unexpected(
      fmt::format("--layout: {} is unknown; one of: auto, seed, nstance-v2", Quote(text)));
}

Parsed<void> CheckSecrets(const StorageTexts& texts) {
  if (!texts.secrets_provider.empty() && texts.secrets_provider != "object-storage") {
    return std::unexpected(
        fmt::format("--secrets-provider: {} is not in this build; it has: object-storage",
                    Quote(texts.secrets_provider)));
  }
  if (!texts.secrets_project.empty()) {
    return std::unexpected("--secrets-project goes with --secrets-provider gcp-secret-manager");
  }
  return {};
}

Parsed<std::optional<config::EncryptionKey>> KeyOf(const Grammar& grammar,
                                                   const StorageTexts& texts) {
  if (texts.key_provider.empty() && texts.key_source.empty()) {
    if (!grammar.variable(kDefaultKeyVariable)) return std::nullopt;
    return config::EncryptionKey{.provider = config::KeyProvider::kEnv,
                                 .source = kDefaultKeyVariable};
  }
  config::EncryptionKey key{.provider = config::KeyProvider::kEnv, .source = texts.key_source};
  if (texts.key_provider == "file") {
    key.provider = config::KeyProvider::kFile;
    if (key.source.empty())
      return std::unexpected("--key-source is missing: the path of the key file");
  } else if (!texts.key_provider.empty() && texts.key_provider != "env") {
    return std::unexpected(fmt::format("--key-provider: {} is not in this build; it has: env, file",
                                       Quote(texts.key_provider)));
  }
  if (key.source.empty()) key.source = kDefaultKeyVariable;
  return key;
}

}  // namespace

void AddBucketFlags(CLI::App& app, BucketTexts& texts) {
  const auto add = [&](const char* name, std::string& text, const char* help, const char* type) {
    app.add_option(name, text, help)->type_name(type)->group("Storage");
  };
  add("--storage-provider", texts.provider,
      "file, s3 (default) or gcs (NSTANCE_ADMIN_STORAGE_PROVIDER)", "KIND");
  add("--storage-bucket", texts.bucket,
      "The bucket; with file: the folder (NSTANCE_ADMIN_STORAGE_BUCKET)", "BUCKET");
  add("--storage-prefix", texts.prefix,
      "What all keys in the bucket begin with; with layout nstance-v2, those of the cluster "
      "(cluster/) (NSTANCE_ADMIN_STORAGE_PREFIX)",
      "PREFIX");
  add("--layout", texts.layout,
      "Names of the objects: seed (this program's), nstance-v2 (those of the Go servers) or auto "
      "(default): what is there tells",
      "LAYOUT");
}

void AddStorageFlags(CLI::App& app, StorageTexts& texts) {
  AddBucketFlags(app, texts.where);
  const auto add = [&](const char* name, std::string& text, const char* help, const char* type) {
    app.add_option(name, text, help)->type_name(type)->group("Storage");
  };
  add("--cluster-id", texts.cluster_id, "Default: what config/*.jsonc in the store say", "NAME");
  add("--secrets-provider", texts.secrets_provider, "object-storage (default)", "KIND");
  add("--secrets-prefix", texts.secrets_prefix, "What names of secrets begin with (secret/)",
      "PREFIX");
  add("--secrets-project", texts.secrets_project, "Only gcp-secret-manager", "PROJECT");
  add("--key-provider", texts.key_provider,
      "Where the encryption key is: env or file; default: env, if the variable is set, else what "
      "the configurations say",
      "KIND");
  add("--key-source", texts.key_source, "The variable (NSTANCE_ENCRYPTION_KEY) or path", "SOURCE");
}

Parsed<std::optional<StorageFlags>> BucketFlagsOf(const Grammar& grammar,
                                                  const BucketTexts& texts) {
  StorageFlags flags;
  flags.bucket = FlagOr(grammar, texts.bucket, "NSTANCE_ADMIN_STORAGE_BUCKET");
  flags.prefix = FlagOr(grammar, texts.prefix, "NSTANCE_ADMIN_STORAGE_PREFIX");
  if (auto kind = FlagOr(grammar, texts.provider, "NSTANCE_ADMIN_STORAGE_PROVIDER");
      !kind.empty()) {
    flags.provider = std::move(kind);
  }
  constexpr std::array<std::string_view, 3> kKinds = {"file", "s3", "gcs"};
  if (std::ranges::find(kKinds, flags.provider) == kKinds.end()) {
    return std::unexpected(fmt::format("--storage-provider: {} is unknown; one of: {}",
                                       Quote(flags.provider), fmt::join(kKinds, ", ")));
  }
  const auto layout = LayoutOf(texts.layout);
  if (!layout) return std::unexpected(layout.error());
  flags.layout = *layout;
  if (flags.bucket.empty()) return std::nullopt;
  return flags;
}

Parsed<StorageFlags> StorageFlagsOf(const Grammar& grammar, const StorageTexts& texts) {
  auto flags = BucketFlagsOf(grammar, texts.where);
  if (!flags) return std::unexpected(flags.error());
  if (!*flags) {
    return std::unexpected(
        "--storage-bucket is missing: the bucket of the servers, or with --storage-provider file "
        "their folder (also NSTANCE_ADMIN_STORAGE_BUCKET)");
  }
  return **std::move(flags);
}

Parsed<ClusterFlags> ClusterFlagsOf(const Grammar& grammar, const StorageTexts& texts) {
  ClusterFlags flags;
  auto storage = StorageFlagsOf(grammar, texts);
  if (!storage) return std::unexpected(storage.error());
  flags.storage = *std::move(storage);
  auto cluster = ClusterIdOf(texts.cluster_id);
  if (!cluster) return std::unexpected(cluster.error());
  flags.cluster_id = *std::move(cluster);
  if (const auto secrets = CheckSecrets(texts); !secrets) return std::unexpected(secrets.error());
  flags.secrets_prefix = texts.secrets_prefix;
  auto key = KeyOf(grammar, texts);
  if (!key) return std::unexpected(key.error());
  flags.key = *std::move(key);
  return flags;
}

Parsed<std::int64_t> WholeNumberOf(std::string_view flag, std::string_view text, WholeRange range) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < range.low || number > range.high) {
    return std::unexpected(fmt::format("{}: {} is no whole number from {} to {}", flag, Quote(text),
                                       range.low, range.high));
  }
  return number;
}

Parsed<Duration> DurationWithin(std::string_view flag, std::string_view text, DurationRange range) {
  const Result<Duration> length = ParseDuration(text);
  if (!length.has_value() || *length < range.low || *length > range.high) {
    return std::unexpected(
        fmt::format("{}: {} is not within {} and {}; write for example 90s, 15m, 3h", flag,
                    Quote(text), FormatDuration(range.low), FormatDuration(range.high)));
  }
  return *length;
}

Parsed<std::vector<GroupSize>> GroupSizesOf(const std::vector<std::string>& words) {
  std::vector<GroupSize> groups;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return std::unexpected(fmt::format("--group: {} is not NAME=SIZE", Quote(word)));
    }
    const Result<GroupKey> name = GroupKey::Parse(word.substr(0, equals));
    if (!name.has_value()) return std::unexpected("--group: " + name.error().message);
    const auto size =
        WholeNumberOf("--group", word.substr(equals + 1), {.low = 0, .high = kMaxGroupSize});
    if (!size) return std::unexpected(size.error());
    if (std::ranges::find(groups, *name, &GroupSize::name) != groups.end()) {
      return std::unexpected(fmt::format("--group: {} is given twice", name->text()));
    }
    groups.push_back({.name = *name, .size = static_cast<int>(*size)});
  }
  return groups;
}

}  // namespace nstance::admin
