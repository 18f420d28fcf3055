#include "server/process/server_process.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/metric_families.h"
#include "base/metrics_page.h"
#include "core/config_place.h"
#include "core/lease.h"
#include "core/nstance_v2.h"
#include "server/config_restart.h"
#include "server/inactive_features.h"
#include "server/process/process_families.h"
#include "storage/memory_secret_store.h"
#include "storage/nstance_v2_store.h"
#include "storage/object_secret_store.h"
#include "storage/prefixed_store.h"

namespace nstance {
namespace {

constexpr Duration kProbeInterval = Duration::Hours(24);
constexpr Duration kProbeRetry = Duration::Seconds(10);
constexpr Duration kTenantsRetry = Duration::Seconds(10);
constexpr Duration kAnswerAge = Duration::Seconds(30);
// A stop takes 10 s at most, whatever does not answer (faults.md I-44): these one after the other,
// and a second to spare.
constexpr Duration kLeadershipEndsWithin = Duration::Seconds(5);
// Of a leadership that was ending already when the stop came: the same, and the turns at its end.
constexpr Duration kStepDownIsWaitedFor = kLeadershipEndsWithin + Duration::Milliseconds(500);
constexpr Duration kReleasedWithin = Duration::Seconds(3);  // Both leases.
constexpr Duration kFlushedWithin = Duration::Seconds(1);

ObjectKey Key(const std::string& text) {
  Result<ObjectKey> key = ObjectKey::Parse(text);
  CHECK(key.has_value(), "{}", text);
  return std::move(key).value();
}

std::uint64_t Seed(SecureRandom& random) {
  std::array<std::uint8_t, 8> bytes{};
  random.Fill(bytes);
  std::uint64_t seed = 0;
  for (const std::uint8_t byte : bytes) seed = (seed << 8U) | byte;
  return seed;
}

config::Address Choose(const std::optional<config::Address>& flag, const config::Address& config) {
  return flag.value_or(config);
}

RpcAddress ToRpc(const config::Address& address) {
  return {.host = address.host, .port = address.port};
}

// Of layout nstance-v2.
std::string ShardScope(const ServerSettings& settings) {
  return settings.prefix.empty() ? NstanceV2ShardScope(settings.shard) : settings.prefix;
}

Result<LeaseTimings> Timings(Duration renew, Duration lease, const config::Server& server) {
  return MakeLeaseTimings({.renew = renew, .lease = lease, .store_timeout = server.store_timeout});
}

}  // namespace

std::vector<ConfigSource::Place> ConfigPlaces(const ServerSettings& settings) {
  Result<std::vector<ConfigPlace>> places =
      ConfigPlaces(settings.shard, {.prefix = settings.prefix, .shard_scope = settings.prefix});
  CHECK(places.has_value(), "{}", places.error().message);
  const auto refused = [&](const ConfigPlace& place) {
    const bool theirs = place.layout == config::Layout::kNstanceV2;
    return settings.layout == (theirs ? LayoutChoice::kSeed : LayoutChoice::kNstanceV2);
  };
  std::erase_if(*places, refused);
  return *std::move(places);
}

ServerProcess::ServerProcess(Deps deps, ServerSettings settings, Owner owner)
    : deps_(std::move(deps)),
      settings_(std::move(settings)),
      owner_(std::move(owner)),
      jitter_(Seed(deps_.random)),
      bucket_(deps_.loop, deps_.store, deps_.metrics) {}

ServerProcess::~ServerProcess() {
  leader_.reset();
  stepping_down_.clear();
}

// --- Configuration -------------------------------------------------------------------------------

void ServerProcess::Start() {
  WatchLag(deps_.loop.Now());
  waits_ = "no configuration is loaded yet";
  config_ = std::make_unique<ConfigSource>(
      ConfigSource::Deps{.loop = deps_.loop,
                         .store = bucket_,
                         .cache = deps_.cache,
                         .jitter = jitter_,
                         .log = deps_.log.For("config"),
                         .probe = &deps_.probe},
      ConfigSource::Options{.places = ConfigPlaces(settings_), .shard = settings_.shard},
      ConfigSource::Owner{.loaded = [this](const ConfigRef& config) { OnConfig(config); },
                          .status_changed =
                              [this] {
                                if (const auto& error = config_->status().last_error) {
                                  deps_.log.Warning("configuration", {{"error", *error}});
                                }
                              }});
  config_->Start();
}

void ServerProcess::OnConfig(const ConfigRef& config) {
  for (const config::Problem& problem : config->warnings) {
    deps_.log.Warning("configuration", {{"warning", config::Format(problem, "config")}});
  }
  WarnOf(config->config);
  owner_.configured(config->config);
  if (started_with_ != nullptr && started_with_->layout != config->layout) {
    return Fatal(kExitFatal, "the configuration is in another layout now: start again");
  }
  if (step_ != Step::kConfiguration || started_with_ != nullptr) return;
  started_with_ = config;
  UseLayout(config->layout);
  if (config->layout == config::Layout::kNstanceV2) return CheckTenants();
  Begin();
}

void ServerProcess::UseLayout(config::Layout layout) {
  if (layout == config::Layout::kNstanceV2) {
    deps_.log.Info("the bucket has layout nstance-v2", {{"shard", settings_.shard}});
    named_store_ = std::make_unique<NstanceV2Store>(
        deps_.loop, bucket_,
        NstanceV2Names({.shard = settings_.shard, .shard_scope = settings_.prefix}));
  } else if (!settings_.prefix.empty()) {
    named_store_ = std::make_unique<PrefixedStore>(deps_.loop, bucket_, settings_.prefix);
  }
}

void ServerProcess::CheckTenants() {
  waits_ = "tenants.jsonc is being read";
  call_ = bucket_.Get(Key(ShardScope(settings_) + "tenants.jsonc"), [this](Result<Object> object) {
    if (!object.has_value()) {
      if (object.error().code == Code::kNotFound) return Begin();
      waits_ = "tenants.jsonc cannot be read: " + object.error().message;
      call_ = deps_.loop.CallAfter(kTenantsRetry, [this] { CheckTenants(); });
      return;
    }
    const Result<std::vector<std::string>> asleep = SleepingTenants(object->bytes);
    if (!asleep.has_value()) return Fatal(kExitFatal, asleep.error().message);
    if (asleep->empty()) return Begin();
    Fatal(kExitFatal,
          fmt::format("{}tenants.jsonc: tenants are asleep ({}), and this server can neither keep "
                      "tenants asleep "
                      "nor wake them; wake them with the servers that put them to sleep, then "
                      "start again",
                      ShardScope(settings_), fmt::join(*asleep, ", ")));
  });
}

void ServerProcess::Begin() {
  step_ = Step::kProbe;
  StartElectionPages();
  const Result<config::Addresses> advertised = Advertised();
  if (!advertised.has_value()) return Fatal(kExitFatal, advertised.error().message);
  advertised_ = *advertised;
  StartProbe();
}

void ServerProcess::StartElectionPages() {
  if (deps_.election == nullptr) return;
  const auto record = [this](std::unique_ptr<Elector> ServerProcess::* which) {
    return [this, which]() -> std::optional<std::string> {
      const std::unique_ptr<Elector>& elector = this->*which;
      if (elector == nullptr || !elector->Leads()) return std::nullopt;
      return EncodeLease(elector->machine().RecordAt(deps_.loop.WallNow()));
    };
  };
  election_pages_ = std::make_unique<ElectionPages>(
      ElectionPages::Deps{
          .loop = deps_.loop, .server = *deps_.election, .log = deps_.log.For("election")},
      Bound().election_addr,
      ElectionPages::Owner{.shard = record(&ServerProcess::elector_),
                           .cluster = record(&ServerProcess::cluster_elector_),
                           .open = owner_.election_open});
  election_pages_->Start();
}

// What the file says and this process does not do: not built, or only at the next start.
void ServerProcess::WarnOf(const config::Config& config) const {
  for (const std::string& line : InactiveFeatures(config)) {
    deps_.log.Warning("configuration", {{"warning", line}});
  }
  if (started_with_ == nullptr) return;
  for (const std::string_view key : NeedsRestart(started_with_->config, config)) {
    deps_.log.Warning("configuration",
                      {{"warning", fmt::format("{}: the change needs a restart", key)}});
  }
}

// --- The store's honesty -------------------------------------------------------------------------

void ServerProcess::StartProbe() {
  if (step_ == Step::kProbe) waits_ = "the store is being probed";
  store_probe_ = std::make_unique<StoreProbeRunner>(
      StoreProbeRunner::Deps{
          .loop = deps_.loop, .endpoints = {store()}, .random = deps_.random, .jitter = jitter_},
      settings_.shard.text(), [this](const StoreProbeReport& report) { OnProbe(report); });
  store_probe_->Start();
}

void ServerProcess::ProbeAgainLater(Duration after) {
  probing_ = deps_.loop.CallAfter(after, [this] {
    // While running, only the leader probes.
    if (step_ == Step::kProbe || (leader_ != nullptr && leader_->acting())) return StartProbe();
    ProbeAgainLater(kProbeInterval);
  });
}

void ServerProcess::OnProbe(const StoreProbeReport& report) {
  if (report.verdict != ProbeVerdict::kUnreachable) {
    probe_ok_ = report.verdict != ProbeVerdict::kRefused;
  }
  if (report.verdict == ProbeVerdict::kRefused) {
    return Fatal(kExitStoreRefused,
                 fmt::format("the store does not honour conditional writes: {}", report.message));
  }
  if (report.verdict == ProbeVerdict::kUnreachable) {
    if (step_ == Step::kProbe) waits_ = "the store cannot be probed: " + report.message;
    return ProbeAgainLater(kProbeRetry);
  }
  ProbeAgainLater(kProbeInterval);
  if (step_ != Step::kProbe) return;
  step_ = Step::kSecrets;
  LoadSecrets();
}

// --- Secrets -------------------------------------------------------------------------------------

void ServerProcess::LoadSecrets() {
  if (started_with_->config.server.storage && deps_.factories.cluster_store) {
    auto made = deps_.factories.cluster_store(started_with_->config.server);
    if (!made.has_value()) return Fatal(kExitFatal, "server.storage: " + made.error().message);
    own_cluster_store_ = std::move(made).value();
    observed_cluster_store_ =
        std::make_unique<ObservedStore>(deps_.loop, *own_cluster_store_, deps_.metrics);
    if (started_with_->layout == config::Layout::kNstanceV2) {
      // Its prefix is the cluster's scope.
      named_cluster_store_ = std::make_unique<NstanceV2Store>(
          deps_.loop, *observed_cluster_store_, NstanceV2Names({.cluster_scope = {}}));
    }
  }
  const config::Secrets& secrets = started_with_->config.server.secrets;
  if (secrets.provider == config::SecretsProvider::kMemory) {
    secrets_ = std::make_unique<MemorySecretStore>(deps_.loop);
    return StartKeys();
  }
  if (secrets.provider != config::SecretsProvider::kObjectStorage || !secrets.encryption_key) {
    return Fatal(kExitFatal, "server.secrets.provider: this build knows object-storage and memory");
  }
  keys_found_.clear();
  LoadKey(0);
}

// The present key first, then those that older values may be sealed with.
void ServerProcess::LoadKey(std::size_t number) {
  const config::Secrets& secrets = started_with_->config.server.secrets;
  if (number > secrets.old_encryption_keys.size()) {
    crypto::KeyRing ring = {.current = std::move(keys_found_.front()), .old = {}};
    for (std::size_t i = 1; i < keys_found_.size(); ++i) {
      ring.old.push_back(std::move(keys_found_[i]));
    }
    keys_found_.clear();
    secrets_ = std::make_unique<ObjectSecretStore>(
        ObjectSecretStore::Deps{.loop = deps_.loop,
                                .store = cluster_store(),
                                .random = deps_.random,
                                .jitter = jitter_,
                                .metrics = deps_.metrics},
        ObjectSecretStore::Options{
            .cluster = started_with_->config.server.cluster_id,
            .prefix = secrets.prefix.empty() ? std::string("secret/") : secrets.prefix,
            .keys = std::move(ring),
            .written_form = secrets.envelope == config::Envelope::kV1
                                ? crypto::EnvelopeForm::kV1
                                : crypto::EnvelopeForm::kLegacy,
            .legacy = secrets.allow_legacy ? crypto::LegacyPolicy::kAllowed
                                           : crypto::LegacyPolicy::kRefused});
    return StartKeys();
  }
  waits_ = "the encryption key of secrets is being read";
  const config::EncryptionKey& key =
      number == 0 ? *secrets.encryption_key : secrets.old_encryption_keys[number - 1];
  Result<std::unique_ptr<KeySource>> source = deps_.factories.key_source(key);
  if (!source.has_value()) return Fatal(kExitFatal, source.error().message);
  key_source_ = std::move(source).value();
  call_ = key_source_->Load([this, number](Result<crypto::EncryptionKey> found) {
    if (!found.has_value()) {
      return Fatal(kExitFatal, found.error().message);
    }
    keys_found_.push_back(std::move(found).value());
    LoadKey(number + 1);
  });
}

// --- Cluster keys and certificates ---------------------------------------------------------------

void ServerProcess::StartKeys() {
  step_ = Step::kKeys;
  const config::Config& config = started_with_->config;
  const config::ClusterElection& election = config.server.leader_election.cluster;
  const Result<LeaseTimings> timings =
      Timings(election.renew_interval, election.lease_timeout, config.server);
  if (!timings.has_value()) return Fatal(kExitFatal, timings.error().message);
  cluster_elector_ = std::make_unique<Elector>(
      Elector::Deps{.loop = deps_.loop,
                    .store = cluster_store(),
                    .random = deps_.random,
                    .of_shard = false,
                    .boot_id = [this] { return BootId(); }},
      Key("leader/cluster.json"),
      LeaseMachine({.leader_id = settings_.shard.text() + "-" + settings_.id,
                    .leader_addr = config::FormatAddress(advertised_.election_addr),
                    .timings = *timings,
                    // All that its holder does is create-only: two of them do no harm, and a new
                    // cluster need not wait for a lease that nobody holds.
                    .bucket = BucketAge::kNew}),
      Elector::Owner{.acquired =
                         [this](std::int64_t) {
                           cluster_elector_->TakenOver();
                           if (cluster_keys_ != nullptr) cluster_keys_->Hurry();
                         },
                     .lost = [](LeaseLoss) {}});
  if (election.enabled) cluster_elector_->Start();
  crypto::CaSubject subject = {.common_name = config.certificates.ca.cn,
                               .organization = config.certificates.ca.organization};
  if (subject.organization.empty()) {
    subject.organization = {"Nstance Cluster " + config.server.cluster_id.text()};
  }
  cluster_keys_ = std::make_unique<ClusterKeys>(
      ClusterKeys::Deps{.loop = deps_.loop,
                        .store = cluster_store(),
                        .secrets = *secrets_,
                        .random = deps_.random,
                        .jitter = jitter_,
                        .log = deps_.log.For("keys")},
      ClusterKeys::Options{
          .machine = {.subject = std::move(subject), .ca_life = config.certificates.ca.ttl}},
      ClusterKeys::Owner{
          .ready = [this](ClusterIdentityRef identity) { OnKeys(std::move(identity)); },
          .failed = [this](const Error& why) { Fatal(kExitFatal, why.message); },
          .waits =
              [this](const std::optional<Error>& why) {
                if (step_ == Step::kKeys) waits_ = why ? why->message : "reading CA and token key";
              },
          .roots_changed =
              [this](ClusterIdentityRef identity) {
                identity_ = std::move(identity);
                for (const auto& certificates :
                     {certificates_.get(), election_certificates_.get()}) {
                  if (certificates == nullptr) continue;
                  const Status made = certificates->Start(identity_);
                  if (made.has_value()) continue;
                  deps_.log.Error("the server's certificate", {{"error", made.error()}});
                }
              },
          .may_create = [this] { return cluster_elector_->Leads(); }});
  cluster_keys_->Start();
  StartSweep();
}

void ServerProcess::StartSweep() {
  cluster_sweep_ = std::make_unique<ClusterSweep>(
      ClusterSweep::Deps{.loop = deps_.loop,
                         .store = store(),
                         .cluster_store = cluster_store(),
                         .log = deps_.log.For("cluster-sweep")},
      ClusterSweep::Owner{
          .leads = [this] { return cluster_elector_->Leads(); },
          .terms =
              [this] {
                const auto& terms = config_->current()->config.server.garbage_collection;
                return ClusterSweep::Terms{.interval = terms.interval,
                                           .certlog_retention = terms.certlog_retention};
              },
          .operator_removed =
              [this](const TenantId& tenant, const std::string& storage_key) {
                if (deps_.rows == nullptr) return;
                std::vector<cache::Change> changes;
                changes.emplace_back(
                    cache::EraseOperator{.tenant = tenant, .storage_key = storage_key});
                deps_.rows->Write(std::move(changes));
              }});
  cluster_sweep_->Start();
}

config::Addresses ServerProcess::Bound() const {
  const config::Addresses& bind = started_with_->config.server.bind;
  return {.health_addr = Choose(settings_.bind.health_addr, bind.health_addr),
          .election_addr = Choose(settings_.bind.election_addr, bind.election_addr),
          .registration_addr = Choose(settings_.bind.registration_addr, bind.registration_addr),
          .operator_addr = Choose(settings_.bind.operator_addr, bind.operator_addr),
          .agent_addr = Choose(settings_.bind.agent_addr, bind.agent_addr)};
}

std::map<RpcPort, RpcAddress> ServerProcess::BindAddresses() const {
  const config::Addresses bound = Bound();
  return {{RpcPort::kRegistration, ToRpc(bound.registration_addr)},
          {RpcPort::kAgent, ToRpc(bound.agent_addr)},
          {RpcPort::kOperator, ToRpc(bound.operator_addr)}};
}

// What others are told: flags, then the configuration, then what is bound.
Result<config::Addresses> ServerProcess::Advertised() const {
  config::Server server = started_with_->config.server;
  server.bind = Bound();
  const config::Advertise& flags = settings_.advertise;
  for (const auto which : {&config::Advertise::health_addr, &config::Advertise::election_addr,
                           &config::Advertise::registration_addr, &config::Advertise::operator_addr,
                           &config::Advertise::agent_addr}) {
    if (flags.*which) server.advertise.*which = flags.*which;
  }
  config::AdvertiseInputs inputs = {.primary = settings_.host,
                                    .advertise_host = settings_.advertise_host};
  // Without a network there is this host alone, and what `local` runs is on it.
  const bool alone = settings_.host.ipv4.empty() && settings_.host.ipv6.empty();
  if (alone && server.provider.kind == config::ProviderKind::kLocal) {
    inputs.primary.ipv4 = "127.0.0.1";
  }
  inputs.bound.registration_addr.port = 0;
  inputs.bound.operator_addr.port = 0;
  inputs.bound.agent_addr.port = 0;
  inputs.bound.election_addr.port = election_pages_ == nullptr ? 0 : election_pages_->port();
  return config::AdvertisedAddresses(server, inputs);
}

void ServerProcess::OnKeys(ClusterIdentityRef identity) {
  identity_ = std::move(identity);
  Result<std::unique_ptr<Provider>> provider = deps_.factories.provider(started_with_->config);
  if (!provider.has_value()) return Fatal(kExitFatal, provider.error().message);
  provider_ = std::move(provider).value();
  observed_provider_ = std::make_unique<ObservedProvider>(deps_.loop, *provider_, deps_.metrics);
  const Status made = MakeCertificates();
  if (!made.has_value()) return Fatal(kExitFatal, made.error().message);
  StartDenyWatch();
  waits_ = "the election is about to begin";
  call_ = store().Head(Key(fmt::format("journal/{}.json", settings_.shard.text())),
                       [this](const Result<ObjectHead>& head) {
                         const bool fresh =
                             !head.has_value() && head.error().code == Code::kNotFound;
                         StartElection(fresh ? BucketAge::kNew : BucketAge::kUsed);
                       });
}

Status ServerProcess::MakeCertificates() {
  certificates_ = std::make_unique<ServerCertificates>(
      ServerCertificates::Deps{
          .loop = deps_.loop, .random = deps_.random, .log = deps_.log.For("certificates")},
      ServerCertificates::Options{
          .hosts = GrpcHosts(Bound(), advertised_, provider_->capabilities().host_alias)},
      [this](RpcTls material) {
        const Status set = deps_.rpc.SetTls(std::move(material));
        if (!set.has_value()) {
          deps_.log.Error("the listeners' certificate", {{"error", set.error()}});
        }
      });
  RETURN_IF_ERROR(certificates_->Start(identity_));
  if (election_pages_ == nullptr) return {};
  election_certificates_ = std::make_unique<ServerCertificates>(
      ServerCertificates::Deps{
          .loop = deps_.loop, .random = deps_.random, .log = deps_.log.For("certificates")},
      ServerCertificates::Options{.hosts = ElectionHosts(advertised_)},
      [this](const RpcTls& material) { election_pages_->UseTls(material); });
  return election_certificates_->Start(identity_);
}

void ServerProcess::StartDenyWatch() {
  denied_ = std::make_unique<DenyWatch>(
      DenyWatch::Deps{.loop = deps_.loop,
                      .store = cluster_store(),
                      .log = deps_.log.For("deny"),
                      .probe = &deps_.probe},
      DenyWatch::Options{.key = Key("deny/cluster.json")},
      DenyWatch::Owner{.denied =
                           [this](const std::vector<DenyEntry>& entries) {
                             if (leader_ != nullptr) leader_->OnDenied(entries);
                           },
                       .alarm = [this](const Error& why) { Alarm("deny_list_old", why.message); }});
  denied_->Start();
}

// --- Leaderships ---------------------------------------------------------------------------------

void ServerProcess::StartElection(BucketAge bucket) {
  step_ = Step::kRunning;
  waits_.clear();
  const config::Server& server = started_with_->config.server;
  const Result<LeaseTimings> timings =
      Timings(server.leader_election.renew_interval, server.leader_election.lease_timeout, server);
  if (!timings.has_value()) return Fatal(kExitFatal, timings.error().message);
  elector_ = std::make_unique<Elector>(
      Elector::Deps{.loop = deps_.loop,
                    .store = store(),
                    .random = deps_.random,
                    .boot_id = [this] { return BootId(); }},
      Key(fmt::format("leader/{}.json", settings_.shard.text())),
      LeaseMachine({.leader_id = settings_.id,
                    .leader_addr = config::FormatAddress(advertised_.election_addr),
                    .timings = *timings,
                    .bucket = bucket}),
      Elector::Owner{
          .acquired = [this](std::int64_t) { Acquired(); },
          .lost = [this](LeaseLoss loss) { Lost(loss); },
          .alarm =
              [this](LeaseAlarm alarm) { Alarm("lease", std::string(LeaseAlarmName(alarm))); }});
  elector_->Start();
  incarnation_ = elector_->machine().incarnation();
  deps_.log.Info("started: standing by", {{"id", settings_.id}, {"shard", settings_.shard}});
}

std::string ServerProcess::BootId() const {
  return deps_.host == nullptr ? std::string() : deps_.host->BootId().value_or(std::string());
}

// A leadership reads records, groups and configuration by itself; rows on disk begin anew with it.
void ServerProcess::DropWhatWasSaved() {
  deps_.log.Warning("this memory is a restored one: what it knows is read again");
  incarnation_ = elector_->machine().incarnation();
  StartDenyWatch();
}

void ServerProcess::Acquired() {
  deps_.log.Info("the lease is ours: taking over");
  if (elector_->machine().incarnation() != incarnation_) DropWhatWasSaved();
  acquired_at_ = deps_.loop.Now();
  ServerFacts facts = FactsOf(started_with_->config.server);
  facts.ca_certificate = identity_->ca_pem;
  leader_ = std::make_unique<ShardLeader>(
      ShardLeader::Deps{.loop = deps_.loop,
                        .store = store(),
                        .cluster_store = cluster_store(),
                        .provider = *observed_provider_,
                        .http = deps_.http,
                        .cache = deps_.cache,
                        .random = deps_.random,
                        .jitter = jitter_,
                        .metrics = deps_.metrics,
                        .probe = deps_.probe,
                        .log = deps_.log,
                        .rpc = deps_.rpc,
                        .config = *config_,
                        .denied = *denied_,
                        .rows = deps_.rows,
                        .stopwatch = deps_.stopwatch,
                        .store_now = [this] { return bucket_.StoreNow(); },
                        .other_calls = deps_.other_calls},
      ShardLeader::Options{
          .cluster = started_with_->config.server.cluster_id,
          .shard = settings_.shard,
          .holder = settings_.id + "/" + elector_->machine().incarnation(),
          .identity = identity_,
          .bind = BindAddresses(),
          .facts = std::move(facts),
          .advertise = {{RpcPort::kRegistration, ToRpc(advertised_.registration_addr)},
                        {RpcPort::kAgent, ToRpc(advertised_.agent_addr)},
                        {RpcPort::kOperator, ToRpc(advertised_.operator_addr)}},
          .times = settings_.times,
          .store_timeout = started_with_->config.server.store_timeout,
          .send_timeout = SendTimeout(started_with_->config.server.leader_election.lease_timeout),
          .network = started_with_->config.server.leader_network,
          .request_timeout = started_with_->config.server.request_timeout,
          .steps_per_turn = settings_.steps_per_turn},
      ShardLeader::Owner{
          .may_start = [this](Duration bound) { return elector_->MayStart(bound); },
          .acting = [this](const std::map<RpcPort, RpcAddress>& open) { Acting(open); },
          .failed = [this](const Error& error) { LeaderFailed(error); },
          .alarm = [this](std::string_view alarm,
                          const std::string& detail) { Alarm(alarm, detail); }});
  // A jump that was seen while standing by counts for who leads next.
  if (expiry_paused_until_) leader_->PauseExpiry(*expiry_paused_until_);
  leader_->Start();
}

void ServerProcess::Acting(const std::map<RpcPort, RpcAddress>& addresses) {
  elector_->TakenOver();
  acting_since_ = deps_.loop.WallNow();
  deps_.metrics.Counter(LeaderChangesTotal(), {}).Add();
  deps_.metrics.Histogram(TakeOverSeconds(), {})
      .Observe(InSeconds(deps_.loop.Now() - acquired_at_));
  deps_.log.Info("acting as the shard's leader", {{"epoch", leader_->epoch()}});
  owner_.acting(leader_->epoch(), addresses);
}

void ServerProcess::Lost(LeaseLoss loss) {
  deps_.log.Warning("the lease is lost", {{"why", LeaseLossName(loss)}});
  EndLeadership([] {});
}

void ServerProcess::LeaderFailed(const Error& error) {
  deps_.log.Error("leadership ends", {{"error", error}});
  EndLeadership([this] {
    if (step_ == Step::kRunning) elector_->StepDown();
  });
}

// Calls and effects end now; the listeners and the address at the latest when `shutdown_timeout` is
// over. A process that ends has less: the leases come afterwards.
void ServerProcess::EndLeadership(Task done) {
  acting_since_.reset();
  if (leader_ == nullptr) return done();
  Duration limit = started_with_->config.server.shutdown_timeout;
  if (step_ == Step::kStopping) limit = std::min(limit, kLeadershipEndsWithin);
  const Instant deadline = deps_.loop.Now() + limit;
  const std::uint64_t number = next_step_down_++;
  ShardLeader& at = *stepping_down_.emplace(number, std::move(leader_)).first->second;
  at.StepDown(deadline, [this, number, done = std::move(done)]() mutable {
    done();
    SteppedDown(number);
  });
}

void ServerProcess::SteppedDown(std::uint64_t number) {
  // Its own callback is on the stack: it goes in a turn of its own.
  stepped_down_ = deps_.loop.CallAfter(
      {},
      [leader = std::move(stepping_down_.extract(number).mapped())]() mutable { leader.reset(); });
  if (stepping_down_.empty() && none_steps_down_) std::exchange(none_steps_down_, nullptr)();
}

void ServerProcess::WhenNoneStepsDown(Task then) {
  if (stepping_down_.empty()) return then();
  none_steps_down_ = std::move(then);
  waiting_ = deps_.loop.CallAfter(kStepDownIsWaitedFor, [this] {
    if (none_steps_down_) std::exchange(none_steps_down_, nullptr)();
  });
}

void ServerProcess::Alarm(std::string_view alarm, const std::string& detail) {
  const std::array labels = {alarm};
  deps_.metrics.Counter(AlarmsTotal(), labels).Add();
  deps_.log.Error("alarm", {{"alarm", alarm}, {"detail", detail}});
}

// --- The end -------------------------------------------------------------------------------------

void ServerProcess::Finish(int exit_code) {
  if (step_ == Step::kEnded) return;
  step_ = Step::kEnded;
  ending_ = deps_.loop.CallAfter({}, [this, exit_code] { owner_.ended(exit_code); });
}

void ServerProcess::FlushThenFinish(int exit_code) {
  if (deps_.rows == nullptr) return Finish(exit_code);
  // A disk that hangs costs rows, which the bucket has too. The timer comes first: Finish() takes
  // its place.
  ending_ = deps_.loop.CallAfter(kFlushedWithin, [this, exit_code] {
    deps_.log.Warning("the cache on disk was not flushed in time");
    Finish(exit_code);
  });
  flushing_ = deps_.rows->Flush([this, exit_code] { Finish(exit_code); });
}

void ServerProcess::Fatal(int exit_code, const std::string& why) {
  if (step_ == Step::kStopping || step_ == Step::kEnded) return;
  deps_.log.Error("fatal", {{"reason", why}, {"exit_code", exit_code}});
  waits_ = why;
  step_ = Step::kStopping;
  exit_code_ = exit_code;
  const config::ErrorExitJitter delays = started_with_ == nullptr
                                             ? config::ErrorExitJitter{}
                                             : started_with_->config.server.error_exit_jitter;
  const Duration spread = std::max(delays.max_delay - delays.min_delay, Duration());
  const Duration delay = delays.min_delay + jitter_.UpTo(spread);
  ReleaseLeases(Duration::Seconds(2), [this, exit_code, delay] {
    ending_ = deps_.loop.CallAfter(delay, [this, exit_code] { Finish(exit_code); });
  });
}

// Leadership first, then the shard's lease, then the cluster's: what they guard has ended by then.
void ServerProcess::ReleaseLeases(Duration limit, Task done) {
  EndLeadership([] {});
  WhenNoneStepsDown([this, limit, done = std::move(done)]() mutable {
    const Instant release_by = deps_.loop.Now() + limit;
    auto cluster = [this, release_by, done = std::move(done)]() mutable {
      if (cluster_elector_ == nullptr) return done();
      cluster_elector_->Stop(release_by, std::move(done));
    };
    if (elector_ == nullptr || Planted(Plant::kKeepsLeaseAtStop)) return cluster();
    elector_->Stop(release_by, std::move(cluster));
  });
}

void ServerProcess::Stop() {
  if (step_ == Step::kEnded) return;
  if (step_ == Step::kStopping) return Finish(exit_code_);  // A second signal, or a fatal error.
  step_ = Step::kStopping;
  waits_ = "stopping";
  ReleaseLeases(kReleasedWithin, [this] { FlushThenFinish(kExitStopped); });
}

// --- Pages ---------------------------------------------------------------------------------------

std::vector<std::string> ServerProcess::Problems() const {
  std::vector<std::string> out;
  if (!waits_.empty()) out.push_back(waits_);
  const std::optional<Instant> answered = bucket_.answered_at();
  if (!answered || deps_.loop.Now() - *answered > kAnswerAge) {
    out.emplace_back("the store has not answered for 30 s");
  }
  return out;
}

HttpAnswer ServerProcess::LeaderPage() const {
  const bool acting = leader_ != nullptr && leader_->acting();
  json::Object body;
  const auto add = [&](std::string key, json::Value value) {
    body.push_back({.key = std::move(key), .key_position = {}, .value = std::move(value)});
  };
  add("shard", json::Value::String(settings_.shard.text()));
  add("leader", json::Value::Bool(acting));
  add("id", json::Value::String(settings_.id));
  add("epoch", json::Value::Integer(acting ? leader_->epoch() : 0));
  add("since", json::Value::String(acting && acting_since_ ? FormatTimestamp(*acting_since_)
                                                           : std::string()));
  add("holder", json::Value::String(elector_ == nullptr
                                        ? std::string()
                                        : settings_.id + "/" +
                                              std::string(elector_->machine().incarnation())));
  return {.status = acting ? 200 : 503,
          .content_type = "application/json",
          .body = json::Write(json::Value::Map(std::move(body))) + "\n"};
}

void ServerProcess::MetricsPage(HttpReply reply) {
  const auto answer = [this](const metrics::Snapshot& more, HttpReply& to) {
    metrics::Snapshot all = Figures();
    metrics::Merge(all, more);
    to({.content_type = "text/plain; version=0.0.4; charset=utf-8",
        .body = metrics::WritePage(all)});
  };
  if (!owner_.more_metrics) return answer({}, reply);
  auto held = std::make_shared<HttpReply>(std::move(reply));
  metrics_call_ =
      owner_.more_metrics([answer, held](const metrics::Snapshot& more) { answer(more, *held); });
}

void ServerProcess::Page(const HttpQuestion& question, HttpReply reply) {
  if (question.path == "/healthz") return reply({.body = "ok\n"});
  if (question.path == "/leader/health") return reply(LeaderPage());
  if (question.path == "/metrics") return MetricsPage(std::move(reply));
  const std::vector<std::string> problems = Problems();
  if (question.path == "/readyz") {
    if (problems.empty()) return reply({.body = "ok\n"});
    return reply({.status = 503, .body = fmt::format("{}\n", fmt::join(problems, "\n"))});
  }
  // As the Go implementation answers any other path.
  if (config_ != nullptr && config_->current() != nullptr) return reply({.body = "ok"});
  reply({.status = 503, .body = "Service Unavailable\n"});
}

}  // namespace nstance
