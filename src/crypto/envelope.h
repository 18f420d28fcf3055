// The envelope that seals secrets at rest: AES-256-GCM, bound to the cluster and the object's name.
//
// Form v1:
//   0   4       "NSEC"
//   4   1       version 01
//   5   1       algorithm 01 = AES-256-GCM
//   6   2       zero
//   8   8       key id = first 8 bytes of SHA-256("nstance-key-id\0" + key)
//   16  12      nonce
//   28  n + 16  ciphertext, tag
// Associated data: bytes 0 to 15, cluster id, NUL, object name. A blob copied to another name or
// cluster does not open. Legacy form, of the Go implementation: nonce, ciphertext, tag; no
// associated data.
//
// Guarantees, each held by a test:
//   - a blob with any bit changed, cut or lengthened does not open
//   - a blob that starts with "NSEC" is read as v1 only, with the key that its id names; there is
//     no fallback. All others are legacy: the current key is tried, then each old one in order
//   - what does not open gives an error without a byte of the content
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/input_probe.h"
#include "base/name.h"
#include "base/result.h"
#include "base/text.h"
#include "crypto/secret.h"

namespace nstance::crypto {

inline constexpr std::size_t kEnvelopeNonceSize = 12;
// Longest plain text, for sealing and opening: kResourceExhausted beyond.
inline constexpr std::size_t kMaxSealedBytes = std::size_t{16} * 1024 * 1024;

using KeyId = std::array<std::uint8_t, 8>;
using EnvelopeNonce = std::array<std::uint8_t, kEnvelopeNonceSize>;

class EncryptionKey final {
 public:
  static constexpr std::size_t kSize = 32;

  // What a key source holds. Exactly 32 bytes are the key itself; else white space at both ends is
  // removed and 32 bytes, 64 hex digits or padded base64 of 32 bytes are accepted. The error never
  // quotes it.
  [[nodiscard]] static Result<EncryptionKey> Parse(std::span<const std::uint8_t> value);

  // Names the key in envelopes; safe to log.
  [[nodiscard]] const KeyId& id() const { return id_; }
  [[nodiscard]] std::span<const std::uint8_t> Reveal() const { return key_.Reveal(); }

 private:
  explicit EncryptionKey(std::span<const std::uint8_t> key);

  Secret key_;
  KeyId id_;
};

// The current key seals; all of them open.
struct KeyRing {
  EncryptionKey current;
  std::vector<EncryptionKey> old;
};

enum class EnvelopeForm : std::uint8_t { kV1, kLegacy };

// What a sealed value belongs to; `object` is the full object name without the storage prefix.
struct SealedPlace {
  const ClusterId& cluster;
  std::string_view object;
};

struct SealOptions {
  SealedPlace place;
  EnvelopeForm form = EnvelopeForm::kV1;
  // From SecureRandom, new for every call: two values under one nonce give both away.
  EnvelopeNonce nonce = {};
};

[[nodiscard]] Result<Bytes> Seal(const EncryptionKey& key, std::span<const std::uint8_t> plain,
                                 const SealOptions& options);

enum class LegacyPolicy : std::uint8_t { kAllowed, kRefused };

struct OpenOptions {
  SealedPlace place;
  LegacyPolicy legacy = LegacyPolicy::kAllowed;
  InputSource source;
};

struct OpenedSecret {
  Secret plain;
  EnvelopeForm form = EnvelopeForm::kV1;  // Legacy reads are counted and sealed anew by the caller.
};

// The key that a blob of form v1 names; empty for any other form. Opens and checks nothing.
[[nodiscard]] std::optional<KeyId> SealedWith(std::span<const std::uint8_t> sealed);

// kFailedPrecondition: no key of that id, or legacy refused. kDataLoss: damaged, of an unknown
// version, or sealed for another place. Reasons are for the log, not for a peer.
[[nodiscard]] Result<OpenedSecret> Open(const KeyRing& keys, std::span<const std::uint8_t> sealed,
                                        const OpenOptions& options);

}  // namespace nstance::crypto
