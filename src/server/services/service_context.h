// ServiceContext: what the handlers of RPCs work with, for one leadership.
//
// Handlers hold references to it and are destroyed before it; when leadership ends they go first,
// and every call that is still open ends with UNAVAILABLE.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/input_probe.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/prng.h"
#include "core/cluster_keys_machine.h"
#include "ports/cache.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/rpc.h"
#include "ports/secure_random.h"
#include "server/config_source.h"
#include "server/deny_watch.h"
#include "server/fleet/alarm.h"
#include "server/fleet/fleet.h"
#include "server/group_source.h"
#include "server/type_archs.h"
#include "storage/certificate_issuer.h"
#include "storage/leader_scope.h"

namespace nstance {

// Takes a call that has passed the gate and has no handler among the services, or hands it back.
using OtherCalls =
    std::function<std::unique_ptr<RpcServerCall>(std::unique_ptr<RpcServerCall> call)>;

struct ServiceContext {
  Loop& loop;
  ObjectStore& store;          // Of the shard.
  ObjectStore& cluster_store;  // Of the cluster's objects.
  SecureRandom& random;
  Prng& jitter;
  log::Logger log;
  InputSource source;
  LeaderScope& leader;
  Fleet& fleet;
  GroupSource& groups;
  TypeArchs& types;
  ConfigSource& config;
  const DenyWatch& denied;
  CertificateIssuer& issuer;
  ClusterIdentityRef identity;
  ClusterId cluster;
  ShardId shard;
  std::function<void(const Alarm&)> alarm;
  // Null: nothing is counted.
  metrics::Registry* metrics = nullptr;
  // The cache on this machine's disk; null: none is kept.
  Cache* rows = nullptr;
  OtherCalls other_calls = {};
};

// What was refused before anything was done: one line in the log and one in
// bad_input_total{interface,reason}. The reason is a word of ours. Returns the error.
[[nodiscard]] Error BadInput(const ServiceContext& context, std::string_view reason, Error error);

// What most operator methods answer to an id that is not of the caller's tenant, or of nobody.
[[nodiscard]] inline Error NoSuchInstance() { return NotFound("there is no such instance"); }

// The instance that the message names. kInvalidArgument: not an id.
[[nodiscard]] Result<InstanceId> ParseInstanceId(std::string_view text);

}  // namespace nstance
