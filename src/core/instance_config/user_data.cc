#include "core/instance_config/user_data.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"
#include "crypto/digest.h"

namespace nstance {
namespace {

using config::UserDataEncoding;

// 4 characters for 3 bytes, and a newline after every character is still white space.
constexpr std::size_t kMaxEncodedBytes = 4 * kMaxUserDataBytes;

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

Result<std::string> FromBase64(std::string_view text, const InputSource& source) {
  std::string digits;
  digits.reserve(text.size());
  std::ranges::copy_if(text, std::back_inserter(digits), [](char c) { return !IsBlank(c); });
  Result<Bytes> bytes = Base64Decode(digits);
  if (!bytes) {
    source.Bad("base64");
    return Fail(std::move(bytes).error());
  }
  return std::string(AsText(*bytes));
}

// One zlib stream, ended when it goes.
class Inflater final {
 public:
  Inflater() {
    // 15 bits of window; 16 more: gzip, with its header and checksum.
    CHECK(inflateInit2(&stream_, 15 + 16) == Z_OK, "zlib: out of memory or of another version");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  Result<std::string> Run(std::string_view bytes, const InputSource& source) {
    // zlib does not write to its input, it only forgot to say so.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    while (stream_.avail_in > 0) {
      const int code = Member();
      if (code == kTooLong) {
        source.Limit("gzip-bytes");
        return Fail(ResourceExhausted(fmt::format(
            "gzip: more than {} bytes after inflation; at most that many", kMaxUserDataBytes)));
      }
      if (code != Z_STREAM_END) return Fail(Bad(code, source));
      CHECK(inflateReset(&stream_) == Z_OK);
    }
    return std::move(out_);
  }

 private:
  static constexpr int kTooLong = 1'000;  // No code of zlib.

  // One member of the file; any code but Z_STREAM_END means that there is no more.
  int Member() {
    while (true) {
      stream_.next_out = buffer_.data();
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t made = buffer_.size() - stream_.avail_out;
      if (made > kMaxUserDataBytes - out_.size()) return kTooLong;
      out_.append(reinterpret_cast<const char*>(buffer_.data()), made);
      if (code != Z_OK) return code;
      if (stream_.avail_in == 0 && stream_.avail_out > 0) return Z_BUF_ERROR;
    }
  }

  Error Bad(int code, const InputSource& source) const {
    source.Bad("gzip");
    if (code == Z_BUF_ERROR) return InvalidArgument("gzip: the data ends too early");
    return InvalidArgument(
        fmt::format("gzip: {}", stream_.msg != nullptr ? stream_.msg : "the data is corrupt"));
  }

  z_stream stream_{};
  std::array<Bytef, std::size_t{16} * 1024> buffer_{};
  std::string out_;
};

Result<std::string> FromGzip(std::string_view bytes, const InputSource& source) {
  if (bytes.empty()) {
    source.Bad("gzip");
    return Fail(InvalidArgument("gzip: there is no data"));
  }
  return Inflater().Run(bytes, source);
}

Status CheckLength(std::size_t length, std::size_t limit, const InputSource& source) {
  if (length <= limit) return {};
  source.Limit("userdata-bytes");
  return Fail(ResourceExhausted(fmt::format("user data has {} bytes; at most {}", length, limit)));
}

}  // namespace

Result<std::string> DecodeUserData(UserDataEncoding encoding, std::string_view bytes,
                                   InputSource source) {
  const bool is_base64 =
      encoding == UserDataEncoding::kBase64 || encoding == UserDataEncoding::kBase64Gzip;
  RETURN_IF_ERROR(
      CheckLength(bytes.size(), is_base64 ? kMaxEncodedBytes : kMaxUserDataBytes, source));
  switch (encoding) {
    case UserDataEncoding::kPlain: return std::string(bytes);
    case UserDataEncoding::kGzip: return FromGzip(bytes, source);
    case UserDataEncoding::kBase64:
    case UserDataEncoding::kBase64Gzip: break;
  }
  ASSIGN_OR_RETURN(std::string decoded, FromBase64(bytes, source));
  RETURN_IF_ERROR(CheckLength(decoded.size(), kMaxUserDataBytes, source));
  if (encoding == UserDataEncoding::kBase64Gzip) return FromGzip(decoded, source);
  return decoded;
}

Status CheckUserDataDigest(std::string_view sha256, std::string_view bytes) {
  if (sha256.empty()) return {};
  const std::string is = crypto::Sha256Hex(AsBytes(bytes));
  const bool same = std::ranges::equal(sha256, is, [](char given, char digit) {
    return (given >= 'A' && given <= 'F' ? static_cast<char>(given - 'A' + 'a') : given) == digit;
  });
  if (same) return {};
  return Fail(FailedPrecondition(fmt::format(
      "sha256: the body has the digest {}; the configuration asks for {}", is, Quote(sha256))));
}

}  // namespace nstance
