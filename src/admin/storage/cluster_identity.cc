#include "admin/storage/cluster_identity.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "storage/cluster_keys.h"

namespace nstance::admin {
namespace {

constexpr Duration kPatience = Duration::Seconds(20);

bool MayPass(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded;
}

Error NoKeysYet(const Error& error) {
  return FailedPrecondition(
      error.message +
      ": the cluster has no CA and token key yet; start a server, or run nstance-admin cluster "
      "init");
}

// Who may create what is missing.
using Right = ClusterKeysMachine::Right;

class Look final {
 public:
  Look(const StorageDeps& deps, StoreSession& store, Secrets& secrets)
      : deps_(deps), store_(store), secrets_(secrets), end_(deps.loop.Now() + kPatience) {}

  Result<ClusterIdentityRef> Run(ClusterKeysMachine::Options options, Right right) {
    ClusterKeys keys({.loop = deps_.loop,
                      .store = deps_.store,
                      .secrets = secrets_.store(),
                      .random = deps_.random,
                      .jitter = store_.jitter(),
                      .log = deps_.log.For("keys")},
                     {.machine = std::move(options), .settle_limit = StoreSession::kSettleLimit},
                     {.ready = [this](ClusterIdentityRef identity) { End(std::move(identity)); },
                      .failed = [this](Error why) { End(Fail(std::move(why))); },
                      .waits =
                          [this, right](const std::optional<Error>& why) {
                            if (!why) return;
                            const bool over = deps_.loop.Now() >= end_;
                            if (right == Right::kReadOnly || over || !MayPass(*why))
                              End(Fail(*why));
                          },
                      .may_create = [right] { return right == Right::kMayCreate; }});
    keys.Start();
    deps_.turns.Run();
    CHECK(answer_.has_value(), "the loop ended without an answer");
    return *std::move(answer_);
  }

 private:
  void End(Result<ClusterIdentityRef> answer) {
    if (answer_) return;
    answer_.emplace(std::move(answer));
    deps_.turns.Stop();
  }

  const StorageDeps& deps_;
  StoreSession& store_;
  Secrets& secrets_;
  Instant end_;
  std::optional<Result<ClusterIdentityRef>> answer_ = std::nullopt;
};

}  // namespace

Result<ClusterIdentityRef> CreateIdentity(const StorageDeps& deps, StoreSession& store,
                                          Secrets& secrets, ClusterKeysMachine::Options options) {
  Result<ClusterIdentityRef> identity =
      Look(deps, store, secrets).Run(std::move(options), Right::kMayCreate);
  if (identity.has_value()) return identity;
  return Fail(secrets.Explain(std::move(identity).error()));
}

Result<ClusterIdentityRef> ReadIdentity(const StorageDeps& deps, StoreSession& store,
                                        Secrets& secrets, const ClusterView& view) {
  // Looked at first, so that what is missing is told as such.
  for (const std::string& text :
       {CaCertificateKey().text(), view.secrets_prefix + CaSecretName().text(),
        view.secrets_prefix + NonceSecretName().text()}) {
    ASSIGN_OR_RETURN(const ObjectKey key, ObjectKey::Parse(text));
    const Result<Object> object = store.Get(key);
    if (object.has_value()) continue;
    if (object.error().code == Code::kNotFound) return Fail(NoKeysYet(object.error()));
    return Fail(object.error());
  }
  Result<ClusterIdentityRef> identity = Look(deps, store, secrets)
                                            .Run({.subject = {},
                                                  .ca_life = crypto::kDefaultCaLife,
                                                  .secret_prefix = view.secrets_prefix},
                                                 Right::kReadOnly);
  if (identity.has_value()) return identity;
  return Fail(secrets.Explain(std::move(identity).error()));
}

}  // namespace nstance::admin
