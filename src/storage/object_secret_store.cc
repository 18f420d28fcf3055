#include "storage/object_secret_store.h"

#include <memory>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"
#include "storage/settled_put.h"

namespace nstance {
namespace {

const metrics::Family& LegacyReadsFamily() {
  static const metrics::Family family = {
      .name = "secrets_legacy_reads_total",
      .help = "Secrets that were read in the legacy form, which is not bound to its place.",
      .labels = {},
      .buckets = {}};
  return family;
}

template <class T>
Pending AnswerLater(Loop& loop, Error error, SecretStore::Done<T> done) {
  return loop.CallAt(loop.Now(), [error = std::move(error), done = std::move(done)]() mutable {
    done(Fail(std::move(error)));
  });
}

std::string SecretText(const ObjectKey& full) { return fmt::format("secret {}", full.text()); }

}  // namespace

ObjectSecretStore::ObjectSecretStore(Deps deps, Options options)
    : deps_(deps), options_(std::move(options)) {}

Pending ObjectSecretStore::Get(const ObjectKey& name, Done<crypto::Secret> done) {
  const Result<ObjectKey> full = FullName(name);
  if (!full) return AnswerLater(deps_.loop, full.error(), std::move(done));
  return deps_.store.Get(
      *full, [this, full = *full, done = std::move(done)](Result<Object> object) mutable {
        if (!object) return done(Fail(std::move(object).error().Under(SecretText(full))));
        done(Open(full, *object));
      });
}

Pending ObjectSecretStore::Create(const ObjectKey& name, crypto::Secret value, Done<void> done) {
  const Result<ObjectKey> full = FullName(name);
  if (!full) return AnswerLater(deps_.loop, full.error(), std::move(done));
  Result<std::string> sealed = Seal(*full, value);
  if (!sealed) return AnswerLater(deps_.loop, std::move(sealed).error(), std::move(done));

  // The Pending owns the write: dropping it drops the read-backs as well.
  auto put = std::make_shared<std::unique_ptr<SettledPut>>();
  *put = std::make_unique<SettledPut>(
      SettledPut::Deps{.loop = deps_.loop, .store = deps_.store, .jitter = deps_.jitter},
      SettledPut::Request{
          .put = {.key = *full, .bytes = *std::move(sealed), .condition = IfAbsent{}},
          .deadline = deps_.loop.Now() + options_.settle_limit},
      [full = *full, done = std::move(done)](Result<ObjectVersion> version) mutable {
        if (version) return done({});
        if (version.error().code == Code::kAborted) {
          return done(Fail(AlreadyExists(SecretText(full) + ": another value stands")));
        }
        done(Fail(std::move(version).error().Under(SecretText(full))));
      });
  (*put)->Start();
  return Pending([put] { put->reset(); });
}

Result<ObjectKey> ObjectSecretStore::FullName(const ObjectKey& name) const {
  return ObjectKey::Parse(options_.prefix + name.text());
}

Result<crypto::Secret> ObjectSecretStore::Open(const ObjectKey& full, const Object& object) {
  Result<crypto::OpenedSecret> opened =
      crypto::Open(options_.keys, AsBytes(object.bytes),
                   {.place = {.cluster = options_.cluster, .object = full.text()},
                    .legacy = options_.legacy,
                    .source = {}});
  if (!opened) return Fail(std::move(opened).error().Under(SecretText(full)));
  if (opened->form == crypto::EnvelopeForm::kLegacy) {
    deps_.metrics.Counter(LegacyReadsFamily(), {}).Add();
  }
  return std::move(opened->plain);
}

Result<std::string> ObjectSecretStore::Seal(const ObjectKey& full, const crypto::Secret& value) {
  const auto nonce = deps_.random.Array<crypto::kEnvelopeNonceSize>();
  const Result<Bytes> sealed =
      crypto::Seal(options_.keys.current, value.Reveal(),
                   {.place = {.cluster = options_.cluster, .object = full.text()},
                    .form = options_.written_form,
                    .nonce = nonce});
  if (!sealed) return Fail(sealed.error().Under(SecretText(full)));
  return std::string(AsText(*sealed));
}

}  // namespace nstance
