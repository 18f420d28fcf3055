// A world for the server's RPC services: one shard's leader, as it is made for the product, behind
// the simulated transport, with a bucket, a cloud and clients of every kind.
//
// Messages cross as bytes through the product's codec and certificates are real, so what a client
// sees here is what it would see over sockets, but for TLS and HTTP/2 themselves. Machines that the
// cloud starts do nothing: a test takes the token from the machine's user data and joins by itself.
//
//   ServicesWorld world;
//   const JoinedAgent agent = world.JoinNew(kProd);
//   const auto answer = world.Call(world.Operator(kProd), api::kListGroups, {});
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/log.h"
#include "ports/api/methods.h"
#include "ports/rpc_unary.h"
#include "server/leadership/shard_leader.h"
#include "sim/seeded_random.h"
#include "sim/sim_cache.h"
#include "sim/sim_cache_folder.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "sim/sim_provider.h"
#include "sim/sim_rpc.h"
#include "test/support/scripted_http.h"

namespace nstance::test {

inline const TenantId kProd = *TenantId::Parse("prod");
inline const TenantId kDev = *TenantId::Parse("dev");
inline const ClusterId kServicesCluster = *ClusterId::Parse("c1");
inline const ShardId kServicesShard = *ShardId::Parse("a");

// Every line that the server writes.
class KeepingSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return true; }
  void Write(const log::Record& record) override {
    lines.push_back(log::FormatJson(record, Timestamp::FromUnix(0)));
  }
  [[nodiscard]] bool Has(std::string_view text) const;

  std::vector<std::string> lines;
};

// The way to the bucket, with a hook that may refuse a write before it is sent, or lose its answer.
class HookedStore final : public ObjectStore {
 public:
  enum class Fate : std::uint8_t { kNormal, kNotDone, kAnswerLost };
  using Hook = std::function<Fate(const ObjectKey& key)>;

  HookedStore(Loop& loop, ObjectStore& below) : loop_(loop), below_(below) {}

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override;
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override;
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override;
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override;

  Hook on_put;   // Empty: all normal.
  Hook on_read;  // Get and Head; only kNormal and kNotDone.
  int reads = 0;

 private:
  Loop& loop_;
  ObjectStore& below_;
};

struct ServicesSettings {
  std::uint64_t seed = 1;
  // kind and what goes with it; `local` lets agents tell loopback addresses.
  std::string provider = R"({"kind": "local"})";
  std::string interval = "1h";  // server.health_check_interval.
  // server.deletion_brake; as it stands there is none.
  std::string brake = R"({"unordered": {"window": "0s"}, "ordered": {"window": "0s"}})";
  std::string more_server = {};     // Members of `server`, each with a comma in front.
  std::string more_templates = {};  // Members of `templates`, likewise.
  std::string more_groups = {};     // Members of `groups.prod`, likewise.
  std::string more_members = {};    // Members of the whole, likewise.
  config::ProviderKind cloud = config::ProviderKind::kLocal;
};

// The configuration of the world: tenants prod and dev, each with a static group `workers` of size
// zero, so that nothing happens but what a test asks for; `only-prod` and `only-dev` besides.
[[nodiscard]] std::string ServicesConfig(const ServicesSettings& settings);

struct JoinedAgent {
  InstanceId id;
  TenantId tenant;
  std::string token;
  std::shared_ptr<const crypto::PrivateKey> key;
  RpcTls tls;
};

// One call as its client sees it. The handshake's refusal is an end like any other.
struct ClientCall {
  std::unique_ptr<RpcChannel> channel = nullptr;
  std::unique_ptr<RpcCall> call = nullptr;
  std::vector<RpcMessage> messages = {};
  std::optional<Status> end = std::nullopt;
  bool connected = false;

  template <class T>
  [[nodiscard]] std::vector<T> Received() const {
    std::vector<T> out;
    for (const RpcMessage& message : messages) out.push_back(*message.As<T>());
    return out;
  }
  [[nodiscard]] bool good() const { return end.has_value() && end->has_value(); }
  // Empty: it has not ended, or well.
  [[nodiscard]] std::optional<Code> code() const {
    if (!end.has_value() || end->has_value()) return std::nullopt;
    return end->error().code;
  }
};
using ClientCallPtr = std::shared_ptr<ClientCall>;

struct CallParts {
  RpcMetadata metadata = {};
  std::optional<RpcPort> port = std::nullopt;  // Empty: where the method belongs.
};

class ServicesWorld {
 public:
  explicit ServicesWorld(ServicesSettings with = {});
  ServicesWorld(const ServicesWorld&) = delete;
  ServicesWorld& operator=(const ServicesWorld&) = delete;
  ~ServicesWorld();

  bool Until(const std::function<bool()>& done, Duration limit = Duration::Minutes(2)) {
    return scheduler.RunUntilTrue(done, limit);
  }
  void For(Duration length) { scheduler.RunFor(length); }

  // A leadership; the one before, if any, is stepped down first.
  void Lead();
  void StepDown();

  // --- Calls ---

