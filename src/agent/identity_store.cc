#include "agent/identity_store.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "base/fault_point.h"
#include "base/text.h"
#include "crypto/pem.h"
#include "crypto/registration_token.h"
#include "crypto/secret.h"

namespace nstance::agent {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::size_t kMaxHashBytes = 256;

std::string Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kBlanks) - first + 1));
}

}  // namespace

Result<std::vector<crypto::Certificate>> IdentityStore::ReadRoots() {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, files_.Read(kRoots));
  if (!text) {
    return Fail(FailedPrecondition(
        fmt::format("{} is missing: the cluster's roots are needed", files_.PathOf(kRoots))));
  }
  Result<std::vector<crypto::Certificate>> roots = crypto::TrustBundleFromPem(*text);
  if (roots) return roots;
  return Fail(
      FailedPrecondition(fmt::format("{}: {}", files_.PathOf(kRoots), roots.error().message)));
}

Result<std::optional<crypto::PrivateKey>> IdentityStore::ReadKey(std::string_view name) {
  ASSIGN_OR_RETURN(std::optional<std::string> text, files_.Read(name));
  if (!text) return std::nullopt;
  Result<crypto::PrivateKey> key = crypto::PrivateKey::FromPem(*text);
  crypto::Wipe(*text);
  if (!key) {
    return Fail(
        FailedPrecondition(fmt::format("{}: {}", files_.PathOf(name), key.error().message)));
  }
  return std::optional<crypto::PrivateKey>(*std::move(key));
}

crypto::PrivateKey IdentityStore::NewKey() {
  constexpr std::size_t kSize = crypto::PrivateKey::kSeedSize;
  crypto::Secret seed(kSize);
  random_.Fill(seed.MutableBytes());
  return crypto::PrivateKey::FromSeed(std::span<const std::uint8_t, kSize>(seed.Reveal()));
}

Status IdentityStore::WriteKey(std::string_view name, const crypto::PrivateKey& key) {
  const crypto::Secret pem = key.ToPem();
  return files_.Replace(name, AsText(pem.Reveal()));
}

// A key that cannot be parsed counts as none: the plan repairs or drops what belongs to it. One
// that cannot be read at this moment is an error: nothing may be dropped for it.
Result<std::optional<crypto::PublicKey>> IdentityStore::PublicHalf(std::string_view name) {
  Result<std::optional<std::string>> read = files_.Read(name);
  if (!read && read.error().code != Code::kFailedPrecondition) return Fail(read.error());
  if (!read || !*read) return std::nullopt;
  std::string& text = **read;
  const crypto::Sha256Digest digest = crypto::Sha256(AsBytes(text));
  auto known = std::ranges::find(known_, digest, &Known::file);
  if (known == known_.end()) {
    const Result<crypto::PrivateKey> key = crypto::PrivateKey::FromPem(text);
    if (known_.size() == kMostKnown) known_.erase(known_.begin());
    known_.push_back(
        {.file = digest, .key = key ? std::optional(key->public_key()) : std::nullopt});
    known = std::prev(known_.end());
  }
  crypto::Wipe(text);
  return known->key;
}

Result<SwapFiles> IdentityStore::Look() {
  SwapFiles found;
  ASSIGN_OR_RETURN(found.keys.key, PublicHalf(kKey));
  ASSIGN_OR_RETURN(found.keys.next_key, PublicHalf(kNextKey));
  ASSIGN_OR_RETURN(const std::optional<std::string> public_key, files_.Read(kPublicKey));
  if (public_key) {
    if (const auto parsed = crypto::PublicKey::FromPem(*public_key)) {
      found.keys.public_key = *parsed;
    }
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> next, files_.Read(kNextCertificate));
  found.has_next_certificate = next.has_value();
  if (next) {
    if (const auto parsed = crypto::Certificate::FromPem(*next)) {
      found.keys.next_certificate = parsed->facts().public_key;
    }
  }
  return found;
}

Status IdentityStore::Make(SwapStep step, const SwapFiles& files) {
  switch (step) {
    case SwapStep::kMoveKey: return files_.Move(kNextKey, kKey);
    case SwapStep::kWritePublicKey: return files_.Replace(kPublicKey, files.keys.key->ToPem());
    case SwapStep::kMoveCertificate: return files_.Move(kNextCertificate, kCertificate);
    case SwapStep::kDropCertificate: return files_.Remove(kNextCertificate);
  }
  return {};
}

Result<bool> IdentityStore::SwapOne() {
  ASSIGN_OR_RETURN(const SwapFiles files, Look());
  const std::vector<SwapStep> steps = PlanSwap(files);
  if (steps.empty()) return false;
  RETURN_IF_ERROR(Make(steps.front(), files));
  return true;
}

Result<IdentityStore::Loaded> IdentityStore::LoadIdentity() {
  // No exchange has more steps than this.
  for (int i = 0; i < 8; ++i) {
    ASSIGN_OR_RETURN(const bool more, SwapOne());
    if (!more) break;
  }
  ASSIGN_OR_RETURN(std::optional<crypto::PrivateKey> key, ReadKey(kKey));
  ASSIGN_OR_RETURN(std::optional<std::string> certificate, files_.Read(kCertificate));
  if (!key) {
    if (certificate) {
      return Fail(
          FailedPrecondition(fmt::format("{} is missing, and {} is of no use without it",
                                         files_.PathOf(kKey), files_.PathOf(kCertificate))));
    }
    key = NewKey();
    if (!Planted(Plant::kJoinKeyInMemory)) RETURN_IF_ERROR(WriteKey(kKey, *key));
    RETURN_IF_ERROR(files_.Replace(kPublicKey, key->public_key().ToPem()));
  }
  return Loaded{.key = std::make_shared<const crypto::PrivateKey>(*std::move(key)),
                .certificate_pem = std::move(certificate)};
}

Result<std::optional<std::string>> IdentityStore::ReadNonce() {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, files_.Read(kNonce));
  if (!text) return std::nullopt;
  return Trimmed(*text);
}

std::string IdentityStore::ConfigHash() {
  const auto text = files_.Read(kConfigHash);
  if (!text || !*text) return {};
  std::string hash = Trimmed(**text);
  return hash.size() <= kMaxHashBytes && IsValidUtf8(hash) ? hash : std::string();
}

Status IdentityStore::AddConfigHash(std::string_view hash) {
  ASSIGN_OR_RETURN(const std::optional<std::string> present, files_.Read(kConfigHash));
  if (present || hash.empty()) return {};
  return files_.Replace(kConfigHash, hash);
}

Result<PrivateKeyPtr> IdentityStore::NextKey() {
  // One that cannot be parsed was never shown to anybody by this store: it is replaced.
  Result<std::optional<crypto::PrivateKey>> kept = ReadKey(kNextKey);
  if (!kept && kept.error().code != Code::kFailedPrecondition) return Fail(kept.error());
  const bool keeps = !Planted(Plant::kNewKeyEachTry);
  if (keeps && kept && *kept) return std::make_shared<const crypto::PrivateKey>(*std::move(*kept));
  auto made = std::make_shared<const crypto::PrivateKey>(NewKey());
  RETURN_IF_ERROR(WriteKey(kNextKey, *made));
  return made;
}

}  // namespace nstance::agent
