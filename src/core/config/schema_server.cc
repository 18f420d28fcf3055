// The tables of `server`.
#include "core/config/schema.h"

namespace nstance::config {
namespace {

constexpr auto kSeconds = Duration::Seconds;
constexpr auto kMinutes = Duration::Minutes;
constexpr auto kHours = Duration::Hours;

constexpr int kMaxBrakeCount = 100'000;

DurationRule RenewRule() {
  return DurationRule({.min = Duration::Milliseconds(500), .max = kSeconds(60)});
}

const ObjectSpec& BindSpec() {
  const auto rule = [] { return AddressRule(AddressRule::Use::kBind); };
  static const ObjectSpec spec = Table<Addresses>({
      In<&Addresses::health_addr>("health_addr", rule(), "Health, metrics and the admin API."),
      In<&Addresses::election_addr>("election_addr", rule(), "Other servers of the shard."),
      In<&Addresses::registration_addr>("registration_addr", rule(), "New agents and operators."),
      In<&Addresses::operator_addr>("operator_addr", rule(), "Operators."),
      In<&Addresses::agent_addr>("agent_addr", rule(), "Agents."),
  });
  return spec;
}

const ObjectSpec& AdvertiseSpec() {
  constexpr std::string_view kFromBind = "that of `bind`";
  const auto rule = [] { return AddressRule(AddressRule::Use::kAdvertise); };
  static const ObjectSpec spec = Table<Advertise>({
      In<&Advertise::health_addr>("health_addr", rule(), "How others reach it.").Default(kFromBind),
      In<&Advertise::election_addr>("election_addr", rule(), "Likewise.").Default(kFromBind),
      In<&Advertise::registration_addr>("registration_addr", rule(), "Likewise.")
          .Default(kFromBind),
      In<&Advertise::operator_addr>("operator_addr", rule(), "Likewise.").Default(kFromBind),
      In<&Advertise::agent_addr>("agent_addr", rule(), "Likewise.").Default(kFromBind),
  });
  return spec;
}

const ObjectSpec& LeaderNetworkSpec() {
  static const ObjectSpec spec = Table<LeaderNetwork>({
      In<&LeaderNetwork::ip>("ip", ShapedTextRule("an IP address", &IsIpAddress),
                             "The address that the leader holds.")
          .Required(),
      In<&LeaderNetwork::interface_id>("interface_id", TextRule(),
                                       "aws: the network interface with that address."),
  });
  return spec;
}

const ObjectSpec& EncryptionKeySpec() {
  static const ObjectSpec spec = Table<EncryptionKey>({
      In<&EncryptionKey::provider>("provider", WordRule<KeyProvider>(), "Where the key is kept.")
          .Required(),
      In<&EncryptionKey::source>("source", TextRule(),
                                 "Variable, path, parameter or secret with the 32 bytes.")
          .Required(),
      In<&EncryptionKey::project_id>("project_id", TextRule(),
                                     "Required for, and only with, gcp-secret-manager."),
  });
  return spec;
}

const ObjectSpec& SecretsSpec() {
  static const ObjectSpec spec = Table<Secrets>({
      In<&Secrets::provider>("provider", WordRule<SecretsProvider>(), "Where secrets are kept.")
          .Default("aws: `aws-parameter-store`, gcp: `gcp-secret-manager`, else `object-storage`"),
      In<&Secrets::prefix>("prefix", TextRule(512, TextRule::Empty::kAllowed),
                           "Put in front of every secret's name.")
          .Default("`secret/`, `/nstance/`, `nstance/`, `nstance-` or none, by provider"),
      In<&Secrets::project_id>("project_id", TextRule(),
                               "Required for, and only with, gcp-secret-manager."),
      In<&Secrets::encryption_key>("encryption_key", ObjectRule<EncryptionKey>(&EncryptionKeySpec),
                                   "Required for, and only with, object-storage."),
      In<&Secrets::old_encryption_keys>(
          "old_encryption_keys", ListOf("objects", ObjectRule<EncryptionKey>(&EncryptionKeySpec)),
          "Keys that still decrypt. Only with object-storage."),
      In<&Secrets::cache_ttl>("cache_ttl", DurationRule({.max = kHours(24)}),
                              "How long a value is kept in memory; 0s = not at all."),
      In<&Secrets::envelope>("envelope", WordRule<Envelope>(), "The form that is written.")
          .Default("v1; layout nstance-v2: legacy"),
      In<&Secrets::allow_legacy>("allow_legacy", BoolRule(), "Whether the legacy form is read."),
  });
  return spec;
}

const ObjectSpec& StorageSpec() {
  static const ObjectSpec spec = Table<Storage>({
      In<&Storage::provider>("provider", WordRule<StorageProvider>(), "The kind of store.")
          .Required(),
      In<&Storage::bucket>("bucket", TextRule(), "Bucket, or folder.").Required(),
      In<&Storage::region>("region", TextRule(64), "The bucket's region."),
      In<&Storage::endpoint>("endpoint", TextRule(), "Another endpoint of the service."),
      In<&Storage::prefix>("prefix", TextRule(512, TextRule::Empty::kAllowed),
                           "Put in front of every key."),
  });
  return spec;
}

const ObjectSpec& ClusterElectionSpec() {
  static const ObjectSpec spec = Table<ClusterElection>({
      In<&ClusterElection::renew_interval>("renew_interval", RenewRule(),
                                           "Alias `frequent_interval`."),
      In<&ClusterElection::lease_timeout>("lease_timeout", DurationRule(),
                                          "At least three renewals. Alias `leader_timeout`."),
      Unstored("infrequent_interval", DurationRule(), "Accepted, has no effect."),
      In<&ClusterElection::enabled>("enabled", BoolRule(),
                                    "false: CA and nonce key must be in place."),
  });
  return spec;
}

const ObjectSpec& LeaderElectionSpec() {
  static const ObjectSpec spec = Table<LeaderElection>({
      In<&LeaderElection::renew_interval>("renew_interval", RenewRule(),
                                          "How often the leader renews its lease. Alias "
                                          "`frequent_interval`."),
      In<&LeaderElection::lease_timeout>("lease_timeout", DurationRule(),
                                         "How long a lease lives; at least three renewals. Alias "
                                         "`leader_timeout`."),
      Unstored("infrequent_interval", DurationRule(), "Accepted, has no effect."),
      In<&LeaderElection::cluster>("cluster", ObjectRule<ClusterElection>(&ClusterElectionSpec),
                                   "The same for the lease of the cluster."),
  });
  return spec;
}

const ObjectSpec& RegistrationSpec() {
  static const ObjectSpec spec = Table<Registration>({
      In<&Registration::require_proof>("require_proof", BoolRule(),
                                       "Refuse joins without proof of possession."),
  });
  return spec;
}

const ObjectSpec& GarbageCollectionSpec() {
  using Gc = GarbageCollection;
  static const ObjectSpec spec = Table<Gc>({
      In<&Gc::interval>("interval", DurationRule({.min = kSeconds(10), .or_zero = true}),
                        "Between sweeps of the provider; 0s = none."),
      In<&Gc::registration_timeout>("registration_timeout", DurationRule({.min = kSeconds(30)}),
                                    "How long a new instance may take to register."),
      In<&Gc::deleted_record_retention>("deleted_record_retention", DurationRule(),
                                        "How long tombstones stay; longer than "
                                        "`certificates.agent.ttl`."),
      In<&Gc::orphan_grace>("orphan_grace", DurationRule({.min = kMinutes(1)}),
                            "Age before an unknown machine may be destroyed."),
      In<&Gc::certlog_retention>("certlog_retention", DurationRule(),
                                 "How long entries stay after their certificates ended."),
  });
  return spec;
}

const ObjectSpec& ExpirySpec() {
  static const ObjectSpec spec = Table<Expiry>({
      In<&Expiry::eligible_age>("eligible_age", DurationRule(),
                                "From here on an instance is replaced when convenient; 0s = off."),
      In<&Expiry::forced_age>("forced_age", DurationRule(),
                              "From here on it is replaced in any case; 0s = off."),
      In<&Expiry::ondemand_age>("ondemand_age", DurationRule(),
                                "From here on an on-demand instance is deleted; 0s = off."),
  });
  return spec;
}

template <class Brake>
ObjectSpec BrakeSpec() {
  return Table<Brake>({
      In<&Brake::window>("window", DurationRule({.max = kHours(1)}), "0s = off."),
      In<&Brake::count>("count", IntRule(0, kMaxBrakeCount), "Deletions per window, or:"),
      In<&Brake::percent>("percent", IntRule(0, 100),
                          "of the tenant's instances, rounded down; the larger counts."),
  });
}

const ObjectSpec& UnorderedBrakeSpec() {
  static const ObjectSpec spec = BrakeSpec<UnorderedBrake>();
  return spec;
}

const ObjectSpec& OrderedBrakeSpec() {
  static const ObjectSpec spec = BrakeSpec<OrderedBrake>();
  return spec;
}

const ObjectSpec& DeletionBrakeSpec() {
  static const ObjectSpec spec = Table<DeletionBrake>({
      In<&DeletionBrake::unordered>("unordered", ObjectRule<UnorderedBrake>(&UnorderedBrakeSpec),
                                    "Deletions that the server decides by itself, per tenant."),
      In<&DeletionBrake::ordered>("ordered", ObjectRule<OrderedBrake>(&OrderedBrakeSpec),
                                  "Deletions that were ordered through the API, per tenant."),
  });
  return spec;
}

const ObjectSpec& ErrorExitJitterSpec() {
  static const ObjectSpec spec = Table<ErrorExitJitter>({
      In<&ErrorExitJitter::min_delay>("min_delay", DurationRule({.max = kMinutes(10)}),
                                      "Waited at least, before a fatal exit."),
      In<&ErrorExitJitter::max_delay>("max_delay", DurationRule({.max = kMinutes(10)}),
                                      "Waited at most; not below `min_delay`."),
  });
  return spec;
}

std::vector<Field> ServerIdentity() {
  return {
      In<&Server::cluster_id>("cluster_id", NameRule<ClusterId>(), "The cluster.").Required(),
      In<&Server::shard>("shard", NameRule<ShardId>(), "The shard; equals `--shard`.").Required(),
      In<&Server::provider>("provider", ObjectRule<Provider>(&ProviderSpec),
                            "Who makes the machines.")
          .Required(),
      In<&Server::bind>("bind", ObjectRule<Addresses>(&BindSpec),
                        "Where this server listens; the five ports differ, unless 0."),
      In<&Server::advertise>("advertise", ObjectRule<Advertise>(&AdvertiseSpec),
                             "How others reach it."),
      In<&Server::leader_network>("leader_network", ObjectRule<LeaderNetwork>(&LeaderNetworkSpec),
                                  "An address that follows the leader; only aws and gcp."),
      In<&Server::subnet_pools>(
          "subnet_pools",
          MapOf(NameKey<SubnetPoolName>("pool"), ListOf("subnets", TextRule(256), 1)),
          "The provider's subnets, by pool; a subnet is in one pool only.")
          .Required(),
      In<&Server::dynamic_subnet_pools>(
          "dynamic_subnet_pools", ListOf("subnet pool names", NameRule<SubnetPoolName>()),
          "Pools that dynamic groups and on-demand instances may use; [] = all."),
      In<&Server::secrets>("secrets", ObjectRule<Secrets>(&SecretsSpec), "Where secrets are kept."),
      In<&Server::storage>("storage", ObjectRule<Storage>(&StorageSpec),
                           "Where the cluster's objects are, if not in the server's own store."),
      In<&Server::leader_election>("leader_election",
                                   ObjectRule<LeaderElection>(&LeaderElectionSpec), "The leases."),
      In<&Server::registration>("registration", ObjectRule<Registration>(&RegistrationSpec),
                                "How agents join."),
  };
}

std::vector<Field> ServerBehaviour() {
  return {
      In<&Server::store_timeout>("store_timeout",
                                 DurationRule({.min = Duration::Milliseconds(100)}),
                                 "One storage call; below 3/4 of `lease_timeout` minus "
                                 "`renew_interval`.")
          .Default("3s, or 3/8 of `lease_timeout` if less"),
      In<&Server::request_timeout>("request_timeout",
                                   DurationRule({.min = kSeconds(1), .max = kMinutes(10)}),
                                   "One call of the provider or of the secrets service."),
      In<&Server::create_rate_limit>("create_rate_limit", DurationRule({.max = kHours(24)}),
                                     "Least gap between creations in the shard; 0s = none."),
      In<&Server::create_concurrency>("create_concurrency", IntRule(1, 100),
                                      "Creations in flight per group."),
      In<&Server::health_check_interval>("health_check_interval",
                                         DurationRule({.min = kSeconds(1), .max = kHours(1)}),
                                         "What late and stale reports are measured in."),
      In<&Server::default_drain_timeout>("default_drain_timeout", DurationRule({.max = kHours(24)}),
                                         "How long a drain may take; 0s = no drain coordination."),
      In<&Server::image_refresh_interval>(
          "image_refresh_interval", DurationRule({.min = kMinutes(1), .or_zero = true}),
          "Between resolutions of images; 0s = only at leadership and configuration change."),
      In<&Server::shutdown_timeout>("shutdown_timeout", DurationRule({.max = kMinutes(10)}),
                                    "How long an orderly stop may take."),
      In<&Server::garbage_collection>("garbage_collection",
                                      ObjectRule<GarbageCollection>(&GarbageCollectionSpec),
                                      "What is cleaned up, and when."),
      In<&Server::expiry>("expiry", ObjectRule<Expiry>(&ExpirySpec),
                          "Replacement by age; `eligible_age` below `forced_age`."),
      In<&Server::deletion_brake>("deletion_brake", ObjectRule<DeletionBrake>(&DeletionBrakeSpec),
                                  "How much may be deleted at once."),
      In<&Server::error_exit_jitter>("error_exit_jitter",
                                     ObjectRule<ErrorExitJitter>(&ErrorExitJitterSpec),
                                     "Waited before a fatal exit."),
      Refused("files"),
  };
}

}  // namespace

const ObjectSpec& ServerSpec() {
  static const ObjectSpec spec = [] {
    std::vector<Field> fields = ServerIdentity();
    for (Field& field : ServerBehaviour()) fields.push_back(std::move(field));
    return Table<Server>(std::move(fields));
  }();
  return spec;
}

}  // namespace nstance::config
