#include "adapters/terminal/process_terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/check.h"

namespace nstance {
namespace {

constexpr std::size_t kLongestLine = std::size_t{4} * 1024;

// The other screen, without cursor and without wrapping at its edge; and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

}  // namespace

ProcessTerminal::ProcessTerminal(RealLoop& loop, Descriptors descriptors)
    : loop_(loop), descriptors_(descriptors) {}

ProcessTerminal::~ProcessTerminal() { LeaveScreen(); }

int ProcessTerminal::DescriptorOf(Stream stream) const {
  if (stream == Stream::kIn) return descriptors_.in;
  return stream == Stream::kOut ? descriptors_.out : descriptors_.err;
}

bool ProcessTerminal::IsTerminal(Stream stream) const { return isatty(DescriptorOf(stream)) == 1; }

bool ProcessTerminal::MayAsk() const { return IsTerminal(Stream::kIn) && IsTerminal(Stream::kErr); }

ScreenSize ProcessTerminal::size() const {
  for (const int descriptor : {descriptors_.out, descriptors_.err}) {
    winsize size{};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
      return {.columns = size.ws_col, .rows = size.ws_row};
    }
  }
  return {};
}

bool ProcessTerminal::Write(Stream stream, std::string_view text) {
  CHECK(stream != Stream::kIn, "standard input is for reading");
  const int descriptor = DescriptorOf(stream);
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      // Somebody else made it non-blocking; wait as a blocking one would.
      pollfd wait{.fd = descriptor, .events = POLLOUT, .revents = 0};
      if (poll(&wait, 1, -1) >= 0 || errno == EINTR) continue;
    }
    return false;
  }
  return true;
}

// --- Questions -----------------------------------------------------------------------------------

Pending ProcessTerminal::ReadLine(LineRead done) {
  line_ = std::make_unique<Line>();
  line_->done = std::move(done);
  line_->watch =
      loop_.Watch(descriptors_.in, {.readable = true}, [this](Readiness) { ReadSome(); });
  return Pending([this] { line_.reset(); });
}

// Byte by byte: what follows the line is not ours.
void ProcessTerminal::ReadSome() {
  char byte = 0;
  const ssize_t got = read(descriptors_.in, &byte, 1);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got == 1 && byte != '\n') {
    if (line_->text.size() < kLongestLine) line_->text += byte;
    return;
  }
  std::optional<std::string> text;
  if (got == 1 || !line_->text.empty()) text = line_->text;
  const auto line = std::move(line_);
  line->watch.reset();
  line->done(std::move(text));
}

// --- Stops ---------------------------------------------------------------------------------------

Pending ProcessTerminal::WhenStopped(Stopped stopped) {
  stopped_ = std::move(stopped);
  // Everything that would end the process unseen.
  stops_ = std::make_unique<SignalWatch>(
      loop_,
      std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM,
                                 SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGXCPU, SIGXFSZ},
      [this](int number) { OnSignal(number); });
  return Pending([this] {
    stops_.reset();
    stopped_ = nullptr;
  });
}

void ProcessTerminal::OnSignal(int number) {
  LeaveScreen();
  if (stopped_) stopped_(number);
}

// --- The screen ----------------------------------------------------------------------------------

Pending ProcessTerminal::OpenScreen(ScreenEvents events) {
  CHECK(screen_ == nullptr, "one screen at a time");
  screen_ = std::make_unique<Shown>();
  screen_->events = std::move(events);
  screen_->raw = tcgetattr(descriptors_.in, &screen_->before) == 0;
  ScreenGuard::Options guard{.in = descriptors_.in, .out = descriptors_.out, .leave = kLeave};
  if (screen_->raw) guard.modes = screen_->before;
  screen_->guard = std::make_unique<ScreenGuard>(guard);
  // Before anything changes: from then on a stop would find it so.
  screen_->signals =
      std::make_unique<SignalWatch>(loop_, std::initializer_list<int>{SIGWINCH, SIGTSTP, SIGCONT},
                                    [this](int number) { OnScreenSignal(number); });
  Enter();
  screen_->watch =
      loop_.Watch(descriptors_.in, {.readable = true}, [this](Readiness) { ReadKeys(); });
  return Pending([this] { LeaveScreen(); });
}

void ProcessTerminal::Enter() {
  if (screen_->raw) {
    termios raw = screen_->before;
    raw.c_iflag &= static_cast<tcflag_t>(~(ICRNL | IXON));
    raw.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO | ISIG | IEXTEN));
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(descriptors_.in, TCSAFLUSH, &raw);
  }
  Write(Stream::kOut, kEnter);
}

void ProcessTerminal::GiveBack() {
  Write(Stream::kOut, kLeave);
  if (screen_->raw) (void)tcsetattr(descriptors_.in, TCSAFLUSH, &screen_->before);
}

void ProcessTerminal::OnScreenSignal(int number) {
  if (screen_ == nullptr) return;
  if (number == SIGTSTP) return Suspend();
  if (number == SIGCONT) Enter();
  if (screen_->events.resized) screen_->events.resized(size());
}

void ProcessTerminal::Suspend() {
  GiveBack();
  sigset_t mask{};
  sigemptyset(&mask);
  sigaddset(&mask, SIGTSTP);
  (void)pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  (void)raise(SIGTSTP);  // Comes back when somebody says SIGCONT, or where nobody could.
  (void)pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  sigset_t waiting{};
  const bool continued = sigpending(&waiting) == 0 && sigismember(&waiting, SIGCONT) == 1;
  if (!continued) OnScreenSignal(SIGCONT);  // Else the loop tells it.
}

void ProcessTerminal::ReadKeys() {
  std::array<char, 256> bytes{};
  const ssize_t got = read(descriptors_.in, bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    // The terminal is gone: as if it had hung up.
    screen_->watch.reset();
    interrupt_ = loop_.CallAfter({}, [this] { OnSignal(SIGHUP); });
    return;
  }
  const std::string_view text(bytes.data(), static_cast<std::size_t>(got));
  if (text.contains(kSuspendByte)) {
    suspend_ = loop_.CallAfter({}, [this] { OnScreenSignal(SIGTSTP); });
  }
  bool interrupted = false;
  const auto keys = screen_->keys.Read(text, interrupted);
  for (const Key& key : keys) {
    if (screen_ == nullptr || !screen_->events.key) return;
    screen_->events.key(key);
  }
  if (interrupted) interrupt_ = loop_.CallAfter({}, [this] { OnSignal(SIGINT); });
}

void ProcessTerminal::LeaveScreen() {
  if (screen_ == nullptr) return;
  GiveBack();
  const auto screen = std::move(screen_);
  screen->watch.reset();
  screen->signals.reset();
}

}  // namespace nstance
