#include "admin/storage/cluster_init.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/print.h"
#include "admin/storage/cluster_identity.h"
#include "admin/storage/cluster_view.h"
#include "admin/storage/initial_config.h"
#include "base/json.h"
#include "base/text.h"
#include "core/config/load.h"

namespace nstance::admin {
namespace {

constexpr std::string_view kDefaultCluster = "local";
constexpr std::string_view kDefaultShard = "local-a";

struct Piece {
  std::string name;
  bool created = false;
};

Error OfOthers() {
  return FailedPrecondition(
      "the bucket has a cluster of the Go implementation (layout nstance-v2), and a new one beside "
      "it would have another CA: start nstance-server on it as it is, or name another "
      "--storage-bucket; for a cluster apart from it in the same bucket, --layout seed");
}

struct InitReport {
  ClusterId cluster;
  ShardId shard;
  StorageFlags storage = {};  // With a folder's full path.
  std::vector<Piece> pieces = {};
  std::vector<std::string> notes = {};
  config::EncryptionKey key = {};
  std::optional<config::Config> config = std::nullopt;
  std::string operator_address = {};
  std::vector<std::vector<std::string>> servers = {};  // Commands.
};

class Initialisation final {
 public:
  Initialisation(const ClusterInit& command, const StorageDeps& deps)
      : command_(command), deps_(deps), store_(deps), bucket_(command.cluster.storage.bucket) {
    if (InFolder()) bucket_ = deps.machine.AbsolutePath(bucket_);
  }

  Result<InitReport> Do() {
    if (deps_.layout == config::Layout::kNstanceV2) return Fail(OfOthers());
    Result<InitReport> report = Once();
    // Somebody else has created the configuration meanwhile: go on with that.
    if (!report.has_value() && report.error().code == Code::kAborted) report = Once();
    return report;
  }

 private:
  [[nodiscard]] bool InFolder() const { return command_.cluster.storage.provider == "file"; }
  // A name of something that belongs to the bucket and is not in it.
  [[nodiscard]] std::string Beside(std::string_view what) const {
    return deps_.machine.AbsolutePath(fmt::format("{}.{}", bucket_, what));
  }

  Result<InitReport> Once();
  [[nodiscard]] ShardId ChooseShard(const ClusterView& view) const;
  [[nodiscard]] Result<config::EncryptionKey> KeyOf(const config::Config* present) const;
  [[nodiscard]] Status EnsureKey(const ClusterView& view, InitReport& report);
  [[nodiscard]] Result<config::Config> EnsureConfig(const ClusterView& view,
                                                    const StoredConfig* present,
                                                    InitReport& report);
  [[nodiscard]] Result<std::string> NewConfig(const ClusterView& view,
                                              const InitReport& report) const;
  [[nodiscard]] Status EnsureIdentity(const ClusterView& view, Secrets& secrets,
                                      InitReport& report);
  [[nodiscard]] std::vector<std::string> ServerCommand(const InitReport& report,
                                                       const std::string& id) const;

