#include "admin/storage/cluster_operator.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/print.h"
#include "admin/storage/cluster_identity.h"
#include "admin/storage/cluster_view.h"
#include "admin/storage/fields.h"
#include "base/text.h"
#include "core/object_layout.h"
#include "core/operator_record.h"
#include "crypto/registration_token.h"
#include "storage/certificate_issuer.h"
#include "storage/leader_scope.h"
#include "storage/operator_enrolment.h"

namespace nstance::admin {
namespace {

constexpr std::string_view kKeyFile = "identity.key";
constexpr std::string_view kCertificateFile = "identity.crt";
constexpr std::string_view kBundleFile = "ca.crt";
constexpr std::size_t kMaxKeyBytes = std::size_t{4} * 1024;
// Under whose name certificates that no shard has made are logged.
constexpr std::string_view kLogFolder = "cluster";

// What both commands begin with.
struct Opened {
  ClusterView view;
  std::vector<std::string> warnings = {};
  std::unique_ptr<Secrets> secrets = {};
};

template <class Command>
Result<Opened> Open(const Command& command, const StorageDeps& deps, StoreSession& store) {
  ASSIGN_OR_RETURN(ClusterView view, ReadCluster(store, command.cluster));
  Opened opened{.view = std::move(view)};
  ASSIGN_OR_RETURN(const std::string warning,
                   CheckTenant(opened.view, command.tenant, command.unknown_tenant));
  if (!warning.empty()) opened.warnings.push_back(warning);
  ASSIGN_OR_RETURN(opened.secrets, Secrets::Open(deps, store, opened.view, command.cluster));
  return opened;
}

// --- nonce ---------------------------------------------------------------------------------------

struct Nonce {
  std::string token = {};
  Timestamp expires_at = {};
  std::vector<std::string> warnings = {};
};

Result<Nonce> MakeNonce(const ClusterNonce& command, const StorageDeps& deps) {
  StoreSession store(deps);
  ASSIGN_OR_RETURN(const Opened opened, Open(command, deps, store));
  const Result<crypto::Secret> secret = opened.secrets->Get(NonceSecretName());
  if (!secret.has_value()) {
    if (secret.error().code != Code::kNotFound) return Fail(secret.error());
    return Fail(FailedPrecondition(
        secret.error().message +
        ": the cluster has no token key yet; start a server, or run nstance-admin cluster init"));
  }
  ASSIGN_OR_RETURN(const crypto::PrivateKey key,
                   Under(crypto::PrivateKey::FromPem(AsText(secret->Reveal())),
                         "secret registration-nonce.key"));
  const Timestamp now = deps.loop.WallNow().TruncatedToSecond();
  Nonce nonce{.expires_at = now + command.expiry, .warnings = opened.warnings};
  nonce.token = crypto::SignRegistrationToken({.subject = opened.view.cluster.text(),
                                               .expires_at = nonce.expires_at,
                                               .not_before = now - crypto::kTokenBackdate,
                                               .issued_at = now - crypto::kTokenBackdate,
                                               .token_id = Base64UrlEncode(deps.random.Array<16>()),
                                               .kind = crypto::TokenKind::kOperator,
                                               .config_hash = {},
                                               .cluster = opened.view.cluster.text(),
                                               .shard = {},
                                               .group = {},
                                               .tenant = command.tenant},
                                              key);
  return nonce;
}

struct FilePlace {
  std::string folder;
  std::string name;
};

FilePlace PlaceOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {.folder = ".", .name = path};
  return {.folder = slash == 0 ? "/" : path.substr(0, slash), .name = path.substr(slash + 1)};
}

// --- register-operator ---------------------------------------------------------------------------

class Registration final {
 public:
  Registration(const ClusterRegisterOperator& command, const StorageDeps& deps)
      : command_(command), deps_(deps), store_(deps) {}

  Result<EnrolledOperator> Do();
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // The key of the folder, or a new one that is there now.
  [[nodiscard]] Result<crypto::PublicKey> OwnKey(AgentFiles& folder);
  [[nodiscard]] Result<crypto::PublicKey> GivenKey();
  [[nodiscard]] Result<std::optional<OperatorRecord>> RecordOf(const crypto::PublicKey& key);
  [[nodiscard]] Status CheckOwner(const crypto::PublicKey& key);
  [[nodiscard]] Result<EnrolledOperator> Enrol(const crypto::PublicKey& key,
                                               const ClusterIdentityRef& identity);
  [[nodiscard]] Timestamp Now() const { return deps_.loop.WallNow().TruncatedToSecond(); }

