// SimTerminal: ports/terminal.h in memory. What was written is kept; keys, lines, stops and sizes
// are given by the test and arrive as events of the loop.
//
// Stricter than the real one: drawing on a screen that was left is a failed CHECK.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/time.h"
#include "ports/loop.h"
#include "ports/terminal.h"

namespace nstance::sim {

class SimTerminal final : public Terminal {
 public:
  explicit SimTerminal(Loop& loop) : loop_(loop) {}

  [[nodiscard]] bool IsTerminal(Stream stream) const override {
    if (stream == Stream::kIn) return in_is_terminal;
    return stream == Stream::kOut ? out_is_terminal : err_is_terminal;
  }
  [[nodiscard]] bool MayAsk() const override { return in_is_terminal && err_is_terminal; }
  [[nodiscard]] ScreenSize size() const override { return screen_size; }
  bool Write(Stream stream, std::string_view text) override {
    if (stream == Stream::kOut && out_closed) return false;
    CHECK(stream != Stream::kOut || !text.contains("\x1b[H") || screen_open(), "no screen");
    (stream == Stream::kOut ? out : err) += text;
    return true;
  }
  [[nodiscard]] Pending ReadLine(LineRead done) override {
    std::optional<std::string> line;
    if (!lines.empty()) {
      line = lines.front();
      lines.pop_front();
    }
    return loop_.CallAfter(thinking, [done = std::move(done), line]() mutable { done(line); });
  }
  [[nodiscard]] Pending WhenStopped(Stopped stopped) override {
    stopped_ = std::make_shared<Stopped>(std::move(stopped));
    return Pending([this] { stopped_.reset(); });
  }
  [[nodiscard]] Pending OpenScreen(ScreenEvents events) override {
    CHECK(!screen_open(), "one screen at a time");
    events_ = std::make_shared<ScreenEvents>(std::move(events));
    ++screens_opened;
    return Pending([this] { events_.reset(); });
  }

  // --- For tests ---

  [[nodiscard]] bool screen_open() const { return events_ != nullptr; }
  void Press(Key key) {
    loop_.Post([weak = std::weak_ptr(events_), key] {
      if (const auto events = weak.lock()) events->key(key);
    });
  }
  void Press(char character) { Press({.kind = KeyKind::kCharacter, .character = character}); }
  void Resize(ScreenSize size) {
    screen_size = size;
    loop_.Post([weak = std::weak_ptr(events_), size] {
      if (const auto events = weak.lock()) events->resized(size);
    });
  }
  void Stop(int number) {
    loop_.Post([weak = std::weak_ptr(stopped_), number] {
      if (const auto stopped = weak.lock()) (*stopped)(number);
    });
  }
  // The last screen that was drawn whole.
  [[nodiscard]] std::string LastScreen() const {
    const std::size_t at = out.rfind("\x1b[H");
    return at == std::string::npos ? "" : out.substr(at);
  }

  bool in_is_terminal = false;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool out_closed = false;
  ScreenSize screen_size = {};
  std::deque<std::string> lines = {};  // Answers to questions; none: the end of input.
  Duration thinking = {};              // How long an answer takes.
  std::string out = {};
  std::string err = {};
  int screens_opened = 0;

 private:
  Loop& loop_;
  std::shared_ptr<ScreenEvents> events_;
  std::shared_ptr<Stopped> stopped_;
};

}  // namespace nstance::sim
