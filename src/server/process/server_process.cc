#include "server/process/server_process.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/metric_families.h"
#include "base/metrics_page.h"
#include "server/config_restart.h"
#include "server/inactive_features.h"
#include "server/process/process_families.h"
#include "storage/memory_secret_store.h"
#include "storage/object_secret_store.h"

namespace nstance {
namespace {

constexpr Duration kProbeInterval = Duration::Hours(24);
constexpr Duration kProbeRetry = Duration::Seconds(10);
constexpr Duration kAnswerAge = Duration::Seconds(30);

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

Result<LeaseTimings> Timings(Duration renew, Duration lease, const config::Server& server) {
  return MakeLeaseTimings({.renew = renew, .lease = lease, .store_timeout = server.store_timeout});
}

}  // namespace

ServerProcess::ServerProcess(Deps deps, ServerSettings settings, Owner owner)
    : deps_(std::move(deps)),
      settings_(std::move(settings)),
      owner_(std::move(owner)),
      jitter_(Seed(deps_.random)),
      store_(deps_.loop, deps_.store, deps_.metrics) {}

ServerProcess::~ServerProcess() { leader_.reset(); }

// --- Configuration -------------------------------------------------------------------------------

void ServerProcess::Start() {
  WatchLag(deps_.loop.Now());
  waits_ = "no configuration is loaded yet";
  config_ = std::make_unique<ConfigSource>(
      ConfigSource::Deps{.loop = deps_.loop,
                         .store = store_,
                         .cache = deps_.cache,
                         .jitter = jitter_,
                         .log = deps_.log.For("config"),
                         .probe = &deps_.probe},
      ConfigSource::Options{
          .places = {{.key = Key(fmt::format("config/{}.jsonc", settings_.shard.text())),
                      .layout = config::Layout::kNstance}},
          .shard = settings_.shard},
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
  if (step_ != Step::kConfiguration) return;
  started_with_ = config;
  step_ = Step::kProbe;
  StartProbe();
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
          .loop = deps_.loop, .endpoints = {store_}, .random = deps_.random, .jitter = jitter_},
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
      return Fatal(kExitFatal,
                   fmt::format("{}: {}", key_source_->Description(), found.error().message));
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
      Elector::Deps{.loop = deps_.loop, .store = cluster_store(), .random = deps_.random},
      Key("leader/cluster.json"),
      LeaseMachine({.leader_id = settings_.shard.text() + "-" + settings_.id,
                    .leader_addr = config::FormatAddress(config.server.bind.election_addr),
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
                const Status made = certificates_->Start(identity_);
                if (!made.has_value()) {
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
                         .store = store_,
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

// What clients are told: flags, then the configuration, then what is bound; port 0 stays open until
// it is.
std::map<RpcPort, RpcAddress> ServerProcess::Advertised() const {
  const config::Advertise& said = started_with_->config.server.advertise;
  const config::Addresses bound = Bound();
  const auto choose = [&](const std::optional<config::Address>& flag,
                          const std::optional<config::Address>& config,
                          const config::Address& bind) {
    config::Address address = flag ? *flag : config.value_or(bind);
    const bool anywhere = address.host.empty() || address.host == "0.0.0.0" || address.host == "::";
    if (anywhere) address.host = settings_.host.ipv4.empty() ? "127.0.0.1" : settings_.host.ipv4;
    return ToRpc(address);
  };
  return {
      {RpcPort::kRegistration, choose(settings_.advertise.registration_addr, said.registration_addr,
                                      bound.registration_addr)},
      {RpcPort::kAgent, choose(settings_.advertise.agent_addr, said.agent_addr, bound.agent_addr)},
      {RpcPort::kOperator,
       choose(settings_.advertise.operator_addr, said.operator_addr, bound.operator_addr)}};
}

void ServerProcess::OnKeys(ClusterIdentityRef identity) {
  identity_ = std::move(identity);
  Result<std::unique_ptr<Provider>> provider = deps_.factories.provider(started_with_->config);
  if (!provider.has_value()) return Fatal(kExitFatal, provider.error().message);
  provider_ = std::move(provider).value();
  observed_provider_ = std::make_unique<ObservedProvider>(deps_.loop, *provider_, deps_.metrics);
  config::Addresses advertised = Bound();
  const std::map<RpcPort, RpcAddress> told = Advertised();
  advertised.registration_addr.host = told.at(RpcPort::kRegistration).host;
  advertised.agent_addr.host = told.at(RpcPort::kAgent).host;
  advertised.operator_addr.host = told.at(RpcPort::kOperator).host;
  certificates_ = std::make_unique<ServerCertificates>(
      ServerCertificates::Deps{
          .loop = deps_.loop, .random = deps_.random, .log = deps_.log.For("certificates")},
      ServerCertificates::Options{
          .hosts = GrpcHosts(Bound(), advertised, provider_->capabilities().host_alias)},
      [this](RpcTls material) {
        const Status set = deps_.rpc.SetTls(std::move(material));
        if (!set.has_value()) {
          deps_.log.Error("the listeners' certificate", {{"error", set.error()}});
        }
      });
  const Status made = certificates_->Start(identity_);
  if (!made.has_value()) return Fatal(kExitFatal, made.error().message);
  StartDenyWatch();
  waits_ = "the election is about to begin";
  call_ = store_.Head(Key(fmt::format("journal/{}.json", settings_.shard.text())),
                      [this](const Result<ObjectHead>& head) {
                        const bool fresh =
                            !head.has_value() && head.error().code == Code::kNotFound;
                        StartElection(fresh ? BucketAge::kNew : BucketAge::kUsed);
                      });
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
      Elector::Deps{.loop = deps_.loop, .store = store_, .random = deps_.random},
      Key(fmt::format("leader/{}.json", settings_.shard.text())),
      LeaseMachine({.leader_id = settings_.id,
                    .leader_addr = config::FormatAddress(server.bind.election_addr),
                    .timings = *timings,
                    .bucket = bucket}),
      Elector::Owner{
          .acquired = [this](std::int64_t) { Acquired(); },
          .lost = [this](LeaseLoss loss) { Lost(loss); },
          .alarm =
              [this](LeaseAlarm alarm) { Alarm("lease", std::string(LeaseAlarmName(alarm))); }});
  elector_->Start();
  deps_.log.Info("started: standing by", {{"id", settings_.id}, {"shard", settings_.shard}});
}

void ServerProcess::Acquired() {
  deps_.log.Info("the lease is ours: taking over");
  acquired_at_ = deps_.loop.Now();
  ServerFacts facts = FactsOf(started_with_->config.server);
  facts.ca_certificate = identity_->ca_pem;
  leader_ = std::make_unique<ShardLeader>(
      ShardLeader::Deps{.loop = deps_.loop,
                        .store = store_,
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
                        .other_calls = deps_.other_calls},
      ShardLeader::Options{.cluster = started_with_->config.server.cluster_id,
                           .shard = settings_.shard,
                           .holder = settings_.id + "/" + elector_->machine().incarnation(),
                           .identity = identity_,
                           .bind = BindAddresses(),
                           .facts = std::move(facts),
                           .advertise = Advertised(),
                           .store_timeout = started_with_->config.server.store_timeout,
                           .network = started_with_->config.server.leader_network,
                           .request_timeout = started_with_->config.server.request_timeout},
      ShardLeader::Owner{
          .may_start = [this](Duration bound) { return elector_->MayStart(bound); },
          .acting = [this](const std::map<RpcPort, RpcAddress>& open) { Acting(open); },
          .failed = [this](const Error& error) { LeaderFailed(error); },
          .alarm = [this](std::string_view alarm,
                          const std::string& detail) { Alarm(alarm, detail); }});
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

// Calls and effects end now; the listeners at the latest when `shutdown_timeout` is over.
void ServerProcess::EndLeadership(Task done) {
  acting_since_.reset();
  if (leader_ == nullptr) return done();
  const Instant deadline = deps_.loop.Now() + started_with_->config.server.shutdown_timeout;
  std::shared_ptr<ShardLeader> leader = std::move(leader_);
  ShardLeader& at = *leader;
  at.StepDown(deadline, [leader = std::move(leader), done = std::move(done)]() mutable { done(); });
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
  ending_ = deps_.rows->Flush([this, exit_code] { Finish(exit_code); });
}

void ServerProcess::Fatal(int exit_code, const std::string& why) {
  if (step_ == Step::kStopping || step_ == Step::kEnded) return;
  deps_.log.Error("fatal", {{"reason", why}, {"exit_code", exit_code}});
  waits_ = why;
  step_ = Step::kStopping;
  const config::ErrorExitJitter delays = started_with_ == nullptr
                                             ? config::ErrorExitJitter{}
                                             : started_with_->config.server.error_exit_jitter;
  const Duration spread = std::max(delays.max_delay - delays.min_delay, Duration());
  const Duration delay = delays.min_delay + jitter_.UpTo(spread);
  EndLeadership([this, exit_code, delay] {
    if (elector_ == nullptr) {
      ending_ = deps_.loop.CallAfter(delay, [this, exit_code] { Finish(exit_code); });
      return;
    }
    elector_->Stop(deps_.loop.Now() + Duration::Seconds(2), [this, exit_code, delay] {
      ending_ = deps_.loop.CallAfter(delay, [this, exit_code] { Finish(exit_code); });
    });
  });
}

void ServerProcess::Stop() {
  if (step_ == Step::kEnded) return;
  if (step_ == Step::kStopping)
    return Finish(kExitStopped);  // A second signal, or after a fatal one.
  step_ = Step::kStopping;
  waits_ = "stopping";
  EndLeadership([this] {
    const Instant release_by = deps_.loop.Now() + Duration::Seconds(3);
    const auto cluster = [this, release_by] {
      if (cluster_elector_ == nullptr) return FlushThenFinish(kExitStopped);
      cluster_elector_->Stop(release_by, [this] { FlushThenFinish(kExitStopped); });
    };
    if (elector_ == nullptr) return cluster();
    elector_->Stop(release_by, cluster);
  });
}

// --- Pages ---------------------------------------------------------------------------------------

std::vector<std::string> ServerProcess::Problems() const {
  std::vector<std::string> out;
  if (!waits_.empty()) out.push_back(waits_);
  const std::optional<Instant> answered = store_.answered_at();
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
