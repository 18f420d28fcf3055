// The server's configuration as plain values: what `config/{shard}.jsonc` says, checked, with
// defaults applied.
//
// A Config comes out of Load() (core/config/load.h) only when the whole file is valid, so its
// readers check nothing again: references resolve, ranges hold, names are well-formed.
//
//   const config::LoadResult loaded = config::Load(text, {});
//   if (!loaded.config) return loaded.errors;
//   Wait(loaded.config->server.leader_election.renew_interval);
//
// The initial values of the members are the documented defaults; the reference document prints
// them from here. Where a default depends on another key, the comment says so, and Load() has
// filled it in. Strings that are Go templates (user data, args, file contents, certificate names)
// are kept as they were written.
//
// Equality is that of the content: positions in the file do not count.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/name.h"
#include "base/puidv7.h"
#include "base/time.h"

namespace nstance::config {

struct LoadBalancerKind {
  static constexpr std::string_view kWhat = "load balancer";
};
using LoadBalancerKey = Name<LoadBalancerKind>;

using StringMap = std::map<std::string, std::string>;

// ---- server.provider --------------------------------------------------------------------------

enum class ProviderKind : std::uint8_t { kLocal, kQemu, kAws, kGcp, kProxmox };

struct LocalOptions {
  std::string root = "./instances";
  std::string shell = "/bin/bash";
  Duration kill_grace = Duration::Seconds(10);
  bool keep_logs = false;
  int max_instances = 0;  // 0 = no limit.
  StringMap env = {};
  friend bool operator==(const LocalOptions&, const LocalOptions&) = default;
};

enum class QemuAccel : std::uint8_t { kAuto, kKvm, kTcg };

struct QemuOptions {
  std::string root = "./vms";
  std::string binary = "qemu-system-x86_64";
  std::string img_binary = "qemu-img";
  QemuAccel accel = QemuAccel::kAuto;
  int memory_limit_mib = 0;  // Sum of all guests; 0 = no limit.
  Duration kill_grace = Duration::Seconds(20);
  std::string host_alias = "10.0.2.2";
  friend bool operator==(const QemuOptions&, const QemuOptions&) = default;
};

struct AwsOptions {
  std::string endpoint = {};  // Empty: the service's own.
  friend bool operator==(const AwsOptions&, const AwsOptions&) = default;
};

struct GcpOptions {
  std::string project_id = {};  // Never empty.
  std::string endpoint = {};    // Empty: the service's own.
  friend bool operator==(const GcpOptions&, const GcpOptions&) = default;
};

struct ProxmoxOptions {
  std::string cloud_init_iso_storage = "local";
  std::string ca_file = {};
  bool insecure_tls = false;
  friend bool operator==(const ProxmoxOptions&, const ProxmoxOptions&) = default;
};

using ProviderOptions =
    std::variant<LocalOptions, QemuOptions, AwsOptions, GcpOptions, ProxmoxOptions>;

struct Provider {
  ProviderKind kind = ProviderKind::kLocal;
  std::string word = {};  // What the file says for `kind`: templates see it ("google").
  std::string region = {};
  std::string zone = {};
  ProviderOptions options = {};  // The alternative that belongs to `kind`.
  friend bool operator==(const Provider&, const Provider&) = default;
};

// ---- server: addresses ------------------------------------------------------------------------

struct Address {
  std::string host = {};  // Without brackets; may be empty in `bind`.
  std::uint16_t port = 0;
  friend bool operator==(const Address&, const Address&) = default;
};

// "host:port", an IPv6 host in brackets.
[[nodiscard]] std::string FormatAddress(const Address& address);

struct Addresses {
  Address health_addr = {.host = {}, .port = 8990};
  Address election_addr = {.host = {}, .port = 8991};
  Address registration_addr = {.host = {}, .port = 8992};
  Address operator_addr = {.host = {}, .port = 8993};
  Address agent_addr = {.host = {}, .port = 8994};
  friend bool operator==(const Addresses&, const Addresses&) = default;
};

// As written; what is absent follows from `bind` (AdvertisedAddresses, core/config/advertise.h).
struct Advertise {
  std::optional<Address> health_addr = std::nullopt;
  std::optional<Address> election_addr = std::nullopt;
  std::optional<Address> registration_addr = std::nullopt;
  std::optional<Address> operator_addr = std::nullopt;
  std::optional<Address> agent_addr = std::nullopt;
  friend bool operator==(const Advertise&, const Advertise&) = default;
};

struct LeaderNetwork {
  std::string ip = {};
  std::string interface_id = {};  // Only aws, and there never empty.
  friend bool operator==(const LeaderNetwork&, const LeaderNetwork&) = default;
};

// ---- server: secrets and storage --------------------------------------------------------------

enum class SecretsProvider : std::uint8_t {
  kObjectStorage,
  kAwsParameterStore,
  kAwsSecretsManager,
  kGcpSecretManager,
  kMemory,
};

enum class KeyProvider : std::uint8_t {
  kEnv,
  kFile,
  kAwsParameterStore,
  kAwsSecretsManager,
  kGcpSecretManager,
};

struct EncryptionKey {
  KeyProvider provider = KeyProvider::kEnv;
  std::string source = {};      // Variable, path, parameter or secret name.
  std::string project_id = {};  // Only gcp-secret-manager.
  friend bool operator==(const EncryptionKey&, const EncryptionKey&) = default;
};

enum class Envelope : std::uint8_t { kV1, kLegacy };

struct Secrets {
  SecretsProvider provider = SecretsProvider::kObjectStorage;  // Default: by server.provider.kind.
  std::string prefix = {};                                     // Default: by provider.
  std::string project_id = {};                                 // Only gcp-secret-manager.
  std::optional<EncryptionKey> encryption_key = std::nullopt;  // Set exactly for object-storage.
  std::vector<EncryptionKey> old_encryption_keys = {};
  Duration cache_ttl = {};            // Zero = off.
  Envelope envelope = Envelope::kV1;  // Default: by layout. The form that is written.
  bool allow_legacy = true;           // Whether the legacy form is read.
  friend bool operator==(const Secrets&, const Secrets&) = default;
};

enum class StorageProvider : std::uint8_t { kS3, kGcs, kFile };

// Where the objects of the cluster (not of the shard) are, if not in the server's own store.
struct Storage {
  StorageProvider provider = StorageProvider::kS3;
  std::string bucket = {};
  std::string region = {};
  std::string endpoint = {};
  std::string prefix = {};
  friend bool operator==(const Storage&, const Storage&) = default;
};

// ---- server: behaviour ------------------------------------------------------------------------

struct ClusterElection {
  Duration renew_interval = Duration::Seconds(2);
  Duration lease_timeout = Duration::Seconds(8);
  bool enabled = true;
  friend bool operator==(const ClusterElection&, const ClusterElection&) = default;
};

struct LeaderElection {
  Duration renew_interval = Duration::Seconds(2);
  Duration lease_timeout = Duration::Seconds(8);  // At least three renewals.
  ClusterElection cluster = {};
  friend bool operator==(const LeaderElection&, const LeaderElection&) = default;
};

struct Registration {
  bool require_proof = false;
  friend bool operator==(const Registration&, const Registration&) = default;
};

struct GarbageCollection {
  Duration interval = Duration::Minutes(2);  // Zero = no provider sweep.
  Duration registration_timeout = Duration::Minutes(5);
  Duration deleted_record_retention = Duration::Hours(25);
  Duration orphan_grace = Duration::Minutes(10);
  Duration certlog_retention = Duration::Days(30);
  friend bool operator==(const GarbageCollection&, const GarbageCollection&) = default;
};

// Zero = off.
struct Expiry {
  Duration eligible_age = {};
  Duration forced_age = {};
  Duration ondemand_age = {};
  friend bool operator==(const Expiry&, const Expiry&) = default;
};

struct BrakeLimit {
  Duration window = {};  // Zero = off.
  int count = 0;
  int percent = 0;
  friend bool operator==(const BrakeLimit&, const BrakeLimit&) = default;
};

// Two types, so that each has its own defaults.
struct UnorderedBrake {
  Duration window = Duration::Minutes(10);
  int count = 5;
  int percent = 10;
  friend bool operator==(const UnorderedBrake&, const UnorderedBrake&) = default;
  [[nodiscard]] BrakeLimit limit() const { return {window, count, percent}; }
};

struct OrderedBrake {
  Duration window = Duration::Minutes(1);
  int count = 10;
  int percent = 25;
  friend bool operator==(const OrderedBrake&, const OrderedBrake&) = default;
  [[nodiscard]] BrakeLimit limit() const { return {window, count, percent}; }
};

struct DeletionBrake {
  UnorderedBrake unordered = {};
  OrderedBrake ordered = {};
  friend bool operator==(const DeletionBrake&, const DeletionBrake&) = default;
};

struct ErrorExitJitter {
  Duration min_delay = Duration::Seconds(10);
  Duration max_delay = Duration::Seconds(40);
  friend bool operator==(const ErrorExitJitter&, const ErrorExitJitter&) = default;
};

struct Server {
  ClusterId cluster_id;
  ShardId shard;
  Provider provider = {};
  Addresses bind = {};
  Advertise advertise = {};
  std::optional<LeaderNetwork> leader_network = std::nullopt;
  std::map<SubnetPoolName, std::vector<std::string>> subnet_pools = {};  // Never empty.
  std::vector<SubnetPoolName> dynamic_subnet_pools = {};                 // Empty = all.
  Secrets secrets = {};
  std::optional<Storage> storage = std::nullopt;  // Absent: the server's own store.
  LeaderElection leader_election = {};
  Registration registration = {};
  Duration store_timeout = Duration::Seconds(3);  // Default: at most 3/8 of lease_timeout.
  Duration request_timeout = Duration::Seconds(30);
  Duration create_rate_limit = {};  // Least gap between creations; zero = off.
  int create_concurrency = 10;
  Duration health_check_interval = Duration::Seconds(60);
  Duration default_drain_timeout = Duration::Minutes(5);  // Zero = no drain coordination.
  Duration image_refresh_interval = Duration::Hours(6);   // Zero = leadership and reload only.
  Duration shutdown_timeout = Duration::Seconds(10);
  GarbageCollection garbage_collection = {};
  Expiry expiry = {};
  DeletionBrake deletion_brake = {};
  ErrorExitJitter error_exit_jitter = {};
  friend bool operator==(const Server&, const Server&) = default;
};

// ---- tenants, load balancers, images, certificates --------------------------------------------

struct Tenant {
  friend bool operator==(const Tenant&, const Tenant&) = default;
};

struct TargetGroup {
  std::string arn = {};
  std::optional<int> listener_port = std::nullopt;
  std::optional<int> target_port = std::nullopt;
  friend bool operator==(const TargetGroup&, const TargetGroup&) = default;
};

struct Frontend {
  std::string ip = {};
  int port = 0;
  friend bool operator==(const Frontend&, const Frontend&) = default;
};

// Its provider is the infrastructure's; only the members of that provider are set.
struct LoadBalancer {
  std::vector<TargetGroup> target_groups = {};  // aws; `target_group_arns` become entries here.
  std::vector<std::string> network_endpoint_groups = {};  // gcp, or:
  std::string instance_group_name = {};
  std::vector<Frontend> frontends = {};
  std::string targets_file = {};  // local.
  friend bool operator==(const LoadBalancer&, const LoadBalancer&) = default;
};

struct ImageFilter {
  std::string name = {};
  std::vector<std::string> values = {};
  friend bool operator==(const ImageFilter&, const ImageFilter&) = default;
};

enum class ImageSort : std::uint8_t { kCreationDate, kName };
enum class ImageOrder : std::uint8_t { kDescending, kAscending };

// Its provider is the infrastructure's.
struct Image {
  std::vector<ImageFilter> filters = {};  // aws, gcp.
  std::vector<std::string> owners = {};
  ImageSort sort = ImageSort::kCreationDate;
  ImageOrder order = ImageOrder::kDescending;
  std::string fallback = {};  // aws, gcp: when nothing matches; local: the value itself.
  std::string path = {};      // qemu.
  friend bool operator==(const Image&, const Image&) = default;
};

enum class CertificateKind : std::uint8_t { kClient, kServer };

// A certificate that files of kind `certificate` ask for. The strings are templates.
struct Certificate {
  CertificateKind kind = CertificateKind::kClient;
  std::string cn = {};  // Empty: the certificate's name.
  std::vector<std::string> organization = {};
  std::vector<std::string> dns = {};
  std::vector<std::string> ip = {};
  std::vector<std::string> uri = {};
  std::vector<std::string> country = {};
  std::vector<std::string> province = {};
  std::vector<std::string> locality = {};
  std::vector<std::string> street = {};
  std::vector<std::string> postal_code = {};
  Duration ttl = Duration::Hours(8'760);
  friend bool operator==(const Certificate&, const Certificate&) = default;
};

struct CaCertificate {
  std::string cn = "Nstance CA";
  std::vector<std::string> organization = {};  // Empty: "Nstance Cluster <cluster id>".
  Duration ttl = Duration::Hours(87'600);
  friend bool operator==(const CaCertificate&, const CaCertificate&) = default;
};

struct AgentCertificate {
  Duration ttl = Duration::Hours(24);
  Duration legacy_ttl = Duration::Hours(8'760);  // For agents that cannot renew.
  friend bool operator==(const AgentCertificate&, const AgentCertificate&) = default;
};

struct OperatorCertificate {
  Duration ttl = Duration::Hours(720);
  friend bool operator==(const OperatorCertificate&, const OperatorCertificate&) = default;
};

struct Certificates {
  CaCertificate ca = {};
  AgentCertificate agent = {};
  OperatorCertificate operators = {};             // Key `operator`.
  std::map<std::string, Certificate> named = {};  // All other keys.
  friend bool operator==(const Certificates&, const Certificates&) = default;
};

// ---- defaults, templates ----------------------------------------------------------------------

enum class UserDataSource : std::uint8_t { kInline, kUrl };
enum class UserDataEncoding : std::uint8_t { kPlain, kBase64, kGzip, kBase64Gzip };

// `source` and `encoding` stay as written, absent or not: the infra hash is taken over what the
// file has (formats.md 7). Behaviour follows the two functions.
struct UserData {
  std::optional<std::string> source = std::nullopt;
  std::optional<std::string> encoding = std::nullopt;
  std::string content = {};  // A list of lines has been joined, with a final newline. Or the URL.
  std::string sha256 = {};   // Hex; only with url. Empty: not given.

