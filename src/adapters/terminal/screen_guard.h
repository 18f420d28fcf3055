// ScreenGuard: gives the terminal back when the process crashes while the whole screen is its own.
//
// From when it is made until it goes, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS and SIGTRAP
// first write what leaves the screen and set the old modes, by calls that a signal handler may
// make; then the signal does what it would have done before: end the process, or go to whoever
// handled it. Signals that a loop can take are not its business.
//
// One at a time in a process.
#pragma once

#include <termios.h>

#include <optional>
#include <string_view>

namespace nstance {

class ScreenGuard final {
 public:
  struct Options {
    int in = 0;
    int out = 1;
    std::optional<termios> modes = std::nullopt;  // Those to set; empty: they were not changed.
    std::string_view leave = {};                  // A literal.
  };

  explicit ScreenGuard(const Options& options);
  ScreenGuard(const ScreenGuard&) = delete;
  ScreenGuard& operator=(const ScreenGuard&) = delete;
  // What handled the signals before handles them again.
  ~ScreenGuard();
};

}  // namespace nstance
