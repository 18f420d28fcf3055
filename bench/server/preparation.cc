#include "bench/server/preparation.h"

#include <filesystem>
#include <fstream>

#include <fmt/core.h>

#include "base/json.h"
#include "base/text.h"
#include "core/object_key.h"
#include "crypto/envelope.h"
#include "crypto/registration_token.h"

namespace nstance::bench {
namespace {

constexpr Duration kLookEvery = Duration::Milliseconds(20);
constexpr Duration kTokenLife = Duration::Hours(12);
// A record is written before the provider is called and after it.
constexpr std::int64_t kWritesPerInstance = 2;

crypto::EncryptionKey BenchKey() {
  return *crypto::EncryptionKey::Parse(AsBytes(kBenchEncryptionKey));
}

json::Member Of(std::string key, const std::string& value) {
  return {.key = std::move(key), .key_position = {}, .value = json::Value::String(value)};
}

}  // namespace

Preparation::Preparation(Deps deps, const BenchFlags& flags, Owner owner)
    : deps_(deps),
      flags_(flags),
      owner_(std::move(owner)),
      secrets_({.loop = deps.loop,
                .store = deps.store,
                .random = deps.random,
                .jitter = jitter_,
                .metrics = deps.metrics},
               {.cluster = *ClusterId::Parse(kBenchCluster),
                .keys = {.current = BenchKey(), .old = {}}}) {}

void Preparation::Start() {
  call_ = deps_.store.Put({.key = *ObjectKey::Parse(fmt::format("config/{}.jsonc", kBenchShard)),
                           .bytes = BenchConfig(flags_),
                           .condition = IfAbsent{}},
                          [this](const Result<ObjectVersion>& version) {
                            if (!version.has_value()) return owner_.failed(version.error());
                            owner_.configured();
                          });
}

void Preparation::Created(const ProviderCreate& request) {
  if (over_) return;  // A replacement: nobody joins with its token.
  ++created_;
  // User data is the token alone, as a line.
  const std::string token = request.user_data.substr(0, request.user_data.find('\n'));
  tokens_ +=
      json::Write(json::Value::Map({Of("instance_id", request.instance_id.text()),
                                    Of("tenant", request.tenant.text()), Of("token", token)})) +
      "\n";
}

void Preparation::Acting() {
  if (!over_) Look();
}

void Preparation::Look() {
  if (created_ < flags_.instances ||
      deps_.store.record_writes() < kWritesPerInstance * flags_.instances) {
    call_ = deps_.loop.CallAfter(kLookEvery, [this] { Look(); });
    return;
  }
  over_ = true;
  call_ = deps_.store.Get(*ObjectKey::Parse("ca.crt"), [this](Result<Object> ca) {
    if (!ca.has_value()) return owner_.failed(ca.error());
    ReadKey(std::move(ca->bytes));
  });
}

void Preparation::ReadKey(std::string ca) {
  call_ = secrets_.Get(*ObjectKey::Parse("registration-nonce.key"),
                       [this, ca = std::move(ca)](const Result<crypto::Secret>& sealed) {
                         if (!sealed.has_value()) return owner_.failed(sealed.error());
                         const auto signer = crypto::PrivateKey::FromPem(AsText(sealed->Reveal()));
                         if (!signer.has_value()) return owner_.failed(signer.error());
                         WriteFiles(ca, *signer);
                       });
}

void Preparation::WriteFiles(const std::string& ca, const crypto::PrivateKey& signer) {
  for (const auto& [name, text] : {std::pair<std::string, std::string>{"ca.crt", ca},
                                   {"tokens.jsonl", std::exchange(tokens_, std::string())},
                                   {"operator-tokens.jsonl", OperatorTokens(signer)}}) {
    if (const Status written = Write(name, text); !written.has_value()) {
      return owner_.failed(written.error());
    }
  }
  owner_.ready();
}

std::string Preparation::OperatorTokens(const crypto::PrivateKey& signer) const {
  const Timestamp now = deps_.loop.WallNow().TruncatedToSecond();
  std::string lines;
  for (const std::string& tenant : flags_.tenants) {
    const std::string token =
        crypto::SignRegistrationToken({.subject = kBenchCluster,
                                       .expires_at = now + kTokenLife,
                                       .not_before = now - crypto::kTokenBackdate,
                                       .issued_at = now - crypto::kTokenBackdate,
                                       .token_id = "bench-" + tenant,
                                       .kind = crypto::TokenKind::kOperator,
                                       .config_hash = {},
                                       .cluster = kBenchCluster,
                                       .shard = {},
                                       .group = {},
                                       .tenant = *TenantId::Parse(tenant)},
                                      signer);
    lines += json::Write(json::Value::Map({Of("tenant", tenant), Of("token", token)})) + "\n";
  }
  return lines;
}

Status Preparation::Write(const std::string& name, const std::string& text) const {
  std::ofstream file(flags_.dir + "/" + name, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  if (!file) return Fail(Unavailable(flags_.dir + "/" + name + ": cannot be written"));
  return {};
}

}  // namespace nstance::bench
