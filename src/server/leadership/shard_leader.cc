#include "server/leadership/shard_leader.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/fault_point.h"
#include "server/cancellable.h"
#include "server/inactive_features.h"

namespace nstance {
namespace {

constexpr Duration kBindRetry = Duration::Milliseconds(200);
// A request of an earlier leadership, of this process too, may arrive minutes late and take the
// address away again: nobody new reaches the leader then.
constexpr Duration kLateRequests = Duration::Minutes(10);
constexpr Duration kNetworkRepeatThen = Duration::Seconds(15);
constexpr Duration kNetworkRepeat = Duration::Minutes(2);
constexpr Duration kNetworkRetry = Duration::Seconds(1);
constexpr std::array kPorts = {RpcPort::kRegistration, RpcPort::kAgent, RpcPort::kOperator};

ObjectKey Key(const std::string& text) {
  Result<ObjectKey> key = ObjectKey::Parse(text);
  CHECK(key.has_value(), "{}", text);
  return std::move(key).value();
}

std::string Text(const RpcAddress& address) {
  return config::FormatAddress({.host = address.host, .port = address.port});
}

}  // namespace

ShardLeader::ShardLeader(Deps deps, Options options, Owner owner)
    : deps_(std::move(deps)),
      options_(std::move(options)),
      owner_(std::move(owner)),
      facts_(options_.facts) {
  scope_.store_timeout = options_.store_timeout;
  scope_.store_now = deps_.store_now;
  scope_.may_start = [this](Duration bound) {
    if (Planted(Plant::kSkipsBudget)) return state_ != State::kOver;
    return state_ != State::kOver && owner_.may_start(bound);
  };
  scope_.seq = [this] { return journal_->journal().seq; };
  scope_.step_down = [this](const Error& why) { FailWith(why); };
}

ShardLeader::~ShardLeader() { Drop(); }

// Calls first, then who answers them, then what they stand on; all in one turn, so that nobody is
// called back by what goes later.
void ShardLeader::Drop() {
  loading_.Cancel();
  network_.Cancel();
  services_.reset();
  fleet_.reset();
  context_.reset();
  issuer_.reset();
  groups_.reset();
  types_.reset();
  journal_.reset();
}

std::string_view ShardLeader::waits_for() const {
  switch (state_) {
    case State::kNew:
    case State::kLooking:
    case State::kJournal: return "taking the journal over";
    case State::kLoading:
      if (fleet_ready_ && !network_ready_) return "the leader's network";
      if (fleet_ready_ && !deps_.denied.known()) return "reading the deny list";
      return "reading records and the provider's listing";
    case State::kOpening: return "opening the listeners";
    case State::kActing: return {};
    case State::kOver: break;
  }
  return "stepping down";
}

void ShardLeader::FailWith(Error error) {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  failing_ = deps_.loop.CallAfter(
      {}, [this, error = std::move(error)]() mutable { owner_.failed(std::move(error)); });
}

// --- The journal ---------------------------------------------------------------------------------

void ShardLeader::Start() {
  state_ = State::kLooking;
  AtStep(Step::kL4);
  call_ = deps_.store.Head(Key(fmt::format("journal/{}.json", options_.shard.text())),
                           [this](const Result<ObjectHead>& head) { OnJournalHead(head); });
}

// A missing journal is the first one only if no record of the shard carries an epoch.
void ShardLeader::OnJournalHead(const Result<ObjectHead>& head) {
  if (head.has_value()) return StartJournal(EpochEvidence::kNone);
  if (head.error().code != Code::kNotFound) return FailWith(head.error().Under("journal"));
  evidence_ = std::make_unique<RecordReader>(
      deps_.loop, deps_.store, options_.shard,
      [this](const Result<std::vector<ReadRecord>>& records) {
        if (!records.has_value()) return FailWith(records.error());
        const bool some = std::ranges::any_of(*records, [](const ReadRecord& read) {
          return !read.stored.has_value() || read.stored->record.epoch > 0;
        });
        StartJournal(some ? EpochEvidence::kSome : EpochEvidence::kNone);
      });
  evidence_->Start();
}

void ShardLeader::StartJournal(EpochEvidence evidence) {
  state_ = State::kJournal;
  journal_ = std::make_unique<JournalWriter>(
      JournalWriter::Deps{.loop = deps_.loop,
                          .store = deps_.store,
                          .random = deps_.random,
                          .metrics = &deps_.metrics},
      JournalWriter::Options{.key = Key(fmt::format("journal/{}.json", options_.shard.text())),
                             .store_timeout = options_.store_timeout},
      JournalMachine({.identity = {.cluster = options_.cluster, .shard = options_.shard},
                      .holder = options_.holder,
                      .evidence = evidence}),
      JournalWriter::Owner{
          .took_over = [this](std::int64_t epoch) { TookOver(epoch); },
          .refused = [this](const Error& why) { FailWith(why.Under("the journal")); },
          .lost =
              [this](JournalLoss loss) {
                FailWith(Aborted(fmt::format("the journal was lost: {}", JournalLossName(loss))));
              },
          .may_start = [this](Duration bound) { return owner_.may_start(bound); }});
  journal_->Start();
}

// --- Everything that a table is built from -------------------------------------------------------

void ShardLeader::TookOver(std::int64_t epoch) {
  state_ = State::kLoading;
  scope_.epoch = epoch;
  deps_.log.Info("the journal is ours", {{"epoch", epoch}});
  issuer_ = std::make_unique<CertificateIssuer>(CertificateIssuer::Deps{.loop = deps_.loop,
                                                                        .store = deps_.store,
                                                                        .random = deps_.random,
                                                                        .jitter = deps_.jitter,
                                                                        .leader = scope_,
                                                                        .metrics = &deps_.metrics},
                                                CertificateIssuer::Options{.shard = options_.shard},
                                                options_.identity);
  types_ = std::make_unique<TypeArchs>(deps_.loop, deps_.provider, epoch);
  groups_ = std::make_unique<GroupSource>(
      GroupSource::Deps{.loop = deps_.loop,
                        .store = deps_.store,
                        .cache = deps_.cache,
                        .random = deps_.random,
                        .jitter = deps_.jitter,
                        .log = deps_.log.For("groups")},
      GroupSource::Options{.key = Key(fmt::format("groups/{}.jsonc", options_.shard.text())),
                           .epoch = epoch,
                           .store_timeout = options_.store_timeout,
                           .arch_of = [this](std::string_view type) { return types_->Find(type); }},
      GroupSource::Owner{
          .took_over =
              [this] {
                groups_ready_ = true;
                MaybeOpen();
              },
          .lost =
              [this](std::int64_t higher) {
                FailWith(Aborted(fmt::format("the groups object carries epoch {}", higher)));
              },
          .published = [this](const GroupsRef& groups) { OnPublished(groups); },
          .may_start = [this](Duration bound) { return scope_.may_start(bound); },
          .seq = [this] { return journal_->journal().seq; }});
  groups_->Start();
  // A configuration in storage that is invalid or unreachable: what is in force stays.
  auto load =
      Cancellable<Result<ConfigSource::Reload>>([this](Result<ConfigSource::Reload> reload) {
        if (state_ != State::kLoading) return;
        if (!reload.has_value()) {
          deps_.log.Warning("the configuration could not be loaded", {{"error", reload.error()}});
        }
        if (deps_.config.current() == nullptr) {
          return FailWith(FailedPrecondition("there is no valid configuration"));
        }
        config_ready_ = true;
        MaybeOpen();
      });
  loading_ = std::move(load.pending);
  deps_.config.LoadNow(std::move(load.call));
  MakeFleet();
  AssignNetwork();
}

// The address must be here before it can be bound. Tried again for as long as the take-over may
// last.
void ShardLeader::AssignNetwork() {
  if (!options_.network || !deps_.provider.capabilities().leader_network) {
    network_ready_ = true;
    return MaybeOpen();
  }
  const auto again = [this](const Error& why) {
    deps_.log.Warning("the leader's network cannot be assigned", {{"error", why}});
    network_ = deps_.loop.CallAfter(kNetworkRetry, [this] { AssignNetwork(); });
  };
  if (!scope_.may_start(options_.send_timeout)) {
    return again(Unavailable("the lease is about to end"));
  }
  AtStep(Step::kL4);
  network_ = deps_.provider.AssignLeaderNetwork(
      {.epoch = scope_.epoch, .deadline = deps_.loop.Now() + options_.request_timeout},
      *options_.network, [this, again](const ProviderResult<void>& assigned) {
        if (!assigned.has_value()) return again(assigned.error().error);
        network_ready_ = true;
        const Instant now = deps_.loop.Now();
        if (!network_since_) network_since_ = now;
        network_ = deps_.loop.CallAfter(
            now - *network_since_ < kLateRequests ? kNetworkRepeatThen : kNetworkRepeat,
            [this] { AssignNetwork(); });
        MaybeOpen();
      });
}

void ShardLeader::MakeFleet() {
  FleetOptions options = {.cluster = options_.cluster,
                          .shard = options_.shard,
                          .server = facts_,
                          .token_key = options_.identity->nonce_key,
                          .times = options_.times,
                          .send_timeout = options_.send_timeout,
                          .steps_per_turn = options_.steps_per_turn};
  if (const ConfigRef& config = deps_.config.current()) {  // A standby has read one.
    options.request_timeout = config->config.server.request_timeout;
  }
  fleet_ = std::make_unique<Fleet>(
      FleetDeps{.loop = deps_.loop,
                .store = deps_.store,
                .provider = deps_.provider,
                .http = deps_.http,
                .journal = *journal_,
                .random = deps_.random,
                .jitter = deps_.jitter,
                .metrics = deps_.metrics,
                .log = deps_.log.For("fleet"),
                .leader = scope_,
                .rows = deps_.rows,
                .stopwatch = deps_.stopwatch,
                .types = types_.get()},
      std::move(options),
      FleetOwner{.instance_event =
                     [this](const api::InstanceEvent& event) {
                       if (services_ != nullptr) services_->watches().OnInstanceEvent(event);
                     },
                 .group_changed =
                     [this](const TenantId& tenant, const GroupKey& group) {
                       if (services_ != nullptr) services_->watches().OnGroupChanged(tenant, group);
                     },
                 .error_event =
                     [this](const TenantId& tenant, api::ErrorEvent event) {
                       if (services_ != nullptr)
                         services_->watches().OnError(tenant, std::move(event));
                     },
                 .event =
                     [this](const TenantId& tenant, const EventRef& event) {
                       if (services_ != nullptr) services_->watches().OnEvent(tenant, event);
                     },
                 .alarm = [this](std::string_view alarm,
                                 const std::string& detail) { owner_.alarm(alarm, detail); },
                 .identity_ended = [this](const InstanceId& id,
                                          const Error& why) { CloseIdentity(id, why); },
                 .may_revoke_drains =
                     [this](const TenantId& tenant) {
                       return services_ == nullptr ||
                              services_->watches().AllUnderstandCancel(tenant);
                     }});
  if (expiry_paused_until_) fleet_->PauseExpiry(*expiry_paused_until_);
  fleet_->Load([this](const Status& loaded) {
    if (!loaded.has_value()) return FailWith(loaded.error());
    fleet_ready_ = true;
    MaybeOpen();
  });
}

void ShardLeader::MaybeOpen() {
  if (state_ != State::kLoading || !groups_ready_ || !config_ready_ || !fleet_ready_) return;
  // Before the list is known nobody can say who is denied, so nobody is let in.
  if (!network_ready_) return;
  if (!deps_.denied.known()) {
    retry_ = deps_.loop.CallAfter(kBindRetry, [this] { MaybeOpen(); });
    return;
  }
  state_ = State::kOpening;
  OpenNext();
}

// --- The listeners, then the table ---------------------------------------------------------------

// Port 0 is known when it is bound, and templates show addresses: so the listeners are bound before
// the first instance is planned, and answer nothing until the table is there.
void ShardLeader::OpenNext() {
  const auto next =
      std::ranges::find_if(kPorts, [this](RpcPort port) { return !open_.contains(port); });
  if (next == kPorts.end()) return Act();
  const RpcPort port = *next;
  AtStep(Step::kL6);
  call_ =
      deps_.rpc.Open({.port = port,
                      .bind = options_.bind.at(port),
                      .accept =
                          [this](std::unique_ptr<RpcServerCall> call) {
                            if (services_ != nullptr && state_ == State::kActing) {
                              services_->Accept(std::move(call));
                            }
                            // Else it goes with UNAVAILABLE.
                          },
                      .gate = [this](const RpcCallInfo& info) -> Status {
                        if (services_ != nullptr && state_ == State::kActing) {
                          return services_->Admit(info);
                        }
                        return Fail(Unavailable("the server does not lead"));
                      }},
                     [this, port](const Result<RpcAddress>& address) { OnOpened(port, address); });
}

void ShardLeader::OnOpened(RpcPort port, const Result<RpcAddress>& address) {
  if (state_ != State::kOpening) return;
  if (address.has_value()) {
    open_[port] = *address;
    return OpenNext();
  }
  if (address.error().code != Code::kUnavailable) return FailWith(address.error());
  deps_.log.Debug("an address cannot be bound yet",
                  {{"port", RpcPortName(port)}, {"error", address.error()}});
  retry_ = deps_.loop.CallAfter(kBindRetry, [this] {
    if (state_ == State::kOpening) OpenNext();
  });
}

void ShardLeader::Act() {
  const auto advertised = [this](RpcPort port) {
    RpcAddress address = options_.advertise.at(port);
    if (address.host.empty()) address.host = open_.at(port).host;
    if (address.port == 0) address.port = open_.at(port).port;
    return Text(address);
  };
  facts_.registration_addr = advertised(RpcPort::kRegistration);
  facts_.agent_addr = advertised(RpcPort::kAgent);
  facts_.operator_addr = advertised(RpcPort::kOperator);
  fleet_->SetServer(facts_);
  groups_->SetConfig(deps_.config.current());
  CHECK(published_ != nullptr, "the first snapshot comes with the configuration");
  MakeServices();
  state_ = State::kActing;
  deps_.config.StartComparing();
  owner_.acting(open_);
}

void ShardLeader::PauseExpiry(Instant until) {
  expiry_paused_until_ = until;
  if (fleet_ != nullptr) fleet_->PauseExpiry(until);
}

void ShardLeader::OnPublished(const GroupsRef& groups) {
  const GroupsRef before = std::exchange(published_, groups);
  fleet_->SetGroups(groups);
  WarnOfGroups(before);
  if (before != nullptr) {
    const auto& tenants = groups->config->config.tenants;
    for (const auto& [tenant, unused] : before->config->config.tenants) {
      if (tenants.contains(tenant)) continue;
      deps_.rpc.CloseConnections(tenant, PermissionDenied("the tenant is not defined"));
    }
  }
  if (services_ != nullptr) services_->watches().OnGroupsPublished(before, groups);
}

// What operators ask of groups and this build does not do, with their change and, as for the file's
// own groups, with every other configuration.
void ShardLeader::WarnOfGroups(const GroupsRef& before) const {
  const bool same_config = before != nullptr && before->config == published_->config;
  for (const auto& [tenant, groups] : published_->groups) {
    for (const auto& [key, group] : groups) {
      if (!group->has_dynamic_layer) continue;
      if (same_config && before->Find(tenant, key) == group.get()) continue;
      for (const std::string& line : InactiveFeatures(tenant, key, group->group.layer)) {
        deps_.log.Warning("group", {{"warning", line}});
      }
    }
  }
}

void ShardLeader::MakeServices() {
  context_ = std::make_unique<ServiceContext>(
      ServiceContext{.loop = deps_.loop,
                     .store = deps_.store,
                     .cluster_store = deps_.cluster_store,
                     .random = deps_.random,
                     .jitter = deps_.jitter,
                     .log = deps_.log.For("services"),
                     .source = {.interface = "services", .probe = &deps_.probe},
                     .leader = scope_,
                     .fleet = *fleet_,
                     .groups = *groups_,
                     .types = *types_,
                     .config = deps_.config,
                     .denied = deps_.denied,
                     .issuer = *issuer_,
                     .identity = options_.identity,
                     .cluster = options_.cluster,
                     .shard = options_.shard,
                     .alarm = [this](const Alarm& alarm) { fleet_->Raise(alarm); },
                     .metrics = &deps_.metrics,
                     .rows = deps_.rows,
                     .other_calls = deps_.other_calls ? deps_.other_calls() : OtherCalls()});
  services_ = std::make_unique<Services>(*context_);
}

void ShardLeader::Measure(metrics::Registry& gauges) const {
  if (state_ != State::kActing) return;
  fleet_->Measure(gauges);
  services_->Measure(gauges);
}

// --- Identities ----------------------------------------------------------------------------------

void ShardLeader::CloseIdentity(const InstanceId& id, const Error& why) {
  if (services_ != nullptr) services_->streams().End(id, why);
  deps_.rpc.CloseConnections(RpcIdentity{.role = crypto::Role::kAgent, .id = id.text()}, why);
}

void ShardLeader::OnDenied(const std::vector<DenyEntry>& entries) {
  const Error why = Unauthenticated("the identity is denied");
  for (const DenyEntry& entry : entries) {
    if (!entry.serial.empty()) {
      deps_.rpc.CloseConnections(RpcSerial{.decimal = entry.serial}, why);
      continue;
    }
    for (const crypto::Role role : {crypto::Role::kAgent, crypto::Role::kOperator}) {
      deps_.rpc.CloseConnections(RpcIdentity{.role = role, .id = entry.identity}, why);
    }
  }
}

// --- The end -------------------------------------------------------------------------------------

void ShardLeader::StepDown(Instant deadline, Task done) {
  AtStep(Step::kL8);
  state_ = State::kOver;
  failing_.Cancel();
  deps_.config.StopComparing();
  const bool stays = Planted(Plant::kKeepsListenersOpen);
  if (!stays) Drop();  // Every open call ends with UNAVAILABLE.
  auto left = std::make_shared<std::size_t>(kPorts.size());
  auto tell = std::make_shared<Task>(std::move(done));
  const auto one_less = [left, tell] {
    if (--*left == 0) (*tell)();
  };
  // Only while the lease is ours: else the address may be the next leader's already.
  if (options_.network && network_ready_ && owner_.may_start(options_.send_timeout) &&
      deps_.provider.capabilities().leader_network) {
    ++*left;
    closing_.push_back(deps_.provider.ReleaseLeaderNetwork(
        {.epoch = scope_.epoch, .deadline = deadline}, *options_.network,
        [one_less](const ProviderResult<void>&) { one_less(); }));
  }
  for (const RpcPort port : kPorts) {
    closing_.push_back(deps_.rpc.Close(port, stays ? Instant::Never() : deadline, one_less));
  }
}

}  // namespace nstance