  // Begins a call: connected, or refused, when it returns.
  ClientCallPtr Open(const RpcTls& tls, std::string_view path, CallParts parts = {});
  // A server stream with its one request.
  template <class Request, class Response>
  ClientCallPtr Watch(const RpcTls& tls, const api::Method<Request, Response>& method,
                      CallParts parts = {}) {
    ClientCallPtr call = Open(tls, method.path, std::move(parts));
    if (call->connected) call->call->Send(RpcMessage::Of(Request{}));
    Settle();
    return call;
  }
  template <class Request, class Response>
  Result<Response> Call(const RpcTls& tls, const api::Method<Request, Response>& method,
                        std::type_identity_t<Request> request, CallParts parts = {}) {
    const ClientCallPtr call = Begin(tls, method, std::move(request), std::move(parts));
    if (!Until([&] { return call->end.has_value(); })) return Fail(Internal("no answer"));
    if (!call->end->has_value()) return Fail(call->end->error());
    return *call->messages.at(0).As<Response>();
  }
  // Sent, and not waited for.
  template <class Request, class Response>
  ClientCallPtr Begin(const RpcTls& tls, const api::Method<Request, Response>& method,
                      std::type_identity_t<Request> request, CallParts parts = {}) {
    ClientCallPtr call = Open(tls, method.path, std::move(parts));
    if (call->connected) call->call->Send(RpcMessage::Of(std::move(request)));
    return call;
  }
  // Long enough for everything that is under way to arrive and be handled.
  void Settle() { For(Duration::Milliseconds(500)); }

  // --- Who calls ---

  [[nodiscard]] RpcTls Nobody() const;
  // An operator's certificate of our authority, not known to any record.
  [[nodiscard]] RpcTls Operator(const TenantId& tenant);
  // Of our authority, for any client subject.
  [[nodiscard]] RpcTls Client(const crypto::ClientSubject& subject);
  [[nodiscard]] RpcTls WithCertificate(std::string_view pem,
                                       std::shared_ptr<const crypto::PrivateKey> key) const;
  [[nodiscard]] std::shared_ptr<const crypto::PrivateKey> NewKey();
  [[nodiscard]] crypto::SerialNumber NewSerial();
  // For forgeries that our authority would not issue.
  [[nodiscard]] static std::shared_ptr<const crypto::PrivateKey> CaKey();

  // --- Joining ---

  // An on-demand instance of the tenant's `workers`, with a running machine.
  [[nodiscard]] InstanceId NewInstance(const TenantId& tenant);
  // What the machine was given.
  [[nodiscard]] std::string TokenOf(const InstanceId& id) const;
  [[nodiscard]] std::string OperatorToken(const TenantId& tenant);
  [[nodiscard]] JoinedAgent Join(const TenantId& tenant, const InstanceId& id);
  [[nodiscard]] JoinedAgent JoinNew(const TenantId& tenant) {
    return Join(tenant, NewInstance(tenant));
  }
  [[nodiscard]] api::RegisterClientRequest JoinRequest(const std::string& token,
                                                       const crypto::PrivateKey& key) const;
  [[nodiscard]] crypto::RegistrationClaims AgentClaims(const TenantId& tenant,
                                                       const InstanceId& id) const;

  // --- Truth ---

  [[nodiscard]] std::map<std::string, std::string> Objects() const;
  // Keys that begin so.
  [[nodiscard]] std::vector<std::string> Keys(std::string_view prefix) const;
  [[nodiscard]] InstanceRecord Record(const TenantId& tenant, const InstanceId& id) const;
  void Put(std::string_view key, std::string bytes);
  // Sum over the series of the family; with a text: over those that have it as a label's value.
  [[nodiscard]] int Metric(std::string_view family, std::string_view label = {}) const;
  [[nodiscard]] Timestamp now() const { return server_loop.WallNow(); }

  ServicesSettings settings;
  sim::SimScheduler scheduler;
  sim::SimBucket bucket;
  sim::SimNetwork network;
  sim::SimCloud cloud;
  sim::SimDisk disk;
  sim::SimLoop server_loop;
  sim::SimLoop client_loop;
  sim::SeededRandom random;
  Prng jitter;
  KeepingSink sink;
  metrics::Registry metrics;
  InputProbe probe{metrics};
  ScriptedHttp http;
  sim::SimCacheFolder folder;
  sim::SimCacheDisk cache_disk;
  sim::SimCache rows;
  sim::SimObjectStore bare_store;
  HookedStore store;
  sim::SimProvider provider;
  ClusterIdentityRef identity;
  sim::SimRpcServer rpc;
  sim::SimRpcDialer dialer;
  std::unique_ptr<ConfigSource> config;
  std::unique_ptr<DenyWatch> denied;
  std::unique_ptr<ShardLeader> leader;
  std::map<RpcPort, RpcAddress> addresses;
  std::vector<std::string> alarms;
  std::optional<Error> failed;
  bool may_start = true;
  bool acting = false;

 private:
  void MakeIdentity();
  std::uint64_t next_key_ = 1;
  int leaderships_ = 0;
};

}  // namespace nstance::test
