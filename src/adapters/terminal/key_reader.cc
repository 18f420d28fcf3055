#include "adapters/terminal/key_reader.h"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace nstance {
namespace {

constexpr char kEscapeByte = 0x1B;
constexpr std::size_t kLongestSequence = 16;

std::optional<KeyKind> KindOf(std::string_view body) {
  constexpr std::array<std::pair<std::string_view, KeyKind>, 16> kKnown = {{
      {"A", KeyKind::kUp},
      {"B", KeyKind::kDown},
      {"C", KeyKind::kRight},
      {"D", KeyKind::kLeft},
      {"H", KeyKind::kHome},
      {"F", KeyKind::kEnd},
      {"1~", KeyKind::kHome},
      {"7~", KeyKind::kHome},
      {"4~", KeyKind::kEnd},
      {"8~", KeyKind::kEnd},
      {"5~", KeyKind::kPageUp},
      {"6~", KeyKind::kPageDown},
      {"1;5A", KeyKind::kPageUp},
      {"1;5B", KeyKind::kPageDown},
      {"1;5H", KeyKind::kHome},
      {"1;5F", KeyKind::kEnd},
  }};
  for (const auto& [text, kind] : kKnown) {
    if (text == body) return kind;
  }
  return std::nullopt;
}

bool EndsSequence(char c) { return c >= 0x40 && c <= 0x7E; }

std::optional<Key> PlainKey(char c) {
  if (c == '\r' || c == '\n') return Key{.kind = KeyKind::kEnter};
  if (c == 0x7F || c == 0x08) return Key{.kind = KeyKind::kBackspace};
  if (c >= ' ' && c < 0x7F) return Key{.kind = KeyKind::kCharacter, .character = c};
  return std::nullopt;
}

// Length of the sequence at the front of `text`, which begins with an escape byte; nothing: it is
// not complete.
std::optional<std::size_t> SequenceLength(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  if (text[1] != '[' && text[1] != 'O') return 1;
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (EndsSequence(text[i])) return i + 1;
    if (i >= kLongestSequence) return i + 1;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Key> KeyReader::Read(std::string_view bytes, bool& interrupted) {
  std::vector<Key> keys;
  std::string text = std::exchange(rest_, {}) + std::string(bytes);
  std::string_view left = text;
  while (!left.empty()) {
    if (left.front() == kInterruptByte) interrupted = true;
    if (left.front() != kEscapeByte) {
      if (const auto key = PlainKey(left.front())) keys.push_back(*key);
      left.remove_prefix(1);
      continue;
    }
    const auto length = SequenceLength(left);
    if (!length && left.size() == 1) {
      keys.push_back({.kind = KeyKind::kEscape});
      break;
    }
    if (!length) {
      rest_ = std::string(left);
      break;
    }
    if (*length == 1) {
      keys.push_back({.kind = KeyKind::kEscape});
    } else if (const auto kind = KindOf(left.substr(2, *length - 2))) {
      keys.push_back({.kind = *kind});
    }
    left.remove_prefix(*length);
  }
  return keys;
}

}  // namespace nstance
