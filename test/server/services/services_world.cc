#include "test/server/services/services_world.h"

#include <algorithm>
#include <array>
#include <utility>

#include "adapters/rpc_codec/method_table.h"
#include "base/check.h"
#include "core/instance_config/template_check.h"
#include "core/object_layout.h"
#include "crypto/certificate_authority.h"
#include "crypto/registration_token.h"

namespace nstance::test {
namespace {

const Timestamp kWallStart = *ParseTimestamp("2026-01-01T00:00:00Z");
constexpr std::array kPorts = {RpcPort::kRegistration, RpcPort::kAgent, RpcPort::kOperator};
constexpr Duration kCaLife = Duration::Hours(80'000);
constexpr std::uint64_t kCaKeyNumber = 1'000'000;
constexpr std::string_view kTokenMark = "token=";

template <class T>
T Must(Result<T> result) {
  CHECK(result.has_value(), "{}", result.error().ToString());
  return *std::move(result);
}

ObjectKey Key(std::string_view text) { return Must(ObjectKey::Parse(text)); }

std::span<const RpcMethod> Methods() {
  static const std::vector<RpcMethod> table = Must(rpc_codec::MakeMethodTable(RpcPolicy()));
  return table;
}

crypto::PrivateKey KeyOf(std::uint64_t number) {
  std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  for (std::uint8_t& byte : std::span(seed).first(8)) {
    byte = static_cast<std::uint8_t>(number);
    number >>= 8U;
  }
  return crypto::PrivateKey::FromSeed(seed);
}

}  // namespace

bool KeepingSink::Has(std::string_view text) const {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.contains(text); });
}

// --- HookedStore ---------------------------------------------------------------------------------

Pending HookedStore::Get(const ObjectKey& key, Done<Object> done) {
  ++reads;
  if (on_read && on_read(key) != Fate::kNormal) {
    return loop_.CallAfter(
        {}, [done = std::move(done)]() mutable { done(Fail(Unavailable("the store is down"))); });
  }
  return below_.Get(key, std::move(done));
}

Pending HookedStore::Head(const ObjectKey& key, Done<ObjectHead> done) {
  ++reads;
  if (on_read && on_read(key) != Fate::kNormal) {
    return loop_.CallAfter(
        {}, [done = std::move(done)]() mutable { done(Fail(Unavailable("the store is down"))); });
  }
  return below_.Head(key, std::move(done));
}

Pending HookedStore::Put(PutRequest request, Done<ObjectVersion> done) {
  const Fate fate = on_put ? on_put(request.key) : Fate::kNormal;
  if (fate == Fate::kNotDone) {
    return loop_.CallAfter(
        {}, [done = std::move(done)]() mutable { done(Fail(Unavailable("the store is down"))); });
  }
  if (fate == Fate::kAnswerLost) {
    return below_.Put(std::move(request),
                      [done = std::move(done)](const Result<ObjectVersion>&) mutable {
                        done(Fail(Unavailable("the answer was lost").MaybeDone()));
                      });
  }
  return below_.Put(std::move(request), std::move(done));
}

Pending HookedStore::Delete(DeleteRequest request, Done<void> done) {
  return below_.Delete(std::move(request), std::move(done));
}
Pending HookedStore::List(ListRequest request, Done<ListPage> done) {
  return below_.List(std::move(request), std::move(done));
}
Pending HookedStore::PutUnconditionally(ObjectKey key, std::string bytes,
                                        Done<ObjectVersion> done) {
  return below_.PutUnconditionally(std::move(key), std::move(bytes), std::move(done));
}

// --- The world -----------------------------------------------------------------------------------

std::string ServicesConfig(const ServicesSettings& settings) {
  return R"({"server": {"cluster_id": "c1", "shard": "a", "provider": )" + settings.provider +
         R"(, "subnet_pools": {"p": ["s1", "s2"], "q": ["s3"]}, "secrets": {"provider": "memory"},
        "health_check_interval": ")" +
         settings.interval + R"(", "default_drain_timeout": "5m",
        "garbage_collection": {"registration_timeout": "30m"},
        "deletion_brake": )" +
         settings.brake + settings.more_server + R"(},
        "tenants": {"prod": {}, "dev": {}},
        "templates": {
          "t": {"kind": "wrk", "arch": "amd64", "instance_type": "small", "subnet_pool": "p",
                "vars": {"GREETING": "hello"},
                "userdata": {"content": "id={{ .Instance.ID }} token={{ .Nonce }}"}},
          "other": {"kind": "oth", "arch": "arm64", "instance_type": "large", "subnet_pool": "q",
                "allowed_instance_types": ["large", "huge"],
                "userdata": {"content": "token={{ .Nonce }}"}})" +
         settings.more_templates + R"(},
        "groups": {
          "prod": {"workers": {"template": "t", "size": 0}, "only-prod": {"template": "t", "size": 0})" +
         settings.more_groups + R"(},
          "dev": {"workers": {"template": "t", "size": 0}, "only-dev": {"template": "t", "size": 0}}}
        )" +
         settings.more_members + "}";
}

