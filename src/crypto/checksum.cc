#include "crypto/checksum.h"

#include "base/check.h"
#include "base/text.h"
#include "crypto/digest.h"

namespace nstance::crypto {
namespace {

constexpr std::string_view kMember = ",\"checksum\":";
constexpr std::string_view kKey = "\"checksum\"";

std::string TailOf(std::string_view object) {
  return std::string(kMember) + "\"sha256:" + Sha256Hex(AsBytes(object)) + "\"}";
}

// Offset just after the string that opens at `start`, or the end of the text.
std::size_t SkipString(std::string_view text, std::size_t start) {
  for (std::size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

// Whether the next character that is no white space is a colon: the string before it was a key.
bool ColonFollows(std::string_view text, std::size_t at) {
  const std::size_t next = text.find_first_not_of(" \t\r\n", at);
  return next != std::string_view::npos && text[next] == ':';
}

// Only the object's own members count: a nested `checksum` belongs to somebody else.
bool HasTopLevelChecksum(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t end = SkipString(text, i);
      if (depth == 1 && text.substr(i, end - i) == kKey && ColonFollows(text, end)) return true;
      i = end;
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++i;
  }
  return false;
}

}  // namespace

std::string AppendChecksum(std::string_view object) {
  CHECK(object.size() > 2 && object.front() == '{' && object.back() == '}',
        "no JSON object with members, {} bytes", object.size());
  std::string out(object.substr(0, object.size() - 1));
  out += TailOf(object);
  return out;
}

ChecksumState CheckChecksum(std::string_view text) {
  if (!HasTopLevelChecksum(text)) return ChecksumState::kAbsent;
  const std::size_t at = text.rfind(kMember);
  if (at == std::string_view::npos) return ChecksumState::kWrong;
  const std::string object = std::string(text.substr(0, at)) + '}';
  const bool right = ConstantTimeEqual(AsBytes(text.substr(at)), AsBytes(TailOf(object)));
  return right ? ChecksumState::kRight : ChecksumState::kWrong;
}

std::string WriteIdText(std::span<const std::uint8_t, 16> random) {
  return Base64UrlEncode(random);
}

}  // namespace nstance::crypto
