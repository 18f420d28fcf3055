// The words that the file uses for the values of each enumeration, in the order in which messages
// and the reference list them. A second word for a value (`google`) comes after the first.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/config/config.h"

namespace nstance::config {

template <class E>
struct WordEntry {
  std::string_view word;
  E value;
};

// Defined for every enumeration of config.h.
template <class E>
[[nodiscard]] std::span<const WordEntry<E>> WordsOf();

// clang-format off
template <> std::span<const WordEntry<ProviderKind>> WordsOf();
template <> std::span<const WordEntry<QemuAccel>> WordsOf();
template <> std::span<const WordEntry<SecretsProvider>> WordsOf();
template <> std::span<const WordEntry<KeyProvider>> WordsOf();
template <> std::span<const WordEntry<Envelope>> WordsOf();
template <> std::span<const WordEntry<StorageProvider>> WordsOf();
template <> std::span<const WordEntry<ImageSort>> WordsOf();
template <> std::span<const WordEntry<ImageOrder>> WordsOf();
template <> std::span<const WordEntry<CertificateKind>> WordsOf();
template <> std::span<const WordEntry<Arch>> WordsOf();
template <> std::span<const WordEntry<FileKind>> WordsOf();
template <> std::span<const WordEntry<PoolReclaim>> WordsOf();
template <> std::span<const WordEntry<PoolState>> WordsOf();
template <> std::span<const WordEntry<PoolOnEmpty>> WordsOf();
template <> std::span<const WordEntry<UserDataSource>> WordsOf();
template <> std::span<const WordEntry<UserDataEncoding>> WordsOf();
// clang-format on

template <class E>
[[nodiscard]] std::optional<E> FromWord(std::string_view word) {
  for (const WordEntry<E>& entry : WordsOf<E>()) {
    if (entry.word == word) return entry.value;
  }
  return std::nullopt;
}

}  // namespace nstance::config