  [[nodiscard]] UserDataSource effective_source() const;
  [[nodiscard]] UserDataEncoding effective_encoding() const;
  friend bool operator==(const UserData&, const UserData&) = default;
};

struct Defaults {
  json::Object args = {};
  StringMap vars = {};
  std::optional<UserData> userdata = std::nullopt;
  friend bool operator==(const Defaults&, const Defaults&) = default;
};

enum class Arch : std::uint8_t { kAmd64, kArm64 };

enum class FileKind : std::uint8_t { kSecret, kStorage, kCertificate, kEnv, kJson, kString };

struct FileKey {
  std::string source = {};  // "agent".
  std::string name = {};    // "<base>.pub".
  friend bool operator==(const FileKey&, const FileKey&) = default;
};

struct File {
  FileKind kind = FileKind::kString;
  std::string source = {};  // secret, storage: a template.
  // certificate: its name, a string. env, json: an object. string: a string. Else absent.
  std::optional<json::Value> content = std::nullopt;  // Key `template`.
  std::optional<FileKey> key = std::nullopt;          // certificate.
  friend bool operator==(const File&, const File&) = default;
};

struct Template {
  std::string kind = {};  // Three lower-case letters: the prefix of instance ids.
  Arch arch = Arch::kAmd64;
  std::map<std::string, File> files = {};
  json::Object args = {};
  std::optional<UserData> userdata = std::nullopt;  // Absent: that of `defaults`.
  std::string instance_type = {};                   // May be empty when every group names one.
  std::optional<SubnetPoolName> subnet_pool = std::nullopt;  // Likewise.
  StringMap vars = {};
  std::vector<std::string> allowed_instance_types = {};  // Empty: any.
  friend bool operator==(const Template&, const Template&) = default;
};

// ---- groups -----------------------------------------------------------------------------------

enum class PoolReclaim : std::uint8_t { kDelete, kReturn };
enum class PoolState : std::uint8_t { kRunning, kStopped };
enum class PoolOnEmpty : std::uint8_t { kFail, kCreate };

struct Pool {
  int max_claimed = 0;                             // 0 = no limit.
  Duration max_unclaimed_age = Duration::Days(7);  // Zero = never.
  PoolReclaim reclaim = PoolReclaim::kDelete;
  PoolState state = PoolState::kRunning;
  PoolOnEmpty on_empty = PoolOnEmpty::kFail;
  std::vector<std::string> warm_files = {};
  Duration claim_ttl = {};  // Zero = none.
  int refill_per_minute = 30;
  friend bool operator==(const Pool&, const Pool&) = default;
};

// What a group says about expiry; the server's value holds for the rest, key by key.
struct ExpiryLayer {
  std::optional<Duration> eligible_age = std::nullopt;
  std::optional<Duration> forced_age = std::nullopt;
  std::optional<Duration> ondemand_age = std::nullopt;
  friend bool operator==(const ExpiryLayer&, const ExpiryLayer&) = default;
};

[[nodiscard]] Expiry Overlay(const Expiry& server, const ExpiryLayer& group);

inline constexpr int kDefaultSurge = 1;
inline constexpr int kMaxGroupSize = 10'000;

// One layer of a group, static or dynamic, exactly as written: what is absent comes from the other
// layer, the template, the server, or is the default (size 0, surge 1, no balancers). Static ones
// have a template, and their references have been checked.
struct GroupLayer {
  std::optional<std::string> template_name = std::nullopt;
  std::optional<int> size = std::nullopt;
  std::string instance_type = {};  // Empty: not given.
  std::optional<SubnetPoolName> subnet_pool = std::nullopt;
  StringMap vars = {};
  json::Object args = {};
  std::optional<Duration> drain_timeout = std::nullopt;
  std::vector<LoadBalancerKey> load_balancers = {};
  std::optional<int> surge = std::nullopt;
  std::optional<ExpiryLayer> expiry = std::nullopt;
  std::optional<Pool> pool = std::nullopt;
  std::optional<GroupKey> draw_from = std::nullopt;
  friend bool operator==(const GroupLayer&, const GroupLayer&) = default;
};

using TenantGroups = std::map<GroupKey, GroupLayer>;

// ---- the whole --------------------------------------------------------------------------------

struct Config {
  Server server;
  std::map<TenantId, Tenant> tenants = {};  // Without the implicit `default`.
  std::map<LoadBalancerKey, LoadBalancer> load_balancers = {};
  std::map<std::string, Image> images = {};
  Certificates certificates = {};
  Defaults defaults = {};
  std::map<std::string, Template> templates = {};
  std::map<TenantId, TenantGroups> groups = {};  // The static layers.
  friend bool operator==(const Config&, const Config&) = default;
};

// The words of the file for each value: "gcp", "amd64", "base64+gzip".
[[nodiscard]] std::string_view Word(ProviderKind kind);
[[nodiscard]] std::string_view Word(QemuAccel accel);
[[nodiscard]] std::string_view Word(SecretsProvider provider);
[[nodiscard]] std::string_view Word(KeyProvider provider);
[[nodiscard]] std::string_view Word(Envelope envelope);
[[nodiscard]] std::string_view Word(StorageProvider provider);
[[nodiscard]] std::string_view Word(ImageSort sort);
[[nodiscard]] std::string_view Word(ImageOrder order);
[[nodiscard]] std::string_view Word(CertificateKind kind);
[[nodiscard]] std::string_view Word(Arch arch);
[[nodiscard]] std::string_view Word(FileKind kind);
[[nodiscard]] std::string_view Word(PoolReclaim reclaim);
[[nodiscard]] std::string_view Word(PoolState state);
[[nodiscard]] std::string_view Word(PoolOnEmpty on_empty);

}  // namespace nstance::config
