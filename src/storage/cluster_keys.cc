#include "storage/cluster_keys.h"

#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace nstance {
namespace {

crypto::PrivateKey NewKey(SecureRandom& random) {
  auto seed = crypto::Secret(crypto::PrivateKey::kSeedSize);
  random.Fill(seed.MutableBytes());
  return crypto::PrivateKey::FromSeed(seed.Reveal().first<crypto::PrivateKey::kSeedSize>());
}

Result<std::string> TextOf(Result<Object> object) {
  if (!object) return Fail(std::move(object).error());
  return std::move(object->bytes);
}

Status WithoutVersion(Result<ObjectVersion> version) {
  if (!version) return Fail(std::move(version).error());
  return {};
}

}  // namespace

ClusterKeys::ClusterKeys(Deps deps, Options options, Owner owner)
    : deps_(std::move(deps)),
      options_(std::move(options)),
      owner_(std::move(owner)),
      new_key_([this] { return NewKey(deps_.random); }),
      machine_(options_.machine) {}

ClusterKeysMachine::Input ClusterKeys::Input() {
  return {.right = owner_.may_create() ? ClusterKeysMachine::Right::kMayCreate
                                       : ClusterKeysMachine::Right::kReadOnly,
          .wall_now = deps_.loop.WallNow(),
          .new_key = new_key_,
          .jitter = deps_.jitter};
}

void ClusterKeys::Hurry() {
  if (!waiting_) return;
  waiting_ = false;
  Do(machine_.OnWoke());
}

void ClusterKeys::Do(ClusterKeysMachine::Command command) {
  std::visit(
      Overloaded{
          [this](ClusterKeysMachine::ReadCertificate&) {
            call_ = deps_.store.Get(options_.certificate, [this](Result<Object> object) {
              if (object) version_ = object->version;
              Do(machine_.OnCertificate(TextOf(std::move(object)), Input()));
            });
          },
          [this](ClusterKeysMachine::ReadSecret& read) {
            call_ = deps_.secrets.Get(read.name, [this](Result<crypto::Secret> value) {
              Do(machine_.OnSecret(std::move(value), Input()));
            });
          },
          [this](ClusterKeysMachine::CreateSecret& create) {
            deps_.log.Info("creating a secret of the cluster", {{"name", create.name.text()}});
            call_ = deps_.secrets.Create(
                create.name, std::move(create.value),
                [this](Status status) { Do(machine_.OnCreated(std::move(status), Input())); });
          },
          [this](ClusterKeysMachine::CreateCertificate& create) {
            CreateCertificate(std::move(create.pem));
          },
          [this](ClusterKeysMachine::Wait& wait) {
            waiting_ = true;
            call_ = deps_.loop.CallAfter(wait.length, [this] { Hurry(); });
            owner_.waits(std::move(wait.reason));
          },
          [this](ClusterKeysMachine::Finish& finish) {
            identity_ = std::move(finish.identity);
            WatchLater();
            owner_.waits(std::nullopt);
            owner_.ready(identity_);
          },
          [this](ClusterKeysMachine::Fail& fail) {
            call_ = Pending();
            auto tell = std::move(owner_.failed);
            tell(std::move(fail.why));
          },
      },
      command);
}

void ClusterKeys::CreateCertificate(std::string pem) {
  deps_.log.Info("creating the cluster's CA certificate", {{"key", options_.certificate.text()}});
  put_.emplace(
      SettledPut::Deps{.loop = deps_.loop, .store = deps_.store, .jitter = deps_.jitter},
      SettledPut::Request{
          .put = {.key = options_.certificate, .bytes = std::move(pem), .condition = IfAbsent{}},
          .deadline = deps_.loop.Now() + options_.settle_limit},
      [this](Result<ObjectVersion> version) {
        Do(machine_.OnCreated(WithoutVersion(std::move(version)), Input()));
      });
  put_->Start();
}

// ---- the trust bundle ---------------------------------------------------------------------------

void ClusterKeys::WatchLater() {
  call_ = deps_.loop.CallAfter(options_.watch_interval, [this] {
    call_ = deps_.store.Head(options_.certificate,
                             [this](const Result<ObjectHead>& head) { OnHead(head); });
  });
}

void ClusterKeys::OnHead(const Result<ObjectHead>& head) {
  // What cannot be read changes nothing; a bundle that vanished neither.
  if (!head || head->version == version_) return WatchLater();
  call_ = deps_.store.Get(options_.certificate,
                          [this](const Result<Object>& object) { OnBundle(object); });
}

void ClusterKeys::OnBundle(const Result<Object>& object) {
  WatchLater();
  if (!object) return;
  version_ = object->version;
  auto roots = crypto::TrustBundleFromPem(object->bytes, {.interface = "ca.crt"});
  if (!roots) {
    deps_.log.Error("changed ca.crt is not used", {{"error", roots.error()}});
    return;
  }
  if (roots->front() != identity_->authority->certificate()) {
    deps_.log.Error("changed ca.crt is not used: another root stands first, and the first signs");
    return;
  }
  if (*roots == identity_->roots) return;
  auto changed = std::make_shared<ClusterIdentity>(*identity_);
  changed->roots = *std::move(roots);
  changed->ca_pem = object->bytes;
  identity_ = std::move(changed);
  deps_.log.Info("trust bundle changed", {{"roots", identity_->roots.size()}});
  owner_.roots_changed(identity_);
}

}  // namespace nstance
