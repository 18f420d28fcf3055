// Terminal: where a command of nstance-admin writes while it runs, what it may ask, and the whole
// screen for a live view.
//
// What a command ends with is an Ending, printed by bin/. This port is for everything before:
// progress, notes, questions, lines of a stream, a screen.
//
// Guarantees, each held by a test of the real one:
//   - what OpenScreen() changed (modes, screen, cursor) is as it was before when its Pending is
//     gone, also when the process ends by a signal that WhenStopped() tells of or by a crash, and
//     while it is stopped by SIGTSTP
//   - no event comes from inside a call; all come on the loop that the terminal was made for
//   - Write() writes all or says that nobody reads any more
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ports/pending.h"

namespace nstance {

struct ScreenSize {
  int columns = 80;
  int rows = 24;
  friend bool operator==(const ScreenSize&, const ScreenSize&) = default;
};

enum class KeyKind : std::uint8_t {
  kCharacter,
  kEnter,
  kEscape,
  kBackspace,
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
};

struct Key {
  KeyKind kind = KeyKind::kCharacter;
  char character = 0;  // kCharacter: printable ASCII.
  friend bool operator==(const Key&, const Key&) = default;
};

struct ScreenEvents {
  std::move_only_function<void(Key key)> key = {};
  std::move_only_function<void(ScreenSize size)> resized = {};
};

class Terminal {
 public:
  enum class Stream : std::uint8_t { kIn, kOut, kErr };

  Terminal() = default;
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  virtual ~Terminal() = default;

  [[nodiscard]] virtual bool IsTerminal(Stream stream) const = 0;
  // Standard input and error are both a terminal: a question would be seen and answered.
  [[nodiscard]] virtual bool MayAsk() const = 0;
  // 80 x 24 where nothing is known.
  [[nodiscard]] virtual ScreenSize size() const = 0;

  // False: nobody reads that stream any more. REQUIRES: not kIn.
  virtual bool Write(Stream stream, std::string_view text) = 0;

  // One line of standard input, without its newline and cut at 4 KiB; nothing at its end.
  using LineRead = std::move_only_function<void(std::optional<std::string> line)>;
  [[nodiscard]] virtual Pending ReadLine(LineRead done) = 0;

  // Ctrl-C (SIGINT), SIGTERM, SIGHUP or another signal that would end the process, each time. While
  // nobody listens they do.
  using Stopped = std::move_only_function<void(int number)>;
  [[nodiscard]] virtual Pending WhenStopped(Stopped stopped) = 0;

  // The whole screen: another one than that with the scrollback, without cursor, keys one by one.
  // Ctrl-C is told as a stop. REQUIRES: standard input and output are a
  // terminal; no screen is open.
  [[nodiscard]] virtual Pending OpenScreen(ScreenEvents events) = 0;
};

}  // namespace nstance
