#include "crypto/envelope.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "crypto/digest.h"
#include "crypto/openssl_error_scope.h"

namespace nstance::crypto {
namespace {

using View = std::span<const std::uint8_t>;

constexpr std::string_view kMagic = "NSEC";
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kAesGcm = 1;
constexpr std::size_t kKeyIdOffset = 8;
constexpr std::size_t kHeaderSize = 16;
constexpr std::size_t kTagSize = 16;

struct CipherFree {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, CipherFree>;

Error Damaged(std::string message) {
  return Error{
      .code = Code::kDataLoss, .outcome = Outcome::kNotDone, .message = std::move(message)};
}

KeyId IdOf(View key) {
  constexpr std::string_view kPrefix("nstance-key-id\0", 15);
  Secret input(kPrefix.size() + key.size());
  const auto rest = std::ranges::copy(AsBytes(kPrefix), input.MutableBytes().begin()).out;
  std::ranges::copy(key, rest);
  const Sha256Digest digest = Sha256(input.Reveal());
  KeyId id{};
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

Bytes Header(const KeyId& id) {
  Bytes header(kHeaderSize);
  std::ranges::copy(AsBytes(kMagic), header.begin());
  header[4] = kVersion;
  header[5] = kAesGcm;
  std::ranges::copy(id, header.begin() + kKeyIdOffset);
  return header;
}

Bytes AssociatedData(View header, const SealedPlace& place) {
  Bytes data(header.begin(), header.end());
  const View cluster = AsBytes(place.cluster.text());
  const View object = AsBytes(place.object);
  data.insert(data.end(), cluster.begin(), cluster.end());
  data.push_back(0);
  data.insert(data.end(), object.begin(), object.end());
  return data;
}

// Lengths are below kMaxSealedBytes.
int Size(View bytes) { return static_cast<int>(bytes.size()); }

// Ciphertext and tag.
Bytes Encrypt(const EncryptionKey& key, View nonce, View associated, View plain) {
  const Cipher cipher(EVP_CIPHER_CTX_new());
  CHECK(cipher != nullptr, "no memory");
  Bytes out(plain.size() + kTagSize);
  int length = 0;
  int done = 0;
  bool good = EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key.Reveal().data(),
                                 nonce.data()) == 1;
  if (!associated.empty()) {
    good = good && EVP_EncryptUpdate(cipher.get(), nullptr, &length, associated.data(),
                                     Size(associated)) == 1;
  }
  if (!plain.empty()) {
    good =
        good && EVP_EncryptUpdate(cipher.get(), out.data(), &done, plain.data(), Size(plain)) == 1;
  }
  good = good && EVP_EncryptFinal_ex(cipher.get(), out.data() + done, &length) == 1 &&
         EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagSize,
                             out.data() + plain.size()) == 1;
  CHECK(good, "AES-256-GCM of {} bytes", plain.size());
  return out;
}

// Nothing when the tag is wrong. REQUIRES: `sealed` has at least a tag.
std::optional<Secret> Decrypt(const EncryptionKey& key, View nonce, View associated, View sealed) {
  const OpensslErrorScope errors;
  const Cipher cipher(EVP_CIPHER_CTX_new());
  CHECK(cipher != nullptr && sealed.size() >= kTagSize, "{} bytes", sealed.size());
  const View text = sealed.first(sealed.size() - kTagSize);
  Bytes tag(sealed.end() - kTagSize, sealed.end());
  Secret plain(text.size());
  std::uint8_t nothing = 0;
  std::uint8_t* out = plain.empty() ? &nothing : plain.MutableBytes().data();
  int length = 0;
  int done = 0;
  bool good = EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, key.Reveal().data(),
                                 nonce.data()) == 1;
  if (!associated.empty()) {
    good = good && EVP_DecryptUpdate(cipher.get(), nullptr, &length, associated.data(),
                                     Size(associated)) == 1;
  }
  if (!text.empty()) {
    good = good && EVP_DecryptUpdate(cipher.get(), out, &done, text.data(), Size(text)) == 1;
  }
  good = good && EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagSize, tag.data()) == 1;
  CHECK(good, "AES-256-GCM of {} bytes", text.size());
  if (EVP_DecryptFinal_ex(cipher.get(), out + done, &length) != 1) return std::nullopt;
  return plain;
}

const EncryptionKey* FindKey(const KeyRing& keys, View id) {
  if (std::ranges::equal(keys.current.id(), id)) return &keys.current;
  for (const EncryptionKey& key : keys.old) {
    if (std::ranges::equal(key.id(), id)) return &key;
  }
  return nullptr;
}

