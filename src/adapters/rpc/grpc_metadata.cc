#include "adapters/rpc/grpc_metadata.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include <fmt/format.h>

namespace nstance::grpc {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::size_t kMaxTimeoutDigits = 8;
constexpr std::int64_t kMaxTimeoutValue = 99'999'999;

struct Unit {
  char letter = 0;
  Duration length = {};
};
constexpr std::array<Unit, 6> kUnits = {{{.letter = 'n', .length = Duration::Nanoseconds(1)},
                                         {.letter = 'u', .length = Duration::Microseconds(1)},
                                         {.letter = 'm', .length = Duration::Milliseconds(1)},
                                         {.letter = 'S', .length = Duration::Seconds(1)},
                                         {.letter = 'M', .length = Duration::Minutes(1)},
                                         {.letter = 'H', .length = Duration::Hours(1)}}};

bool IsNameCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' || c == '-';
}

bool IsPrintable(char c) { return c >= 0x20 && c <= 0x7e; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// With or without padding, as other implementations write it.
Result<std::string> DecodeBase64(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string padded(text);
  padded.append((4 - padded.size() % 4) % 4, '=');
  ASSIGN_OR_RETURN(const Bytes bytes, Base64Decode(padded));
  return std::string(bytes.begin(), bytes.end());
}

std::optional<unsigned> HexDigit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

// The text with every byte that is not part of valid UTF-8 replaced, at most `limit` bytes of it.
std::string ValidUtf8(std::string_view text, std::size_t limit) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = Utf8SequenceLength(text);
    const std::string_view next = length == 0 ? kReplacement : text.substr(0, length);
    if (out.size() + next.size() > limit) break;
    out.append(next);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace

bool IsMetadataName(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, IsNameCharacter);
}

bool IsReservedName(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {
      "connection", "content-type",      "host",   "keep-alive", "proxy-connection",
      "te",         "transfer-encoding", "upgrade"};
  return name.starts_with(':') || name.starts_with("grpc-") ||
         std::ranges::find(kNames, name) != kNames.end();
}

bool IsBinaryName(std::string_view name) { return name.ends_with("-bin"); }

Status AppendReceived(Metadata& metadata, std::string_view name, std::string_view value) {
  if (IsReservedName(name)) return {};
  if (!IsMetadataName(name)) {
    return Fail(InvalidArgument(fmt::format("metadata name {} is not allowed", Quote(name))));
  }
  if (!IsBinaryName(name)) {
    const std::string_view text = Trim(value);
    if (!std::ranges::all_of(text, IsPrintable)) {
      return Fail(InvalidArgument(fmt::format("metadata {} is not printable ASCII", Quote(name))));
    }
    metadata.push_back({.name = std::string(name), .value = std::string(text)});
    return {};
  }
  Metadata list;
  for (std::string_view rest = value;;) {
    const std::size_t comma = rest.find(',');
    Result<std::string> bytes = DecodeBase64(Trim(rest.substr(0, comma)));
    if (!bytes.has_value()) {
      return Fail(InvalidArgument(fmt::format("metadata {} is not base64", Quote(name))));
    }
    list.push_back({.name = std::string(name), .value = std::move(bytes).value()});
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::ranges::move(list, std::back_inserter(metadata));
  return {};
}

Result<std::string> EncodeValue(const MetadataEntry& entry) {
  if (IsReservedName(entry.name) || !IsMetadataName(entry.name)) {
    return Fail(InvalidArgument(fmt::format("metadata name {} is not allowed", Quote(entry.name))));
  }
  if (IsBinaryName(entry.name)) {
    std::string text = Base64Encode(AsBytes(entry.value));
    while (text.ends_with('=')) text.pop_back();  // The form that the protocol prefers.
    return text;
  }
  if (!std::ranges::all_of(entry.value, IsPrintable)) {
    return Fail(
        InvalidArgument(fmt::format("metadata {} is not printable ASCII", Quote(entry.name))));
  }
  return std::string(Trim(entry.value));
}

std::string EncodeStatusMessage(std::string_view text) {
  std::string out;
  for (const char c : ValidUtf8(text, kMaxStatusMessageBytes)) {
    if (IsPrintable(c) && c != '%') {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string DecodeStatusMessage(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && text.size() - i > 2) {
      const std::optional<unsigned> first = HexDigit(text[i + 1]);
      const std::optional<unsigned> second = HexDigit(text[i + 2]);
      if (first && second) {
        bytes.push_back(static_cast<char>(*first * 16 + *second));
        i += 2;
        continue;
      }
    }
    bytes.push_back(text[i]);
  }
  return ValidUtf8(bytes, 3 * kMaxStatusMessageBytes);
}

Result<Duration> ParseTimeout(std::string_view text) {
  const auto bad = [&] {
    return Fail(InvalidArgument(fmt::format(
        "grpc-timeout {}: 1 to 8 digits and one of H, M, S, m, u, n are allowed", Quote(text))));
  };
  if (text.size() < 2 || text.size() > kMaxTimeoutDigits + 1) return bad();
  const auto* const unit = std::ranges::find(kUnits, text.back(), &Unit::letter);
  if (unit == kUnits.end()) return bad();
  std::int64_t value = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return bad();
    value = value * 10 + (c - '0');
  }
  return unit->length * value;
}

std::string FormatTimeout(Duration timeout) {
  const std::int64_t left = std::max<std::int64_t>(timeout.nanoseconds(), 0);
  for (const Unit& unit : kUnits) {
    const std::int64_t length = unit.length.nanoseconds();
    const std::int64_t value = left / length + (left % length == 0 ? 0 : 1);
    if (value <= kMaxTimeoutValue) return fmt::format("{}{}", value, unit.letter);
  }
  return fmt::format("{}H", kMaxTimeoutValue);
}

bool IsGrpcContentType(std::string_view value) {
  constexpr std::string_view kBase = "application/grpc";
  if (!value.starts_with(kBase)) return false;
  value.remove_prefix(kBase.size());
  if (value.starts_with("+proto")) value.remove_prefix(6);
  return value.empty() || value.front() == ';';
}

}  // namespace nstance::grpc
