// PEM: the text form of keys and certificates.
//
// Two readers. The strict one is for what a peer sends: exactly one block, exactly as WritePem()
// writes it (lines of 64 characters, \n, no text around), except that the last newline may be
// missing. The tolerant one is for files that people keep: text between the blocks, CRLF and other
// line lengths are allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_probe.h"
#include "base/result.h"
#include "base/text.h"

namespace nstance::crypto {

// What a block holds, and how long its whole text may be for ReadPem().
struct PemKind {
  std::string_view label;
  std::size_t max_bytes = 0;
};

inline constexpr PemKind kCertificatePem = {.label = "CERTIFICATE",
                                            .max_bytes = std::size_t{64} * 1024};
inline constexpr PemKind kPrivateKeyPem = {.label = "PRIVATE KEY",
                                           .max_bytes = std::size_t{4} * 1024};
inline constexpr PemKind kPublicKeyPem = {.label = "PUBLIC KEY",
                                          .max_bytes = std::size_t{4} * 1024};

inline constexpr std::size_t kMaxPemBundleBytes = std::size_t{64} * 1024;

[[nodiscard]] std::string WritePem(const PemKind& kind, std::span<const std::uint8_t> bytes);

// The content of the one block in `text`. Anything else is kInvalidArgument, also a text that is
// too long. The bytes are as secret as the text was: Wipe() them where that matters.
[[nodiscard]] Result<Bytes> ReadPem(std::string_view text, const PemKind& kind,
                                    InputSource source = {});

// The content of the first block in `text`, which must be of that kind; read tolerantly. What
// follows it is not looked at. kInvalidArgument: no block, another kind, or a block that is too
// long.
[[nodiscard]] Result<Bytes> ReadFirstPem(std::string_view text, const PemKind& kind,
                                         InputSource source = {});

// The contents of 1 to `max_blocks` CERTIFICATE blocks, in order. Blocks of another label are
// kInvalidArgument, so is a text without any; more blocks or a text above kMaxPemBundleBytes are
// kResourceExhausted.
[[nodiscard]] Result<std::vector<Bytes>> ReadPemBundle(std::string_view text,
                                                       std::size_t max_blocks,
                                                       InputSource source = {});

}  // namespace nstance::crypto
