#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/grammar.h"
#include "admin/storage_command.h"
#include "admin/storage_flags.h"
#include "base/text.h"
#include "core/lease.h"
#include "crypto/serial_number.h"

namespace nstance::admin {
namespace {

// --- What --help teaches -------------------------------------------------------------------------

constexpr Help kCluster = {"Make a cluster; let operators in (directly in the object store)",
                           "Try `nstance-admin cluster init --help`."};
constexpr Help kInit = {
    "Make a cluster that is ready to run, in one command",
    "Creates what is absent: the key file (0600), config/<shard>.jsonc, the CA and the token key. "
    "What\n"
    "is there stays as it is, so the same command again is harmless, and completes one that was\n"
    "interrupted. Prints how to start a server and a standby.\n"
    "\n"
    "  nstance-admin cluster init --storage-provider file --storage-bucket ./bucket --group web=3\n"
    "  nstance-admin cluster init --storage-bucket my-bucket --key-provider file --key-source k"};
constexpr Help kNonce = {
    "Sign a token with which an operator joins at a server",
    "The token is written to a file of mode 0600; with --output - it is all that is printed.\n"
    "\n"
    "  nstance-admin cluster nonce --storage-bucket my-bucket --key-provider env\n"
    "  nstance-admin cluster nonce --storage-bucket my-bucket --key-provider env --expiry 1h"};
constexpr Help kRegister = {
    "Make an operator's key and certificate, without a server",
    "Writes ca.crt, identity.key and identity.crt (0600) to --output-dir (0700): the identity that "
    "the\n"
    "commands group, instance, plan, why and watch use. The same command again gives the same\n"
    "certificate until it expires, then a new key.\n"
    "\n"
    "  nstance-admin cluster register-operator --storage-provider file --storage-bucket ./bucket\n"
    "  nstance-admin cluster register-operator --storage-bucket b --tenant prod --output-dir prod"};
constexpr Help kStore = {"Look at the object store: is it honest, what is in it, what it costs",
                         "Try `nstance-admin store probe --help`."};
constexpr Help kProbe = {
    "Ask a store whether it honours conditional writes",
    "The server's own check. One line per rule; exit 1 when one fails: such a store would lose\n"
    "instances. Makes some 10 small objects below probe/<shard>/ and deletes them again.\n"
    "\n"
    "  nstance-admin store probe --storage-bucket my-bucket"};
constexpr Help kShow = {
    "Print an object",
    "Its bytes go to stdout; what it is, and whether its checksum is right, to stderr. Secrets "
    "stay\n"
    "sealed. Exit 3: there is no such object.\n"
    "\n"
    "  nstance-admin store show journal/dc1-zone-a.json --storage-bucket my-bucket"};
constexpr Help kResetJournal = {
    "Write a new journal for a shard whose journal is lost or damaged",
    "Stop the shard's servers first: it is refused while the lease changes within 10 s (or the "
    "lease's\n"
    "own time, if that is longer). The new epoch is above every one in records, groups and the\n"
    "certificate log; what was under way is taken up again from the records.\n"
    "\n"
    "  nstance-admin store reset-journal --shard dc1-zone-a --yes --storage-bucket my-bucket"};
constexpr Help kCost = {"Storage requests per month of an idle cluster",
                        "Needs no access to a store.\n"
                        "\n"
                        "  nstance-admin store cost --shards 3 --standbys 1 --renew 5s"};
constexpr Help kCert = {"Deny certificates and identities",
                        "Try `nstance-admin cert deny --help`."};
constexpr Help kDeny = {
    "Refuse a certificate, or everybody who calls himself so",
    "Servers follow within 10 s and close the connections. The entry leaves the list when every\n"
    "certificate of that time has expired.\n"
    "\n"
    "  nstance-admin cert deny --serial 4711 --reason 'laptop lost' --storage-bucket my-bucket\n"
    "  nstance-admin cert deny --tenant prod --identity knc06bgm7733st2576nx5jht4ecjw ..."};
constexpr Help kDenied = {"List what is denied",
                          "  nstance-admin cert denied --storage-bucket my-bucket"};
constexpr Help kSecrets = {"Look after the cluster's secrets",
                           "Try `nstance-admin secrets reseal --help`."};
constexpr Help kReseal = {
    "Seal every secret anew with the present key and envelope v1",
    "For a change of key: make the new key the `encryption_key` of the configurations, keep the "
    "old "
    "one\n"
    "under `old_encryption_keys`, restart the servers, then run this. Each secret by\n"
    "compare-and-swap; one that does not open stays as it is. --dry-run only tells.\n"
    "\n"
    "  nstance-admin secrets reseal --dry-run --storage-bucket my-bucket\n"
    "  nstance-admin secrets reseal --storage-bucket my-bucket --key-provider file --key-source k"};

// --- Pieces --------------------------------------------------------------------------------------

Parsed<TenantId> TenantOf(const std::string& text) {
  const Result<TenantId> tenant = TenantId::Parse(text);
  if (!tenant.has_value()) return std::unexpected("--tenant: " + tenant.error().message);
  return *tenant;
}

Parsed<ShardId> ShardOf(const std::string& text) {
  const Result<ShardId> shard = ShardId::Parse(text);
  if (!shard.has_value()) return std::unexpected("--shard: " + shard.error().message);
  return *shard;
}

std::string IdentityFolder(const CommonFlags& common) {
  return common.temp_dir + "/cli-operator-identity";
}

// A command whose texts lie in `T`, which has the storage's flags as `storage`, and how they become
// the command.
template <class T, class Make>
CLI::App* AddStorageCommand(Grammar& grammar, CLI::App* app, const std::shared_ptr<T>& texts,
                            Make make) {
  AddStorageFlags(*app, texts->storage);
  grammar.choices.push_back(
      {app, [&grammar, texts, make](const CommonFlags& common) -> Parsed<Command> {
         auto command = make(grammar, *texts, common);
         if (!command) return std::unexpected(command.error());
         return StorageCommand(*std::move(command));
       }});
  return app;
}

// --- cluster -------------------------------------------------------------------------------------

struct InitTexts {
  StorageTexts storage;
  std::string shard;
  std::string provider = "local";
  std::string agent;
  std::vector<std::string> groups;
};

Parsed<ClusterInit> InitOf(const Grammar& grammar, const InitTexts& texts, const CommonFlags&) {
  auto flags = ClusterFlagsOf(grammar, texts.storage);
  if (!flags) return std::unexpected(flags.error());
  ClusterInit command{.cluster = *std::move(flags), .agent = texts.agent};
  if (texts.provider != "local") {
    return std::unexpected(fmt::format(
        "--provider: {}; cluster init makes configurations for: local", Quote(texts.provider)));
  }
  if (!texts.shard.empty()) {
    auto shard = ShardOf(texts.shard);
    if (!shard) return std::unexpected(shard.error());
    command.shard = *shard;
  }
  auto groups = GroupSizesOf(texts.groups);
  if (!groups) return std::unexpected(groups.error());
  command.groups = *std::move(groups);
  return command;
}

void AddInit(Grammar& grammar, CLI::App& cluster) {
  const auto texts = std::make_shared<InitTexts>();
  CLI::App* app = AddStorageCommand(grammar, AddCommand(cluster, "init", kInit), texts, InitOf);
  app->add_option("--shard", texts->shard, "The shard (default local-a)")->type_name("NAME");
  app->add_option("--provider", texts->provider, "Where instances run: local")->type_name("KIND");
  app->add_option("--agent", texts->agent, "Path of nstance-agent (default: beside this program)")
      ->type_name("PATH");
  app->add_option("--group", texts->groups, "A group to begin with; may be repeated")
      ->type_name("NAME=SIZE")
      ->allow_extra_args(false);
}

struct NonceTexts {
  StorageTexts storage;
  std::string tenant = "default";
  std::string expiry = "3h";
  std::string output;
  bool force = false;
};

Parsed<ClusterNonce> NonceOf(const Grammar& grammar, const NonceTexts& texts,
                             const CommonFlags& common) {
  auto flags = ClusterFlagsOf(grammar, texts.storage);
  if (!flags) return std::unexpected(flags.error());
  const auto tenant = TenantOf(texts.tenant);
  if (!tenant) return std::unexpected(tenant.error());
  const auto expiry = DurationWithin("--expiry", texts.expiry,
                                     {.low = Duration::Minutes(1), .high = Duration::Hours(24)});
  if (!expiry) return std::unexpected(expiry.error());
  if (texts.output.ends_with('/')) {
    return std::unexpected(fmt::format("--output: {} is a folder; name a file", texts.output));
  }
  return ClusterNonce{
      .cluster = *std::move(flags),
      .tenant = *tenant,
      .unknown_tenant = texts.force ? UnknownTenant::kWarning : UnknownTenant::kRefused,
      .expiry = *expiry,
      .output = texts.output.empty() ? IdentityFolder(common) + "/nonce.jwt" : texts.output};
}

void AddNonce(Grammar& grammar, CLI::App& cluster) {
  const auto texts = std::make_shared<NonceTexts>();
  CLI::App* app = AddStorageCommand(grammar, AddCommand(cluster, "nonce", kNonce), texts, NonceOf);
  app->add_option("--tenant", texts->tenant, "Whose operator (default default)")->type_name("NAME");
  app->add_option("--expiry", texts->expiry, "How long it is good: 1m to 24h (default 3h)")
      ->type_name("TIME");
  app->add_option("-o,--output", texts->output,
                  "Where to (default <temp-dir>/cli-operator-identity/nonce.jwt); - is stdout")
      ->type_name("PATH");
  app->add_flag("--force", texts->force, "Also for a tenant that no configuration defines");
}

struct RegisterTexts {
  StorageTexts storage;
  std::string tenant = "default";
  std::string operator_id;
  std::string public_key_file;
  std::string output_dir;
  std::string ttl_hours = "720";
  bool force = false;
};

Parsed<ClusterRegisterOperator> RegisterOf(const Grammar& grammar, const RegisterTexts& texts,
                                           const CommonFlags& common) {
  auto flags = ClusterFlagsOf(grammar, texts.storage);
  if (!flags) return std::unexpected(flags.error());
  const auto tenant = TenantOf(texts.tenant);
  if (!tenant) return std::unexpected(tenant.error());
  const auto hours = WholeNumberOf("--cert-ttl-hours", texts.ttl_hours, {.low = 1, .high = 8'760});
  if (!hours) return std::unexpected(hours.error());
  ClusterRegisterOperator command{
      .cluster = *std::move(flags),
      .tenant = *tenant,
      .unknown_tenant = texts.force ? UnknownTenant::kWarning : UnknownTenant::kRefused,
      .public_key_file = texts.public_key_file,
      .output_dir = texts.output_dir.empty() ? IdentityFolder(common) : texts.output_dir,
      .certificate_life = Duration::Hours(*hours)};
  if (!texts.operator_id.empty()) {
    const Result<Puidv7> id = ParsePuidv7(texts.operator_id, "opr");
    if (!id.has_value()) return std::unexpected("--operator-id: " + id.error().message);
    command.operator_id = *id;
  }
  return command;
}

void AddRegister(Grammar& grammar, CLI::App& cluster) {
  const auto texts = std::make_shared<RegisterTexts>();
  CLI::App* app = AddStorageCommand(grammar, AddCommand(cluster, "register-operator", kRegister),
                                    texts, RegisterOf);
  app->add_option("--tenant", texts->tenant, "Whose operator (default default)")->type_name("NAME");
  app->add_option("--operator-id", texts->operator_id, "Its id, opr... (default: a new one)")
      ->type_name("ID");
  app->add_option("--public-key-file", texts->public_key_file,
                  "Its Ed25519 key (PEM), if it keeps the private one to itself")
      ->type_name("FILE");
  app->add_option("--output-dir", texts->output_dir,
                  "Where to (default <temp-dir>/cli-operator-identity)")
      ->type_name("DIR");
  app->add_option("--cert-ttl-hours", texts->ttl_hours, "Life of the certificate (default 720)")
      ->type_name("HOURS");
  app->add_flag("--force", texts->force, "Also for a tenant that no configuration defines");
}

// --- store ---------------------------------------------------------------------------------------

struct StoreTexts {
  StorageTexts storage;
  std::string shard;
  std::string key;
  bool yes = false;
};

Parsed<StoreProbeOrder> ProbeOf(const Grammar& grammar, const StoreTexts& texts,
                                const CommonFlags&) {
  auto storage = StorageFlagsOf(grammar, texts.storage);
  if (!storage) return std::unexpected(storage.error());
  const auto shard = ShardOf(texts.shard.empty() ? "admin" : texts.shard);
  if (!shard) return std::unexpected(shard.error());
  return StoreProbeOrder{.storage = *std::move(storage), .shard = *shard};
}

Parsed<StoreShow> ShowOf(const Grammar& grammar, const StoreTexts& texts, const CommonFlags&) {
  auto flags = ClusterFlagsOf(grammar, texts.storage);
  if (!flags) return std::unexpected(flags.error());
  const Result<ObjectKey> key = ObjectKey::Parse(texts.key);
  if (!key.has_value()) return std::unexpected(key.error().message);
  return StoreShow{.cluster = *std::move(flags), .key = *key};
}

Parsed<StoreResetJournal> ResetOf(const Grammar& grammar, const StoreTexts& texts,
                                  const CommonFlags&) {
  auto flags = ClusterFlagsOf(grammar, texts.storage);
  if (!flags) return std::unexpected(flags.error());
  if (texts.shard.empty()) return std::unexpected("--shard is missing: whose journal");
  const auto shard = ShardOf(texts.shard);
  if (!shard) return std::unexpected(shard.error());
  if (!texts.yes) {
    return std::unexpected(
        "this replaces the journal of the shard; if its servers are stopped, confirm with --yes");
  }
  return StoreResetJournal{.cluster = *std::move(flags), .shard = *shard};
}

struct CostTexts {
  std::string shards = "1";
  std::string standbys = "1";
  std::string renew = "2s";
};

Parsed<Command> CostOf(const CostTexts& texts) {
  const auto shards = WholeNumberOf("--shards", texts.shards, {.low = 1, .high = 10'000});
  if (!shards) return std::unexpected(shards.error());
  const auto standbys = WholeNumberOf("--standbys", texts.standbys, {.low = 0, .high = 100});
  if (!standbys) return std::unexpected(standbys.error());
  const auto renew = DurationWithin(
      "--renew", texts.renew, {.low = LeaseTimings::kMinRenew, .high = LeaseTimings::kMaxRenew});
  if (!renew) return std::unexpected(renew.error());
  return StorageCommand(StoreCost{.shards = *shards, .standbys = *standbys, .renew = *renew});
}

void AddCost(Grammar& grammar, CLI::App& store) {
  const auto texts = std::make_shared<CostTexts>();
  CLI::App* app = AddCommand(store, "cost", kCost);
  app->add_option("--shards", texts->shards, "How many shards (default 1)")->type_name("N");
  app->add_option("--standbys", texts->standbys, "Standbys of each (default 1)")->type_name("N");
  app->add_option("--renew", texts->renew, "leader_election.renew_interval (default 2s)")
      ->type_name("TIME");
  grammar.choices.push_back(
      {app, [texts](const CommonFlags&) -> Parsed<Command> { return CostOf(*texts); }});
}

void AddStore(Grammar& grammar, CLI::App& store) {
  const auto probe = std::make_shared<StoreTexts>();
  AddStorageCommand(grammar, AddCommand(store, "probe", kProbe), probe, ProbeOf)
      ->add_option("--shard", probe->shard, "Scratch objects below probe/<shard>/ (admin)")
      ->type_name("NAME");
  const auto show = std::make_shared<StoreTexts>();
  CLI::App* app = AddStorageCommand(grammar, AddCommand(store, "show", kShow), show, ShowOf);
  app->add_option("key", show->key, "The object's key")->required()->type_name("");
  app->add_option("--shard", show->shard, "Not needed: the key says it")->type_name("NAME");
  const auto reset = std::make_shared<StoreTexts>();
  app =
      AddStorageCommand(grammar, AddCommand(store, "reset-journal", kResetJournal), reset, ResetOf);
  app->add_option("--shard", reset->shard, "Whose journal")->type_name("NAME");
  app->add_flag("--yes", reset->yes, "The shard's servers are stopped; go on");
  AddCost(grammar, store);
}

// --- cert, secrets -------------------------------------------------------------------------------

struct DenyTexts {
  StorageTexts storage;
  std::string serial;
  std::string tenant;
  std::string identity;
  std::string reason;
};

Parsed<CertDeny> DenyOf(const Grammar& grammar, const DenyTexts& texts, const CommonFlags&) {
  auto storage = StorageFlagsOf(grammar, texts.storage);
  if (!storage) return std::unexpected(storage.error());
  const bool by_identity = !texts.tenant.empty() || !texts.identity.empty();
  if (texts.serial.empty() != by_identity) {
    return std::unexpected("name one: --serial, or --tenant and --identity");
  }
  CertDeny command{.storage = *std::move(storage),
                   .serial = texts.serial,
                   .identity = texts.identity,
                   .reason = texts.reason};
  if (by_identity) {
    if (texts.tenant.empty()) return std::unexpected("--tenant is missing: whose identity");
    if (texts.identity.empty()) return std::unexpected("--identity is missing: the CN");
    const auto tenant = TenantOf(texts.tenant);
    if (!tenant) return std::unexpected(tenant.error());
    command.tenant = *tenant;
  } else if (const auto serial = crypto::SerialNumber::FromDecimal(texts.serial); !serial) {
    return std::unexpected("--serial: " + serial.error().message);
  }
  return command;
}

void AddCert(Grammar& grammar, CLI::App& cert) {
  const auto texts = std::make_shared<DenyTexts>();
  CLI::App* app = AddStorageCommand(grammar, AddCommand(cert, "deny", kDeny), texts, DenyOf);
  app->add_option("--serial", texts->serial, "One certificate, by its decimal serial number")
      ->type_name("N");
  app->add_option("--tenant", texts->tenant, "Everybody of this tenant ...")->type_name("NAME");
  app->add_option("--identity", texts->identity, "... with this CN")->type_name("CN");
  app->add_option("--reason", texts->reason, "Why, for those who read the list")->type_name("TEXT");
  const auto listed = std::make_shared<DenyTexts>();
  AddStorageCommand(
      grammar, AddCommand(cert, "denied", kDenied), listed,
      [](const Grammar& of, const DenyTexts& said, const CommonFlags&) -> Parsed<CertDenied> {
        auto storage = StorageFlagsOf(of, said.storage);
        if (!storage) return std::unexpected(storage.error());
        return CertDenied{.storage = *std::move(storage)};
      });
}

struct ResealTexts {
  StorageTexts storage;
  bool dry_run = false;
};

void AddSecrets(Grammar& grammar, CLI::App& secrets) {
  const auto texts = std::make_shared<ResealTexts>();
  AddStorageCommand(
      grammar, AddCommand(secrets, "reseal", kReseal), texts,
      [](const Grammar& of, const ResealTexts& said, const CommonFlags&) -> Parsed<SecretsReseal> {
        auto flags = ClusterFlagsOf(of, said.storage);
        if (!flags) return std::unexpected(flags.error());
        return SecretsReseal{.cluster = *std::move(flags),
                             .rehearsal = said.dry_run ? Rehearsal::kDryRun : Rehearsal::kNo};
      })
      ->add_flag("--dry-run", texts->dry_run, "Tell what would be done");
}

}  // namespace

void AddStorageCommands(Grammar& grammar) {
  CLI::App& app = *grammar.app;
  CLI::App* cluster = AddFamily(app, "cluster", kCluster);
  AddInit(grammar, *cluster);
  AddNonce(grammar, *cluster);
  AddRegister(grammar, *cluster);
  AddStore(grammar, *AddFamily(app, "store", kStore));
  AddCert(grammar, *AddFamily(app, "cert", kCert));
  AddSecrets(grammar, *AddFamily(app, "secrets", kSecrets));
}

const StorageFlags* StorageOf(const StorageCommand& command) {
  return std::visit(
      [](const auto& one) -> const StorageFlags* {
        if constexpr (requires { one.cluster; }) {
          return &one.cluster.storage;
        } else if constexpr (requires { one.storage; }) {
          return &one.storage;
        } else {
          return nullptr;
        }
      },
      command);
}

}  // namespace nstance::admin