Result<OpenedSecret> OpenV1(const KeyRing& keys, View sealed, const SealedPlace& place) {
  constexpr std::size_t kSmallest = kHeaderSize + kEnvelopeNonceSize + kTagSize;
  if (sealed.size() < kSmallest) return Fail(Damaged("sealed secret is cut short"));
  const View header = sealed.first(kHeaderSize);
  if (header[4] != kVersion || header[5] != kAesGcm) {
    return Fail(Damaged(fmt::format("sealed secret is of unknown version {} or algorithm {}",
                                    header[4], header[5])));
  }
  if (header[6] != 0 || header[7] != 0) {
    return Fail(Damaged("sealed secret has reserved bytes that are not zero"));
  }
  const View id = header.subspan(kKeyIdOffset);
  const EncryptionKey* key = FindKey(keys, id);
  if (key == nullptr) {
    return Fail(FailedPrecondition(
        fmt::format("sealed secret needs the key with id {}, which is not loaded", HexEncode(id))));
  }
  std::optional<Secret> plain =
      Decrypt(*key, sealed.subspan(kHeaderSize, kEnvelopeNonceSize), AssociatedData(header, place),
              sealed.subspan(kHeaderSize + kEnvelopeNonceSize));
  if (!plain.has_value()) {
    return Fail(Damaged("sealed secret is damaged or belongs to another object or cluster"));
  }
  return OpenedSecret{.plain = *std::move(plain), .form = EnvelopeForm::kV1};
}

Result<OpenedSecret> OpenLegacy(const KeyRing& keys, View sealed) {
  if (sealed.size() < kEnvelopeNonceSize + kTagSize) {
    return Fail(Damaged("sealed secret of the legacy form is cut short"));
  }
  const View nonce = sealed.first(kEnvelopeNonceSize);
  const View rest = sealed.subspan(kEnvelopeNonceSize);
  std::optional<Secret> plain = Decrypt(keys.current, nonce, {}, rest);
  for (const EncryptionKey& key : keys.old) {
    if (plain.has_value()) break;
    plain = Decrypt(key, nonce, {}, rest);
  }
  if (!plain.has_value()) {
    return Fail(Damaged("sealed secret of the legacy form is damaged or of another key"));
  }
  return OpenedSecret{.plain = *std::move(plain), .form = EnvelopeForm::kLegacy};
}

Result<OpenedSecret> OpenAny(const KeyRing& keys, View sealed, const OpenOptions& options) {
  if (sealed.size() > kMaxSealedBytes + kHeaderSize + kEnvelopeNonceSize + kTagSize) {
    return Fail(ResourceExhausted(fmt::format("sealed secret has {} bytes", sealed.size())));
  }
  if (AsText(sealed).starts_with(kMagic)) return OpenV1(keys, sealed, options.place);
  if (options.legacy == LegacyPolicy::kRefused) {
    return Fail(FailedPrecondition("secret is not sealed in form v1 and legacy is not allowed"));
  }
  return OpenLegacy(keys, sealed);
}

View Trim(View value) {
  const auto blank = [](std::uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!value.empty() && blank(value.front())) value = value.subspan(1);
  while (!value.empty() && blank(value.back())) value = value.first(value.size() - 1);
  return value;
}

}  // namespace

EncryptionKey::EncryptionKey(View key) : key_(Secret::CopyOf(key)), id_(IdOf(key)) {}

Result<EncryptionKey> EncryptionKey::Parse(View value) {
  constexpr std::size_t kBase64Size = 44;
  if (value.size() == kSize) return EncryptionKey(value);
  value = Trim(value);
  if (value.size() == kSize) return EncryptionKey(value);
  Result<Bytes> decoded = Fail(InvalidArgument("neither"));
  if (value.size() == 2 * kSize) decoded = HexDecode(AsText(value));
  if (value.size() == kBase64Size) decoded = Base64Decode(AsText(value));
  if (!decoded.has_value() || decoded->size() != kSize) {
    if (decoded.has_value()) Wipe(*decoded);
    return Fail(InvalidArgument(
        fmt::format("encryption key of {} bytes is neither 32 bytes nor 64 hex digits nor base64 "
                    "of 32 bytes",
                    value.size())));
  }
  EncryptionKey key(*decoded);
  Wipe(*decoded);
  return key;
}

Result<Bytes> Seal(const EncryptionKey& key, View plain, const SealOptions& options) {
  if (plain.size() > kMaxSealedBytes) {
    return Fail(ResourceExhausted(
        fmt::format("secret has {} bytes, {} are allowed", plain.size(), kMaxSealedBytes)));
  }
  const bool v1 = options.form == EnvelopeForm::kV1;
  Bytes out = v1 ? Header(key.id()) : Bytes{};
  const Bytes associated = v1 ? AssociatedData(out, options.place) : Bytes{};
  const Bytes sealed = Encrypt(key, options.nonce, associated, plain);
  out.insert(out.end(), options.nonce.begin(), options.nonce.end());
  out.insert(out.end(), sealed.begin(), sealed.end());
  return out;
}

std::optional<KeyId> SealedWith(View sealed) {
  if (sealed.size() < kHeaderSize || !AsText(sealed).starts_with(kMagic) || sealed[4] != kVersion) {
    return std::nullopt;
  }
  KeyId id{};
  std::copy_n(sealed.begin() + kKeyIdOffset, id.size(), id.begin());
  return id;
}

Result<OpenedSecret> Open(const KeyRing& keys, View sealed, const OpenOptions& options) {
  Result<OpenedSecret> opened = OpenAny(keys, sealed, options);
  if (!opened.has_value()) {
    if (opened.error().code == Code::kResourceExhausted) {
      options.source.Limit("envelope-bytes");
    } else {
      options.source.Bad("envelope");
    }
  }
  return opened;
}

}  // namespace nstance::crypto
