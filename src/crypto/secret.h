// Secret: bytes that must not leak: keys, private PEM text, decrypted secret values.
//
// Guarantees, each held by a test (but for the wiping: nobody can look into pages that are gone):
//   - the bytes live in pages of their own, which core dumps leave out (MADV_DONTDUMP) and which
//     are locked into memory as far as the process may lock (best effort: a refusal is not an
//     error)
//   - they are wiped before the pages go back, also when the secret is moved over
//   - there is no copy, no ==, no operator<<, no formatter and no conversion: reading the bytes
//     takes a call of Reveal(), which is easy to find in review
//
// A secret costs at least one page; it is for the few values that matter, not for bulk data.
// Running out of address space ends the process, as operator new does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/text.h"

namespace nstance::crypto {

class Secret final {
 public:
  // Empty; owns no page.
  Secret() = default;
  // `size` zero bytes, to be filled through MutableBytes().
  explicit Secret(std::size_t size);
  [[nodiscard]] static Secret CopyOf(std::span<const std::uint8_t> bytes);

  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret();

  friend bool operator==(const Secret&, const Secret&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  // Valid as long as this object, and until it is moved from.
  [[nodiscard]] std::span<const std::uint8_t> Reveal() const { return {data_, size_}; }
  [[nodiscard]] std::span<std::uint8_t> MutableBytes() { return {data_, size_}; }

 private:
  void Release();

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

// Overwrites and empties a buffer that held secret bytes on their way into a Secret.
void Wipe(std::string& text);
void Wipe(Bytes& bytes);

// Gives OpenSSL a heap of its own for private keys, out of core dumps and locked into memory as far
// as the process may lock. Every main calls it before the first key is made; a second call does
// nothing.
//
// The heap has a fixed size, a power of two, and OpenSSL does not fall back when it is full. It
// also holds one 32-byte key per open TLS connection: the usual size is for 100,000 connections. An
// agent, which has one or two, takes the small one, because all of it stays resident.
inline constexpr std::size_t kSecureHeapBytes = std::size_t{4} * 1024 * 1024;
inline constexpr std::size_t kSmallSecureHeapBytes = std::size_t{64} * 1024;
void InitSecureHeap(std::size_t bytes = kSecureHeapBytes);

}  // namespace nstance::crypto
