#include "adapters/terminal/screen_guard.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>

#include "base/check.h"

namespace nstance {
namespace {

constexpr std::array<int, 7> kCrashes = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP};
constexpr std::size_t kStackBytes = std::size_t{64} * 1024;

// What the handler needs: a handler has no arguments of its own. Written only while no handler of
// ours is installed.
struct State {
  ScreenGuard::Options options = {};
  std::array<struct sigaction, kCrashes.size()> before = {};
  bool armed = false;
  bool own_stack = false;
};
State& Guarded() {
  static State state;
  return state;
}

// A stack that has overflowed has no room for a handler.
std::array<std::byte, kStackBytes>& HandlerStack() {
  static std::array<std::byte, kStackBytes> stack;
  return stack;
}

void PutBack(int number) {
  const State& state = Guarded();
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    if (kCrashes[i] == number) (void)sigaction(number, &state.before[i], nullptr);
  }
}

void OnCrash(int number, siginfo_t* about, void* /*context*/) {
  const ScreenGuard::Options& options = Guarded().options;
  std::string_view left = options.leave;
  while (!left.empty()) {
    const ssize_t written = write(options.out, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  // Now, not when all is written: a terminal that is held (Ctrl-S) would hold us.
  if (options.modes) (void)tcsetattr(options.in, TCSANOW, &*options.modes);
  PutBack(number);
  // What faulted faults again when this returns, with its own story for whoever listens then. What
  // was sent is sent again; it is blocked until this returns.
  const bool faulted = about != nullptr && about->si_code > 0 && number != SIGTRAP;
  if (!faulted) (void)raise(number);
}

void GiveStack() {
  stack_t present{};
  if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
  stack_t stack{};
  stack.ss_sp = HandlerStack().data();
  stack.ss_size = HandlerStack().size();
  Guarded().own_stack = sigaltstack(&stack, nullptr) == 0;
}

}  // namespace

ScreenGuard::ScreenGuard(const Options& options) {
  State& state = Guarded();
  CHECK(!state.armed, "one screen at a time");
  state.options = options;
  state.armed = true;
  GiveStack();
  struct sigaction action{};
  action.sa_sigaction = OnCrash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    (void)sigaction(kCrashes[i], &action, &state.before[i]);
  }
}

ScreenGuard::~ScreenGuard() {
  State& state = Guarded();
  for (const int number : kCrashes) PutBack(number);
  if (state.own_stack) {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    (void)sigaltstack(&none, nullptr);
    state.own_stack = false;
  }
  state.armed = false;
}

}  // namespace nstance
