// ProcessTerminal: ports/terminal.h on standard input, output and error of this process.
//
// Signals become events of the loop only while somebody listens (WhenStopped), so make it before
// any thread. The screen is left on the way out of everything but SIGKILL: by dropping its Pending,
// by destroying this, before a stop is told, and by a crash (screen_guard.h).
//
// SIGTSTP, or Ctrl-Z on the screen, leaves it and stops the process; when that goes on, the screen
// is entered again, and told as resized, which draws it. Where nobody could make it go on (no job
// control) it goes on at once. After SIGCONT alone (it was stopped by SIGSTOP) the screen is
// entered again too: meanwhile a shell has used it.
#pragma once

#include <termios.h>

#include <memory>
#include <optional>
#include <string>

#include "adapters/real_loop/real_loop.h"
#include "adapters/signals/signal_watch.h"
#include "adapters/terminal/key_reader.h"
#include "adapters/terminal/screen_guard.h"
#include "ports/terminal.h"

namespace nstance {

class ProcessTerminal final : public Terminal {
 public:
  // Other descriptors are for tests.
  struct Descriptors {
    int in = 0;
    int out = 1;
    int err = 2;
  };

  explicit ProcessTerminal(RealLoop& loop) : ProcessTerminal(loop, Descriptors{}) {}
  ProcessTerminal(RealLoop& loop, Descriptors descriptors);
  ~ProcessTerminal() override;

  [[nodiscard]] bool IsTerminal(Stream stream) const override;
  [[nodiscard]] bool MayAsk() const override;
  [[nodiscard]] ScreenSize size() const override;
  bool Write(Stream stream, std::string_view text) override;
  [[nodiscard]] Pending ReadLine(LineRead done) override;
  [[nodiscard]] Pending WhenStopped(Stopped stopped) override;
  [[nodiscard]] Pending OpenScreen(ScreenEvents events) override;

 private:
  struct Line {
    std::string text = {};
    LineRead done = {};
    std::unique_ptr<DescriptorWatch> watch = {};
  };
  struct Shown {
    ScreenEvents events = {};
    termios before = {};
    bool raw = false;  // It has modes, and they are changed.
    KeyReader keys = {};
    std::unique_ptr<DescriptorWatch> watch = {};
    std::unique_ptr<SignalWatch> signals = {};
    std::unique_ptr<ScreenGuard> guard = {};
  };

  [[nodiscard]] int DescriptorOf(Stream stream) const;
  void ReadSome();
  void ReadKeys();
  void OnSignal(int number);
  // The modes and the other screen; again after a pause.
  void Enter();
  void GiveBack();
  void OnScreenSignal(int number);
  void Suspend();
  void LeaveScreen();

  RealLoop& loop_;
  Descriptors descriptors_;
  std::unique_ptr<Line> line_;
  std::unique_ptr<Shown> screen_;
  Stopped stopped_;
  std::unique_ptr<SignalWatch> stops_;
  Pending interrupt_;
  Pending suspend_;
};

}  // namespace nstance