  const ClusterRegisterOperator& command_;
  const StorageDeps& deps_;
  StoreSession store_;
  std::vector<std::string> warnings_;
};

Result<EnrolledOperator> Registration::Do() {
  ASSIGN_OR_RETURN(const Opened opened, Open(command_, deps_, store_));
  warnings_ = opened.warnings;
  ASSIGN_OR_RETURN(const ClusterIdentityRef identity,
                   ReadIdentity(deps_, store_, *opened.secrets, opened.view));
  ASSIGN_OR_RETURN(const std::unique_ptr<AgentFiles> folder,
                   deps_.machine.OpenFolder(command_.output_dir));
  ASSIGN_OR_RETURN(const crypto::PublicKey key,
                   command_.public_key_file.empty() ? OwnKey(*folder) : GivenKey());
  RETURN_IF_ERROR(CheckOwner(key));
  RETURN_IF_ERROR(folder->Replace(kBundleFile, identity->ca_pem));
  ASSIGN_OR_RETURN(EnrolledOperator enrolled, Enrol(key, identity));
  if (command_.operator_id && enrolled.record.client_id != command_.operator_id->text()) {
    return Fail(FailedPrecondition(
        fmt::format("the key is registered as {}: leave --operator-id out to get its certificate "
                    "again, or use another key",
                    enrolled.record.client_id)));
  }
  if (enrolled.record.expires_at <= Now()) {
    return Fail(FailedPrecondition(fmt::format(
        "the key was registered before and its certificate has expired at {}: bring a new key",
        FormatTimestamp(enrolled.record.expires_at))));
  }
  RETURN_IF_ERROR(folder->Replace(kCertificateFile, enrolled.certificate_pem));
  return enrolled;
}

Result<crypto::PublicKey> Registration::GivenKey() {
  const Result<std::string> pem = deps_.machine.ReadFile(command_.public_key_file, kMaxKeyBytes);
  if (!pem.has_value()) {
    return Fail(FailedPrecondition("--public-key-file: " + pem.error().message));
  }
  return Under(crypto::PublicKey::FromPem(*pem), command_.public_key_file);
}

Result<crypto::PublicKey> Registration::OwnKey(AgentFiles& folder) {
  ASSIGN_OR_RETURN(std::optional<std::string> pem, folder.Read(kKeyFile));
  if (pem) {
    const Result<crypto::PrivateKey> key = crypto::PrivateKey::FromPem(*pem);
    crypto::Wipe(*pem);
    if (!key.has_value()) {
      return Fail(
          FailedPrecondition(fmt::format("{}: {}; choose another --output-dir, or move it away",
                                         folder.PathOf(kKeyFile), key.error().message)));
    }
    ASSIGN_OR_RETURN(const std::optional<OperatorRecord> record, RecordOf(key->public_key()));
    if (!record) return key->public_key();
    if (!record->nonce_sha256.empty()) {
      return Fail(FailedPrecondition(
          fmt::format("{} belongs to an operator that joined with a token; choose another "
                      "--output-dir",
                      folder.PathOf(kKeyFile))));
    }
    const bool present = record->public_key_pem == key->public_key().ToPem();
    if (present && record->expires_at > Now()) return key->public_key();
  }
  crypto::Secret seed(crypto::PrivateKey::kSeedSize);
  deps_.random.Fill(seed.MutableBytes());
  const auto key =
      crypto::PrivateKey::FromSeed(seed.Reveal().first<crypto::PrivateKey::kSeedSize>());
  const crypto::Secret text = key.ToPem();
  RETURN_IF_ERROR(folder.Replace(kKeyFile, AsText(text.Reveal())));
  return key.public_key();
}

Result<std::optional<OperatorRecord>> Registration::RecordOf(const crypto::PublicKey& key) {
  const Result<Object> object = store_.Get(OperatorKey(command_.tenant, OperatorStorageKey(key)));
  if (!object.has_value()) {
    if (object.error().code == Code::kNotFound) return std::nullopt;
    return Fail(object.error());
  }
  ASSIGN_OR_RETURN(OperatorRecord record, DecodeOperatorRecord(object->bytes));
  return record;
}

// A key belongs to one identity (security.md J8).
Status Registration::CheckOwner(const crypto::PublicKey& key) {
  const std::string name = fmt::format(".{}.json", OperatorStorageKey(key));
  const ObjectKey own = OperatorKey(command_.tenant, OperatorStorageKey(key));
  ASSIGN_OR_RETURN(const std::vector<ObjectKey> records, store_.List("operator/"));
  for (const ObjectKey& record : records) {
    if (record == own || !record.text().ends_with(name)) continue;
    return Fail(FailedPrecondition(
        fmt::format("the key is registered for another tenant ({}): use another key, or another "
                    "--output-dir",
                    record.text())));
  }
  return {};
}

Result<EnrolledOperator> Registration::Enrol(const crypto::PublicKey& key,
                                             const ClusterIdentityRef& identity) {
  // No leadership: whoever holds the cluster's keys may sign.
  LeaderScope scope{.epoch = 0,
                    .store_timeout = StoreSession::kSettleLimit,
                    .may_start = [](Duration) { return true; },
                    .seq = [] { return std::int64_t{0}; },
                    .step_down = [](const Error&) {}};
  CertificateIssuer issuer(
      {.loop = deps_.loop,
       .store = deps_.store,
       .random = deps_.random,
       .jitter = store_.jitter(),
       .leader = scope},
      {.shard = *ShardId::Parse(kLogFolder), .settle_limit = StoreSession::kSettleLimit}, identity);
  const Timestamp now = Now();
  Puidv7Generator generator;
  const Puidv7 id = command_.operator_id.value_or(
      generator.Next("opr", deps_.loop.WallNow(), deps_.random.Array<10>()));
  OperatorRecord draft{
      .cert_serial = issuer.NewSerial().decimal(),
      .client_id = id.text(),
      .expires_at = now + issuer.Clamp(command_.certificate_life, now),
      .generation = 1,
      .public_key_pem = key.ToPem(),
      .registered_at = now,
      .registered_by = "nstance-admin",
      .tenant = command_.tenant,
      .write_id = store_.NewWriteId(),
  };
  std::unique_ptr<OperatorEnrolment> enrolment;
  Result<EnrolledOperator> enrolled =
      Await<EnrolledOperator>(deps_.turns, [&](OperatorEnrolment::Done done) {
        enrolment = std::make_unique<OperatorEnrolment>(
            OperatorEnrolment::Deps{.loop = deps_.loop,
                                    .store = deps_.store,
                                    .jitter = store_.jitter(),
                                    .issuer = issuer},
            OperatorEnrolment::Request{
                .record = std::move(draft), .key = key, .settle_limit = StoreSession::kSettleLimit},
            std::move(done));
        enrolment->Start();
        return Pending();
      });
  Pause(deps_.turns, deps_.loop, Duration::Milliseconds(1));  // What the issuer lets go of.
  if (!enrolled.has_value() && enrolled.error().code == Code::kAlreadyExists) {
    return Fail(FailedPrecondition(enrolled.error().message + ": use another key"));
  }
  return enrolled;
}

}  // namespace

