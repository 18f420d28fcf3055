// Ed25519 keys and signatures: the only kind of key that Nstance makes or accepts.
//
// Text and byte forms. Public keys: SPKI, exactly the 44 bytes of RFC 8410, PEM `PUBLIC KEY`.
// Private keys: PKCS#8, exactly the 48 bytes that Go and OpenSSL write, PEM `PRIVATE KEY`. One key
// has one form; everything else is kInvalidArgument with a text that names the algorithm found, if
// it is a known one.
//
// Guarantees, each held by a test:
//   - a PublicKey is a point on the curve in reduced form (y < p) and not of small order: nobody
//     can make a signature that such a key verifies without holding its private key
//   - a signature verifies in one form only: S at or above the group order is refused
//   - signing is deterministic: the same key and message give the same 64 bytes
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/input_probe.h"
#include "base/result.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/secret.h"

// OpenSSL's EVP_PKEY.
struct evp_pkey_st;

namespace nstance::crypto {

inline constexpr std::size_t kSpkiSize = 44;

using Signature = std::array<std::uint8_t, 64>;
using Spki = std::array<std::uint8_t, kSpkiSize>;

class PublicKey final {
 public:
  static constexpr std::size_t kSize = 32;
  using Raw = std::array<std::uint8_t, kSize>;

  [[nodiscard]] static Result<PublicKey> FromRaw(std::span<const std::uint8_t> raw);
  [[nodiscard]] static Result<PublicKey> FromSpki(std::span<const std::uint8_t> der);
  // One strict PEM block (crypto/pem.h).
  [[nodiscard]] static Result<PublicKey> FromPem(std::string_view pem, InputSource source = {});

  [[nodiscard]] const Raw& raw() const { return raw_; }
  [[nodiscard]] Spki ToSpki() const;
  [[nodiscard]] std::string ToPem() const;
  // SHA-256 of the SPKI: the name under which records keep a key.
  [[nodiscard]] Sha256Digest SpkiSha256() const;

  // Whether `signature` is 64 bytes and this key's signature over `message`.
  [[nodiscard]] bool Verify(std::span<const std::uint8_t> message,
                            std::span<const std::uint8_t> signature) const;

  friend bool operator==(const PublicKey&, const PublicKey&) = default;

 private:
  friend class PrivateKey;
  explicit PublicKey(const Raw& raw) : raw_(raw) {}
  Raw raw_{};
};

// Move-only. The key itself is inside OpenSSL, in the secure heap once InitSecureHeap() has run.
class PrivateKey final {
 public:
  static constexpr std::size_t kSeedSize = 32;

  // Every 32 bytes are a key. A new one comes from SecureRandom; wipe the seed afterwards.
  [[nodiscard]] static PrivateKey FromSeed(std::span<const std::uint8_t, kSeedSize> seed);
  [[nodiscard]] static Result<PrivateKey> FromPem(std::string_view pem);

  PrivateKey(PrivateKey&&) noexcept = default;
  PrivateKey& operator=(PrivateKey&&) noexcept = default;
  PrivateKey(const PrivateKey&) = delete;
  PrivateKey& operator=(const PrivateKey&) = delete;
  ~PrivateKey() = default;

  [[nodiscard]] Secret ToPem() const;
  [[nodiscard]] Signature Sign(std::span<const std::uint8_t> message) const;
  [[nodiscard]] const PublicKey& public_key() const { return public_key_; }

  // For TLS set-up, which counts its own reference. Never null, except after a move.
  [[nodiscard]] evp_pkey_st* native_handle() const { return key_.get(); }

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  using Handle = std::unique_ptr<evp_pkey_st, Free>;

  PrivateKey(Handle key, const PublicKey& public_key)
      : key_(std::move(key)), public_key_(public_key) {}

  Handle key_;
  PublicKey public_key_;
};

}  // namespace nstance::crypto
