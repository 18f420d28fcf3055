#include "admin/storage/run_storage.h"

#include <memory>
#include <optional>
#include <variant>

#include "admin/print.h"
#include "admin/storage/bucket_layout.h"
#include "admin/storage/cert_commands.h"
#include "admin/storage/cluster_init.h"
#include "admin/storage/cluster_operator.h"
#include "admin/storage/secrets_commands.h"
#include "admin/storage/store_commands.h"
#include "base/check.h"

namespace nstance::admin {
namespace {

// The one shard that a command is about, if it says so.
std::optional<ShardId> ShardOf(const StorageCommand& command) {
  if (const auto* init = std::get_if<ClusterInit>(&command)) return init->shard;
  if (const auto* reset = std::get_if<StoreResetJournal>(&command)) return reset->shard;
  return std::nullopt;
}

}  // namespace

Ending RunOnBucket(const StorageCommand& command, const CommonFlags& common,
                   const StorageDeps& bucket) {
  const StorageFlags* flags = StorageOf(command);
  CHECK(flags != nullptr, "a command without a store");
  if (const auto* init = std::get_if<ClusterInit>(&command)) {
    const Status prepared = PrepareBucket(*init, bucket);
    if (!prepared.has_value()) return Failed(prepared.error(), common.output);
  }
  Result<config::Layout> layout = FindLayout(bucket, *flags, ShardOf(command));
  // What a store does wrong is what the probe is to tell, rule by rule.
  if (!layout.has_value() && std::holds_alternative<StoreProbeOrder>(command)) {
    layout = config::Layout::kNstance;
  }
  if (!layout.has_value()) return Failed(layout.error(), common.output);
  const Result<std::unique_ptr<ObjectStore>> store =
      NameBucket(bucket.loop, bucket.store, *flags, *layout);
  if (!store.has_value()) return Failed(store.error(), common.output);
  const StorageDeps deps{.loop = bucket.loop,
                         .turns = bucket.turns,
                         .store = **store,
                         .random = bucket.random,
                         .machine = bucket.machine,
                         .key_source = bucket.key_source,
                         .log = bucket.log,
                         .note = bucket.note,
                         .layout = *layout};
  return std::visit(
      [&](const auto& one) -> Ending {
        if constexpr (requires { Run(one, common, deps); }) {
          return Run(one, common, deps);
        } else {
          return Run(one, common);
        }
      },
      command);
}

}  // namespace nstance::admin
