#include "crypto/pem.h"

#include <optional>

#include <fmt/core.h>

#include "crypto/secret.h"

namespace nstance::crypto {
namespace {

constexpr std::size_t kLineLength = 64;
constexpr std::string_view kBegin = "-----BEGIN ";
constexpr std::string_view kEnd = "-----END ";
constexpr std::string_view kDashes = "-----";

std::string Marker(std::string_view start, std::string_view label) {
  std::string out(start);
  out += label;
  out += kDashes;
  return out;
}

// The label of the block that the text opens with, for messages only.
std::optional<std::string_view> LabelAtFront(std::string_view text) {
  if (!text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());
  const std::size_t end = text.find(kDashes);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(0, end);
}

Result<Bytes> ReadStrict(std::string_view text, const PemKind& kind) {
  const std::string_view label = kind.label;
  if (text.size() > kind.max_bytes) {
    return Fail(InvalidArgument(
        fmt::format("PEM text has {} bytes, {} are allowed", text.size(), kind.max_bytes)));
  }
  if (text.ends_with('\n')) text.remove_suffix(1);
  const std::string begin = Marker(kBegin, label) + "\n";
  const std::string end = "\n" + Marker(kEnd, label);
  if (!text.starts_with(begin)) {
    if (const auto other = LabelAtFront(text); other.has_value() && *other != label) {
      return Fail(
          InvalidArgument(fmt::format("PEM block is {}, not {}", Quote(*other), Quote(label))));
    }
    return Fail(InvalidArgument(fmt::format("text is not one PEM block {}", Quote(label))));
  }
  if (text.size() < begin.size() + end.size() || !text.ends_with(end)) {
    return Fail(InvalidArgument(fmt::format("PEM block {} does not end", Quote(label))));
  }
  const std::string_view body = text.substr(begin.size(), text.size() - begin.size() - end.size());
  std::string digits;
  digits.reserve(body.size());
  for (std::size_t at = 0; at < body.size(); ++at) {
    const bool line_end = at % (kLineLength + 1) == kLineLength;
    if (line_end != (body[at] == '\n') || (line_end && at + 1 == body.size())) {
      Wipe(digits);
      return Fail(InvalidArgument(
          fmt::format("PEM block {} is not in lines of {}", Quote(label), kLineLength)));
    }
    if (!line_end) digits += body[at];
  }
  Result<Bytes> bytes = Base64Decode(digits);
  Wipe(digits);
  if (bytes.has_value() && bytes->empty()) {
    return Fail(InvalidArgument(fmt::format("PEM block {} is empty", Quote(label))));
  }
  return bytes;
}

Result<Bytes> DecodeBody(std::string_view body) {
  std::string digits;
  digits.reserve(body.size());
  for (const char c : body) {
    if (c != '\n' && c != '\r' && c != ' ' && c != '\t') digits += c;
  }
  Result<Bytes> bytes = Base64Decode(digits);
  Wipe(digits);
  return bytes;
}

Result<Bytes> ReadFirst(std::string_view text, const PemKind& kind) {
  const std::size_t at = text.find(kBegin);
  if (at == std::string_view::npos) {
    return Fail(
        InvalidArgument(fmt::format("there is no PEM block; one of {}", Quote(kind.label))));
  }
  text.remove_prefix(at);
  const std::string begin = Marker(kBegin, kind.label);
  if (!text.starts_with(begin)) {
    return Fail(
        InvalidArgument(fmt::format("the first PEM block is {}, not {}",
                                    Quote(LabelAtFront(text).value_or("")), Quote(kind.label))));
  }
  const std::string end = Marker(kEnd, kind.label);
  const std::size_t stop = text.substr(0, kind.max_bytes).find(end);
  if (stop == std::string_view::npos) {
    return Fail(InvalidArgument(fmt::format("PEM block {} does not end within {} bytes",
                                            Quote(kind.label), kind.max_bytes)));
  }
  return DecodeBody(text.substr(begin.size(), stop - begin.size()));
}

Result<std::vector<Bytes>> ReadBlocks(std::string_view text, std::size_t max_blocks) {
  const std::string begin = Marker(kBegin, kCertificatePem.label);
  const std::string end = Marker(kEnd, kCertificatePem.label);
  std::vector<Bytes> blocks;
  for (std::size_t at = text.find(kBegin); at != std::string_view::npos; at = text.find(kBegin)) {
    text.remove_prefix(at);
    if (!text.starts_with(begin)) {
      return Fail(InvalidArgument(fmt::format("bundle holds a PEM block {} next to certificates",
                                              Quote(LabelAtFront(text).value_or("")))));
    }
    const std::size_t stop = text.find(end);
    if (stop == std::string_view::npos) {
      return Fail(InvalidArgument("last certificate of the bundle does not end"));
    }
    if (blocks.size() == max_blocks) {
      return Fail(
          ResourceExhausted(fmt::format("bundle has more than {} certificates", max_blocks)));
    }
    const std::string context = fmt::format("certificate {} of the bundle", blocks.size() + 1);
    ASSIGN_OR_RETURN(Bytes bytes,
                     Under(DecodeBody(text.substr(begin.size(), stop - begin.size())), context));
    blocks.push_back(std::move(bytes));
    text.remove_prefix(stop + end.size());
  }
  if (blocks.empty()) return Fail(InvalidArgument("bundle holds no certificate"));
  return blocks;
}

}  // namespace

std::string WritePem(const PemKind& kind, std::span<const std::uint8_t> bytes) {
  std::string digits = Base64Encode(bytes);
  const std::string begin = Marker(kBegin, kind.label);
  const std::string end = Marker(kEnd, kind.label);
  std::string out;
  out.reserve(begin.size() + end.size() + 2 + digits.size() + (digits.size() / kLineLength) + 1);
  out += begin;
  out += '\n';
  for (std::size_t at = 0; at < digits.size(); at += kLineLength) {
    out.append(digits, at, kLineLength);
    out += '\n';
  }
  Wipe(digits);
  out += end;
  out += '\n';
  return out;
}

Result<Bytes> ReadPem(std::string_view text, const PemKind& kind, InputSource source) {
  Result<Bytes> bytes = ReadStrict(text, kind);
  if (!bytes.has_value()) source.Bad("pem");
  return bytes;
}

Result<Bytes> ReadFirstPem(std::string_view text, const PemKind& kind, InputSource source) {
  Result<Bytes> bytes = ReadFirst(text, kind);
  if (!bytes.has_value()) source.Bad("pem");
  return bytes;
}

Result<std::vector<Bytes>> ReadPemBundle(std::string_view text, std::size_t max_blocks,
                                         InputSource source) {
  if (text.size() > kMaxPemBundleBytes) {
    source.Limit("pem-bundle-bytes");
    return Fail(ResourceExhausted(
        fmt::format("bundle has {} bytes, {} are allowed", text.size(), kMaxPemBundleBytes)));
  }
  Result<std::vector<Bytes>> blocks = ReadBlocks(text, max_blocks);
  if (!blocks.has_value()) {
    if (blocks.error().code == Code::kResourceExhausted) {
      source.Limit("pem-bundle-certificates");
    } else {
      source.Bad("pem");
    }
  }
  return blocks;
}

}  // namespace nstance::crypto