ServicesWorld::ServicesWorld(ServicesSettings with)
    : settings(std::move(with)),
      scheduler(settings.seed),
      bucket(scheduler, {.wall_start = kWallStart}),
      network(scheduler, {.methods = Methods()}),
      cloud(scheduler, {.capabilities = {.kind = settings.cloud,
                                         .max_create_time = Duration::Seconds(5),
                                         .consistency_window = {},
                                         .push_events = true},
                        .wall_start = kWallStart}),
      server_loop(scheduler, kWallStart),
      client_loop(scheduler, kWallStart),
      random(scheduler.prng().Next()),
      jitter(scheduler.prng().Next()),
      http(server_loop),
      folder(server_loop, disk, scheduler.prng().Next()),
      rows(server_loop, cache_disk),
      bare_store(bucket, server_loop, {.process = "server"}),
      store(server_loop, bare_store),
      provider(cloud, server_loop,
               {.process = "server", .cluster = kServicesCluster, .shard = kServicesShard}),
      rpc(network, server_loop, {.process = "server"}),
      dialer(network, client_loop, {.process = "client"}) {
  MakeIdentity();
  for (const config::Problem& problem : LoadChecked(ServicesConfig(settings)).errors) {
    ADD_FAILURE() << config::Format(problem, "config");
  }
  Put("config/a.jsonc", ServicesConfig(settings));
  config = std::make_unique<ConfigSource>(
      ConfigSource::Deps{.loop = server_loop,
                         .store = store,
                         .cache = folder,
                         .jitter = jitter,
                         .log = log::Logger(sink, "config"),
                         .probe = &probe},
      ConfigSource::Options{.places = {{.key = Key("config/a.jsonc")}}, .shard = kServicesShard},
      ConfigSource::Owner{});
  config->Start();
  denied = std::make_unique<DenyWatch>(
      DenyWatch::Deps{.loop = server_loop, .store = store, .log = log::Logger(sink, "deny")},
      DenyWatch::Options{.key = Key("deny/cluster.json")},
      DenyWatch::Owner{.denied = [this](const std::vector<DenyEntry>& entries) {
        if (leader != nullptr) leader->OnDenied(entries);
      }});
  denied->Start();
  CHECK(Until([this] { return config->current() != nullptr && denied->known(); }), "{}",
        config->status().last_error ? config->status().last_error->message : "");
  Lead();
}

ServicesWorld::~ServicesWorld() = default;