Ending Run(const ClusterNonce& command, const CommonFlags& common, const StorageDeps& deps) {
  const Result<Nonce> nonce = MakeNonce(command, deps);
  if (!nonce.has_value()) return Failed(nonce.error(), common.output);
  const std::string expires = FormatTimestamp(nonce->expires_at);
  if (command.output == "-") {
    if (common.output == Output::kJson) {
      return Told(
          {{"token", nonce->token}, {"tenant", command.tenant.text()}, {"expires_at", expires}},
          nonce->warnings, common);
    }
    Ending ending = Told({}, nonce->warnings, common);
    ending.out = nonce->token + "\n";
    return ending;
  }
  const FilePlace place = PlaceOf(command.output);
  const Result<std::unique_ptr<AgentFiles>> folder = deps.machine.OpenFolder(place.folder);
  if (!folder.has_value()) return Failed(folder.error(), common.output);
  const Status written = (*folder)->Replace(place.name, nonce->token);
  if (!written.has_value()) return Failed(written.error(), common.output);
  return Told(
      {{"path", command.output}, {"tenant", command.tenant.text()}, {"expires_at", expires}},
      nonce->warnings, common);
}

Ending Run(const ClusterRegisterOperator& command, const CommonFlags& common,
           const StorageDeps& deps) {
  Registration registration(command, deps);
  const Result<EnrolledOperator> enrolled = registration.Do();
  if (!enrolled.has_value()) return Failed(enrolled.error(), common.output);
  return Told({{"operator_id", enrolled->record.client_id},
               {"tenant", enrolled->record.tenant.text()},
               {"expires_at", FormatTimestamp(enrolled->record.expires_at)},
               {"directory", command.output_dir}},
              registration.warnings(), common);
}

}  // namespace nstance::admin
