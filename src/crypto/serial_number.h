// SerialNumber: the serial of a certificate; positive, at most 20 bytes as DER counts them.
//
// Records, logs and the deny list keep its decimal text. Ours are 16 random bytes with the top bit
// cleared; the CA's own is 1; the Go implementation uses Unix nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text.h"

namespace nstance::crypto {

class SerialNumber final {
 public:
  // Content bytes of the DER INTEGER, sign byte included.
  static constexpr std::size_t kMaxBytes = 20;

  // `random` comes from SecureRandom. Its top bit is cleared; all zero, which chance never gives,
  // is 1.
  [[nodiscard]] static SerialNumber FromRandom(std::span<const std::uint8_t, 16> random);
  // The content of a DER INTEGER in its shortest form, which der::ReadInteger has checked.
  [[nodiscard]] static Result<SerialNumber> FromDer(std::span<const std::uint8_t> content);
  // Decimal digits without sign and leading zeros, as decimal() gives them.
  [[nodiscard]] static Result<SerialNumber> FromDecimal(std::string_view text);
  [[nodiscard]] static SerialNumber One();

  [[nodiscard]] const std::string& decimal() const { return decimal_; }
  // Content of the DER INTEGER.
  [[nodiscard]] const Bytes& der_content() const { return content_; }

  friend bool operator==(const SerialNumber& a, const SerialNumber& b) {
    return a.content_ == b.content_;
  }

 private:
  explicit SerialNumber(Bytes content);

  Bytes content_;
  std::string decimal_;
};

}  // namespace nstance::crypto