  const ClusterInit& command_;
  const StorageDeps& deps_;
  StoreSession store_;
  std::string bucket_;
};

ShardId Initialisation::ChooseShard(const ClusterView& view) const {
  if (command_.shard) return *command_.shard;
  if (view.configs.size() == 1) return view.configs.front().config.server.shard;
  return *ShardId::Parse(kDefaultShard);
}

Result<InitReport> Initialisation::Once() {
  ASSIGN_OR_RETURN(StoredConfigs configs, ReadConfigs(store_));
  ClusterFlags flags = command_.cluster;
  if (!flags.cluster_id && configs.valid.empty()) {
    flags.cluster_id = *ClusterId::Parse(kDefaultCluster);
  }
  flags.storage.bucket = bucket_;
  ASSIGN_OR_RETURN(ClusterView view, ChooseCluster(std::move(configs), flags));
  InitReport report{.cluster = view.cluster, .shard = ChooseShard(view), .storage = flags.storage};
  const std::string name = fmt::format("config/{}.jsonc", report.shard.text());
  if (std::ranges::find(view.invalid, name) != view.invalid.end()) {
    return Fail(FailedPrecondition(
        fmt::format("{} is there and is not valid; see why with nstance-admin store show {}, "
                    "and nstance-admin config validate -",
                    name, name)));
  }
  const auto present = std::ranges::find(view.configs, name, &StoredConfig::name);
  const StoredConfig* stored = present == view.configs.end() ? nullptr : &*present;
  if (stored != nullptr && stored->config.server.shard != report.shard) {
    return Fail(FailedPrecondition(
        fmt::format("{} says that it is of shard {}", name, stored->config.server.shard.text())));
  }
  ASSIGN_OR_RETURN(report.key, KeyOf(stored == nullptr ? nullptr : &stored->config));
  RETURN_IF_ERROR(EnsureKey(view, report));
  // Before anything says whose the secrets are: those that are there have to open.
  flags.key = report.key;
  ASSIGN_OR_RETURN(const std::unique_ptr<Secrets> secrets,
                   Secrets::Open(deps_, store_, view, flags));
  if (const auto value = secrets->Get(CaSecretName());
      !value.has_value() && value.error().code != Code::kNotFound) {
    return Fail(value.error());
  }
  ASSIGN_OR_RETURN(report.config, EnsureConfig(view, stored, report));
  RETURN_IF_ERROR(EnsureIdentity(view, *secrets, report));
  report.operator_address = config::FormatAddress(report.config->server.bind.operator_addr);
  for (const char* id : {"s1", "s2"}) report.servers.push_back(ServerCommand(report, id));
  return report;
}

// --- The encryption key --------------------------------------------------------------------------

Result<config::EncryptionKey> Initialisation::KeyOf(const config::Config* present) const {
  if (present != nullptr) {
    if (const auto& key = present->server.secrets.encryption_key) return *key;
    return Fail(FailedPrecondition(
        "the configuration keeps secrets elsewhere than in the object store, which cluster init "
        "does not do"));
  }
  config::EncryptionKey key = command_.cluster.key.value_or(
      config::EncryptionKey{.provider = config::KeyProvider::kFile, .source = Beside("key")});
  if (key.provider == config::KeyProvider::kFile) {
    key.source = deps_.machine.AbsolutePath(key.source);
  }
  return key;
}

Status Initialisation::EnsureKey(const ClusterView& view, InitReport& report) {
  const config::EncryptionKey key = report.key;
  if (key.provider == config::KeyProvider::kFile) {
    Piece piece{.name = "key file " + key.source};
    if (!deps_.machine.Exists(key.source)) {
      ASSIGN_OR_RETURN(const std::vector<ObjectKey> sealed, store_.List(view.secrets_prefix));
      if (!sealed.empty()) {
        return Fail(FailedPrecondition(fmt::format(
            "the store has secrets ({} and more) and there is no key file {}: put the cluster's "
            "key there, or name it with --key-provider and --key-source",
            sealed.front().text(), key.source)));
      }
      crypto::Secret bytes(crypto::EncryptionKey::kSize);
      deps_.random.Fill(bytes.MutableBytes());
      std::string text = HexEncode(bytes.Reveal()) + "\n";
      const Status created = deps_.machine.CreateFile(key.source, text);
      crypto::Wipe(text);
      if (!created.has_value() && created.error().code != Code::kAlreadyExists) return created;
      piece.created = created.has_value();
    }
    report.pieces.push_back(std::move(piece));
  }
  const Result<crypto::EncryptionKey> loaded = LoadKey(deps_, key);
  if (!loaded.has_value()) return Fail(loaded.error());
  return {};
}

// --- The configuration ---------------------------------------------------------------------------

Result<std::string> Initialisation::NewConfig(const ClusterView& view,
                                              const InitReport& report) const {
  LocalMachine& machine = deps_.machine;
  const std::string agent = machine.AbsolutePath(
      command_.agent.empty() ? machine.ProgramFolder() + "/nstance-agent" : command_.agent);
  if (!machine.Exists(agent)) {
    return Fail(FailedPrecondition(
        fmt::format("there is no agent at {}; name the program with --agent PATH", agent)));
  }
  const std::string root = Beside("instances") + "/" + report.shard.text();
  for (const std::string& path : {agent, root, report.key.source}) {
    if (!IsValidUtf8(path)) {
      return Fail(InvalidArgument("not UTF-8, as a configuration has to be: " + Quote(path)));
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::uint16_t> ports, machine.FreePorts(3));
  return InitialConfig({.cluster = report.cluster,
                        .shard = report.shard,
                        .instances_root = root,
                        .agent = agent,
                        .arch = machine.Architecture(),
                        .registration_port = ports.at(0),
                        .operator_port = ports.at(1),
                        .agent_port = ports.at(2),
                        .key = report.key,
                        .secrets_prefix = view.secrets_prefix,
                        .groups = command_.groups});
}

Result<config::Config> Initialisation::EnsureConfig(const ClusterView& view,
                                                    const StoredConfig* present,
                                                    InitReport& report) {
  const std::string name = fmt::format("config/{}.jsonc", report.shard.text());
  if (present != nullptr) {
    report.pieces.push_back({.name = name});
    if (!command_.groups.empty() || !command_.agent.empty()) {
      report.notes.push_back(name + " is kept as it is; --group and --agent are for a new one");
    }
    if (command_.cluster.key && *command_.cluster.key != report.key) {
      report.notes.push_back(fmt::format("{} names the key: {}", name, Describe(report.key)));
    }
    return present->config;
  }
  if (view.configs.empty() && !command_.cluster.cluster_id) {
    report.notes.push_back(fmt::format("the cluster is called {}; --cluster-id names it otherwise",
                                       report.cluster.text()));
  }
  ASSIGN_OR_RETURN(std::string text, NewConfig(view, report));
  config::LoadResult loaded = config::Load(text);
  const Result<ObjectVersion> put =
      store_.Put({.key = KnownKey(name), .bytes = std::move(text), .condition = IfAbsent{}});
  if (!put.has_value()) return Fail(put.error());
  report.pieces.push_back({.name = name, .created = true});
  return *std::move(loaded.config);
}

// --- CA and token key ----------------------------------------------------------------------------

Status Initialisation::EnsureIdentity(const ClusterView& view, Secrets& secrets,
                                      InitReport& report) {
  for (const std::string& name :
       {CaCertificateKey().text(), view.secrets_prefix + CaSecretName().text(),
        view.secrets_prefix + NonceSecretName().text()}) {
    ASSIGN_OR_RETURN(const ObjectKey key, ObjectKey::Parse(name));
    const Result<Object> object = store_.Get(key);
    if (!object.has_value() && object.error().code != Code::kNotFound) return Fail(object.error());
    report.pieces.push_back({.name = name, .created = !object.has_value()});
  }
  const Result<ClusterIdentityRef> identity =
      CreateIdentity(deps_, store_, secrets, ClusterKeysOptions(report.config.value()));
  if (!identity.has_value()) return Fail(identity.error());
  return {};
}

// --- What to do next -----------------------------------------------------------------------------

std::vector<std::string> Initialisation::ServerCommand(const InitReport& report,
                                                       const std::string& id) const {
  const StorageFlags& storage = command_.cluster.storage;
  const std::string beside = deps_.machine.ProgramFolder() + "/nstance-server";
  std::vector<std::string> words = {deps_.machine.Exists(beside) ? beside : "nstance-server",
                                    "--id",
                                    id,
                                    "--shard",
                                    report.shard.text(),
                                    "--storage",
                                    storage.provider,
                                    "--bucket",
                                    bucket_};
  if (!storage.prefix.empty()) words.insert(words.end(), {"--prefix", storage.prefix});
  words.insert(words.end(),
               {"--cachedir", fmt::format("{}/{}-{}", Beside("cache"), report.shard.text(), id),
                "--bind", "health=127.0.0.1:0", "--bind", "election=127.0.0.1:0"});
  return words;
}

std::string Line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += ShellWord(word);
  }
  return line;
}

std::vector<std::string> RegisterCommand(const InitReport& report) {
  const StorageFlags& storage = report.storage;
  std::vector<std::string> words = {"nstance-admin",      "cluster",        "register-operator",
                                    "--storage-provider", storage.provider, "--storage-bucket",
                                    storage.bucket};
  if (!storage.prefix.empty()) words.insert(words.end(), {"--storage-prefix", storage.prefix});
  words.insert(words.end(), {"--key-provider", std::string(config::Word(report.key.provider)),
                             "--key-source", report.key.source});
  return words;
}

std::string Text(const InitReport& report, const CommonFlags& common) {
  std::string out =
      fmt::format("Cluster {}, shard {}:\n", report.cluster.text(), report.shard.text());
  for (const Piece& piece : report.pieces) {
    out += fmt::format("  {}  {}\n", piece.created ? "created" : "kept   ", piece.name);
  }
  if (common.quiet) return out;
  const bool by_variable = report.key.provider == config::KeyProvider::kEnv;
  out += by_variable ? fmt::format(
                           "\nKeep the value of {} safe: without it the cluster's secrets "
                           "are lost. Servers need it set.\n",
                           report.key.source)
                     : fmt::format(
                           "\nKeep a copy of {} elsewhere: without it the cluster's "
                           "secrets are lost.\n",
                           report.key.source);
  out += fmt::format("\nStart a server:\n  {}\n", Line(report.servers.at(0)));
  out +=
      fmt::format("A standby, which takes over when it goes:\n  {}\n", Line(report.servers.at(1)));
  out += fmt::format("Then register yourself, and look:\n  {}\n", Line(RegisterCommand(report)));
  out += fmt::format("  nstance-admin group list --servers {}={}\n", report.shard.text(),
                     report.operator_address);
  return out;
}

json::Value Strings(const std::vector<std::string>& texts) {
  json::Array array;
  array.reserve(texts.size());
  for (const std::string& text : texts) array.push_back(json::Value::String(text));
  return json::Value::List(std::move(array));
}

std::string Json(const InitReport& report) {
  json::Value out = json::Value::Map({});
  out.Set("cluster_id", json::Value::String(report.cluster.text()));
  out.Set("shard", json::Value::String(report.shard.text()));
  std::vector<std::string> created;
  std::vector<std::string> kept;
  for (const Piece& piece : report.pieces) (piece.created ? created : kept).push_back(piece.name);
  out.Set("created", Strings(created));
  out.Set("kept", Strings(kept));
  out.Set("key_provider", json::Value::String(std::string(config::Word(report.key.provider))));
  out.Set("key_source", json::Value::String(report.key.source));
  out.Set("operator_addr", json::Value::String(report.operator_address));
  json::Array servers;
  servers.reserve(report.servers.size());
  for (const std::vector<std::string>& words : report.servers) servers.push_back(Strings(words));
  out.Set("server_commands", json::Value::List(std::move(servers)));
  out.Set("notes", Strings(report.notes));
  return json::Write(out, {.indent = 2}) + "\n";
}

}  // namespace

Status PrepareBucket(const ClusterInit& command, const StorageDeps& deps) {
  const StorageFlags& storage = command.cluster.storage;
  if (storage.provider != "file") return {};
  return deps.machine.MakeFolder(deps.machine.AbsolutePath(storage.bucket));
}

Ending Run(const ClusterInit& command, const CommonFlags& common, const StorageDeps& deps) {
  const Result<InitReport> report = Initialisation(command, deps).Do();
  if (!report.has_value()) return Failed(report.error(), common.output);
  if (common.output == Output::kJson) return {.out = Json(*report)};
  Ending ending{.out = Text(*report, common)};
  for (const std::string& note : report->notes) {
    if (!common.quiet) ending.err += fmt::format("Note: {}\n", note);
  }
  return ending;
}

}  // namespace nstance::admin