void ServicesWorld::MakeIdentity() {
  auto made = std::make_shared<ClusterIdentity>();
  crypto::PrivateKey ca_key = KeyOf(kCaKeyNumber);
  crypto::Certificate root =
      Must(crypto::IssueCa({.organization = {"Nstance Cluster c1"}}, ca_key,
                           {.issued_at = kWallStart - Duration::Hours(1), .life = kCaLife}));
  made->roots = {root};
  made->ca_pem = root.ToPem();
  made->nonce_key = NewKey();
  made->authority = std::make_shared<const crypto::CertificateAuthority>(
      Must(crypto::CertificateAuthority::Make(std::move(root), std::move(ca_key))));
  identity = made;
  auto material = std::make_shared<RpcTlsMaterial>();
  material->key = NewKey();
  material->chain = {Must(made->authority->IssueServer(
      {.hosts = {}}, material->key->public_key(),
      {.serial = NewSerial(), .issued_at = kWallStart, .life = Duration::Hours(8'000)}))};
  material->roots = made->roots;
  CHECK(rpc.SetTls(material).has_value());
}

void ServicesWorld::Lead() {
  StepDown();
  acting = false;
  failed.reset();
  ServerFacts facts = FactsOf(config->current()->config.server);
  facts.ca_certificate = identity->ca_pem;
  std::map<RpcPort, RpcAddress> bind;
  for (const RpcPort port : kPorts) bind[port] = {.host = "127.0.0.1"};
  leader = std::make_unique<ShardLeader>(
      ShardLeader::Deps{.loop = server_loop,
                        .store = store,
                        .cluster_store = store,
                        .provider = provider,
                        .http = http,
                        .cache = folder,
                        .random = random,
                        .jitter = jitter,
                        .metrics = metrics,
                        .probe = probe,
                        .log = log::Logger(sink, "leader"),
                        .rpc = rpc,
                        .config = *config,
                        .denied = *denied,
                        .rows = &rows},
      ShardLeader::Options{.cluster = kServicesCluster,
                           .shard = kServicesShard,
                           .holder = "server/" + std::to_string(++leaderships_),
                           .identity = identity,
                           .bind = bind,
                           .facts = std::move(facts),
                           .advertise = bind},
      ShardLeader::Owner{.may_start = [this](Duration) { return may_start; },
                         .acting =
                             [this](const std::map<RpcPort, RpcAddress>& open) {
                               addresses = open;
                               acting = true;
                             },
                         .failed = [this](const Error& error) { failed = error; },
                         .alarm = [this](std::string_view alarm,
                                         const std::string&) { alarms.emplace_back(alarm); }});
  leader->Start();
  CHECK(Until([this] { return acting || failed; }));
  CHECK(acting, "{}", failed->message);
}

void ServicesWorld::StepDown() {
  if (leader == nullptr) return;
  bool down = false;
  leader->StepDown(server_loop.Now() + Duration::Seconds(1), [&] { down = true; });
  CHECK(Until([&] { return down; }));
  leader.reset();
}

// --- Calls ---------------------------------------------------------------------------------------

ClientCallPtr ServicesWorld::Open(const RpcTls& tls, std::string_view path, CallParts parts) {
  const RpcPolicyRow* row = FindRpcPolicy(RpcPolicy(), path);
  CHECK(row != nullptr, "{}", path);
  auto call = std::make_shared<ClientCall>();
  ClientCall* at = call.get();
  bool gone = false;
  const RpcPort port = parts.port.value_or(row->port);
  call->channel = dialer.Dial({.address = addresses.at(port), .tls = tls},
                              {.state = [at, &gone](RpcChannelState state, const Status& why) {
                                if (state != RpcChannelState::kGone || at->connected) return;
                                at->end = why;
                                gone = true;
                              }});
  call->channel->Connect();
  CHECK(Until([&] { return gone || at->channel->state() == RpcChannelState::kReady; }));
  if (gone) return call;
  call->connected = true;
  call->call = call->channel->Start(
      path, {.metadata = std::move(parts.metadata)},
      {.message = [at](RpcMessage message) { at->messages.push_back(std::move(message)); },
       .end = [at](const RpcEnd& end) { at->end = end.status; }});
  return call;
}

// --- Who calls -----------------------------------------------------------------------------------

std::shared_ptr<const crypto::PrivateKey> ServicesWorld::NewKey() {
  return std::make_shared<const crypto::PrivateKey>(KeyOf(next_key_++));
}

std::shared_ptr<const crypto::PrivateKey> ServicesWorld::CaKey() {
  return std::make_shared<const crypto::PrivateKey>(KeyOf(kCaKeyNumber));
}

crypto::SerialNumber ServicesWorld::NewSerial() {
  std::array<std::uint8_t, 16> bytes{};
  random.Fill(bytes);
  return crypto::SerialNumber::FromRandom(bytes);
}

RpcTls ServicesWorld::Nobody() const {
  auto material = std::make_shared<RpcTlsMaterial>();
  material->roots = identity->roots;
  return material;
}

RpcTls ServicesWorld::Client(const crypto::ClientSubject& subject) {
  const auto key = NewKey();
  const crypto::Certificate leaf = Must(identity->authority->IssueClient(
      subject, key->public_key(),
      {.serial = NewSerial(), .issued_at = now(), .life = Duration::Hours(24)}));
  return WithCertificate(leaf.ToPem(), key);
}

RpcTls ServicesWorld::Operator(const TenantId& tenant) {
  return Client(crypto::OperatorSubject{.tenant = tenant, .id = kServicesCluster});
}

RpcTls ServicesWorld::WithCertificate(std::string_view pem,
                                      std::shared_ptr<const crypto::PrivateKey> key) const {
  auto material = std::make_shared<RpcTlsMaterial>();
  material->chain = {Must(crypto::Certificate::FromPem(pem))};
  material->key = std::move(key);
  material->roots = identity->roots;
  return material;
}

// --- Joining -------------------------------------------------------------------------------------

InstanceId ServicesWorld::NewInstance(const TenantId& tenant) {
  const Result<api::CreateInstanceResponse> made = Call(
      Operator(tenant), api::kCreateInstance, {.config = api::InstanceConfig{.group = "workers"}});
  CHECK(made.has_value(), "{}", made.error().ToString());
  InstanceId id = Must(ParsePuidv7(made->instance_id));
  const auto running = [&] {
    const std::vector<const sim::SimVm*> vms = cloud.VmsOf(id);
    return !vms.empty() && vms.front()->shown.status == ProviderStatus::kRunning;
  };
  CHECK(Until(running), "{}", id.text());
  return id;
}

std::string ServicesWorld::TokenOf(const InstanceId& id) const {
  const std::string& data = cloud.VmsOf(id).front()->request->user_data;
  return data.substr(data.find(kTokenMark) + kTokenMark.size());
}

std::string ServicesWorld::OperatorToken(const TenantId& tenant) {
  std::array<std::uint8_t, 16> id{};
  random.Fill(id);
  return crypto::SignRegistrationToken({.subject = kServicesCluster.text(),
                                        .expires_at = now() + Duration::Hours(1),
                                        .not_before = now() - crypto::kTokenBackdate,
                                        .issued_at = now() - crypto::kTokenBackdate,
                                        .token_id = Base64UrlEncode(id),
                                        .kind = crypto::TokenKind::kOperator,
                                        .config_hash = {},
                                        .cluster = kServicesCluster.text(),
                                        .shard = {},
                                        .group = {},
                                        .tenant = tenant},
                                       *identity->nonce_key);
}

crypto::RegistrationClaims ServicesWorld::AgentClaims(const TenantId& tenant,
                                                      const InstanceId& id) const {
  return {.subject = id.text(),
          .expires_at = now() + Duration::Hours(1),
          .not_before = now() - crypto::kTokenBackdate,
          .issued_at = now() - crypto::kTokenBackdate,
          .token_id = "AAAAAAAAAAAAAAAAAAAAAA",
          .kind = crypto::TokenKind::kAgent,
          .config_hash = {},
          .cluster = kServicesCluster.text(),
          .shard = kServicesShard.text(),
          .group = "workers",
          .tenant = tenant};
}

api::RegisterClientRequest ServicesWorld::JoinRequest(const std::string& token,
                                                      const crypto::PrivateKey& key) const {
  const crypto::Signature proof = crypto::SignJoinProof(key, token, kServicesCluster);
  return {.registration_nonce_jwt = token,
          .public_key_pem = key.public_key().ToPem(),
          .proof = std::string(proof.begin(), proof.end())};
}

JoinedAgent ServicesWorld::Join(const TenantId& tenant, const InstanceId& id) {
  JoinedAgent agent = {
      .id = id, .tenant = tenant, .token = TokenOf(id), .key = NewKey(), .tls = {}};
  const Result<api::RegisterClientResponse> answer =
      Call(Nobody(), api::kRegisterAgent, JoinRequest(agent.token, *agent.key));
  CHECK(answer.has_value(), "{}", answer.error().ToString());
  agent.tls = WithCertificate(answer->client_certificate_pem, agent.key);
  return agent;
}

// --- Truth ---------------------------------------------------------------------------------------

std::map<std::string, std::string> ServicesWorld::Objects() const {
  std::map<std::string, std::string> out;
  for (const ObjectKey& key : bucket.Keys()) out[key.text()] = bucket.Find(key)->bytes;
  return out;
}

std::vector<std::string> ServicesWorld::Keys(std::string_view prefix) const {
  std::vector<std::string> out;
  for (const ObjectKey& key : bucket.Keys()) {
    if (key.text().starts_with(prefix)) out.push_back(key.text());
  }
  return out;
}

InstanceRecord ServicesWorld::Record(const TenantId& tenant, const InstanceId& id) const {
  const RecordKey name = {.tenant = tenant, .instance_id = id};
  const Object* object = bucket.Find(InstanceRecordKey(kServicesShard, name));
  CHECK(object != nullptr, "{}", id.text());
  return Must(DecodeInstanceRecord(object->bytes, name));
}

void ServicesWorld::Put(std::string_view key, std::string bytes) {
  bucket.SetByHand(Key(key), std::move(bytes));
}

int ServicesWorld::Metric(std::string_view family, std::string_view label) const {
  const metrics::Snapshot snapshot = metrics.Take();
  const auto found = snapshot.find(std::string(family));
  if (found == snapshot.end()) return 0;
  double sum = 0;
  for (const metrics::Series& series : found->second.series) {
    const bool counts = label.empty() || std::ranges::any_of(series.labels, [&](const auto& value) {
                          return std::string_view(value) == label;
                        });
    if (counts) sum += series.value;
  }
  return static_cast<int>(sum);
}

}  // namespace nstance::test
