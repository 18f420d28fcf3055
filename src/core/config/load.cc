#include "core/config/load.h"

#include <charconv>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"
#include "core/config/check.h"
#include "core/config/document.h"
#include "core/config/normal_form.h"
#include "core/config/place.h"
#include "core/config/problems.h"
#include "core/config/rule.h"
#include "core/config/schema.h"
#include "core/config/template_sources.h"

namespace nstance::config {
namespace {

// A document that has been read, in its normal form.
struct Loaded {
  std::optional<json::Value> document;
  LoadResult result;
};

// Reads and checks; false when there is no object to check.
std::optional<Config> Read(json::Value& document, Problems& problems, const LoadOptions& options) {
  if (document.if_object() == nullptr) {
    problems.Error(Place(document),
                   fmt::format("is {}; an object", json::TypeName(document.type())));
    return std::nullopt;
  }
  if (!NormalForm(document, problems)) return std::nullopt;
  const Place root(document);
  Config config = Fresh<Config>();
  Reading reading = {.problems = problems};
  ReadObject(reading, root, ConfigSpec(), &config);
  FillDefaults(config, root, options.layout);
  const Checking checking = {.root = root,
                             .config = config,
                             .problems = problems,
                             .provider_known = IsProviderKnown(root)};
  CheckServer(checking);
  CheckBalancersAndImages(checking);
  CheckCertificates(checking);
  CheckTemplates(checking);
  CheckGroups(checking);
  return config;
}

Loaded LoadDocument(std::string_view text, const LoadOptions& options) {
  Loaded loaded;
  Problems problems;
  loaded.document = ParseDocument(text, options.source, problems);
  if (loaded.document) {
    std::optional<Config> config = Read(*loaded.document, problems, options);
    if (config && problems.error_count() == 0) {
      loaded.result.templates = TemplateSources(Place(*loaded.document), *config, problems);
      loaded.result.config = std::move(config);
    }
  }
  const std::size_t total = problems.error_count();
  loaded.result.errors = problems.TakeErrors(text);
  loaded.result.errors_left_off = total - loaded.result.errors.size();
  loaded.result.warnings = problems.TakeWarnings(text);
  return loaded;
}

}  // namespace

LoadResult Load(std::string_view text, const LoadOptions& options) {
  return LoadDocument(text, options).result;
}

ConvertResult Convert(std::string_view text, const LoadOptions& options) {
  Loaded loaded = LoadDocument(text, options);
  ConvertResult result = {.text = std::nullopt, .errors = std::move(loaded.result.errors)};
  if (loaded.result.config) result.text = json::Write(*loaded.document, {.indent = 2}) + "\n";
  return result;
}

Status CheckIdentity(const Config& config, const ShardId& shard,
                     const std::optional<ClusterId>& journal_cluster) {
  const Server& server = config.server;
  if (server.shard != shard) {
    return Fail(FailedPrecondition(
        fmt::format("server.shard: {} is not the shard of this server; {} (--shard)",
                    Quote(server.shard.text()), shard.text())));
  }
  if (journal_cluster && server.cluster_id != *journal_cluster) {
    return Fail(FailedPrecondition(
        fmt::format("server.cluster_id: {} is not the cluster of this store; {} (its journal)",
                    Quote(server.cluster_id.text()), journal_cluster->text())));
  }
  return {};
}

}  // namespace nstance::config
