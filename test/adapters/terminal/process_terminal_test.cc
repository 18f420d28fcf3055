// The terminal of a process, on a pseudo-terminal: what a person would see and type.
#include "adapters/terminal/process_terminal.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/loop_runner.h"

namespace nstance {
namespace {

using test::RunUntil;
using testing::ElementsAre;
using testing::HasSubstr;

class ProcessTerminalTest : public testing::Test {
 public:
  ProcessTerminalTest() {
    const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(openpty(&person, &program, nullptr, nullptr, &size), 0);
    EXPECT_EQ(fcntl(person, F_SETFL, O_NONBLOCK), 0);
    terminal = std::make_unique<ProcessTerminal>(
        loop, ProcessTerminal::Descriptors{.in = program, .out = program, .err = program});
  }
  ~ProcessTerminalTest() override {
    terminal.reset();
    (void)close(person);
    (void)close(program);
  }

  // What has come to the screen since the last time.
  [[nodiscard]] std::string Seen() const {
    std::string seen;
    std::array<char, 4096> bytes{};
    for (ssize_t got = 0; (got = read(person, bytes.data(), bytes.size())) > 0;) {
      seen.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return seen;
  }
  void Type(const std::string& text) const {
    ASSERT_EQ(write(person, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  [[nodiscard]] std::string Modes() const {
    termios modes{};
    EXPECT_EQ(tcgetattr(program, &modes), 0);
    return std::to_string(modes.c_iflag) + "/" + std::to_string(modes.c_oflag) + "/" +
           std::to_string(modes.c_lflag) + "/" + std::to_string(modes.c_cc[VMIN]);
  }

  int person = -1;
  int program = -1;
  RealLoop loop;
  std::unique_ptr<ProcessTerminal> terminal;
};

TEST_F(ProcessTerminalTest, KnowsATerminalAndItsSize) {
  EXPECT_TRUE(terminal->IsTerminal(Terminal::Stream::kOut));
  EXPECT_TRUE(terminal->MayAsk());
  EXPECT_EQ(terminal->size(), (ScreenSize{.columns = 80, .rows = 24}));
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const ProcessTerminal piped(
      loop, ProcessTerminal::Descriptors{.in = pipe[0], .out = pipe[1], .err = pipe[1]});
  EXPECT_FALSE(piped.IsTerminal(Terminal::Stream::kOut));
  EXPECT_FALSE(piped.MayAsk());
  EXPECT_EQ(piped.size(), (ScreenSize{.columns = 80, .rows = 24}));
  (void)close(pipe[0]);
  (void)close(pipe[1]);
}

TEST_F(ProcessTerminalTest, WritesAllOrSaysThatNobodyReads) {
  EXPECT_TRUE(terminal->Write(Terminal::Stream::kErr, "hello\n"));
  EXPECT_EQ(Seen(), "hello\r\n");
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  (void)close(pipe[0]);
  (void)std::signal(SIGPIPE, SIG_IGN);
  ProcessTerminal piped(loop, ProcessTerminal::Descriptors{.in = 0, .out = pipe[1], .err = 2});
  EXPECT_FALSE(piped.Write(Terminal::Stream::kOut, "x"));
  (void)close(pipe[1]);
}

TEST_F(ProcessTerminalTest, ReadsOneLine) {
  std::vector<std::string> lines;
  Pending first = terminal->ReadLine(
      [&](const std::optional<std::string>& line) { lines.push_back(line.value_or("(end)")); });
  Type("yes\nrest\n");
  ASSERT_TRUE(RunUntil(loop, [&] { return lines.size() == 1; }));
  const Pending second = terminal->ReadLine(
      [&](const std::optional<std::string>& line) { lines.push_back(line.value_or("(end)")); });
  ASSERT_TRUE(RunUntil(loop, [&] { return lines.size() == 2; }));
  EXPECT_THAT(lines, ElementsAre("yes", "rest"));
}

TEST_F(ProcessTerminalTest, TheScreenIsLeftAsItWasFound) {
  const std::string before = Modes();
  std::string keys;
  Pending screen = terminal->OpenScreen(
      {.key = [&](Key key) { keys += key.kind == KeyKind::kUp ? '^' : key.character; }});
  EXPECT_NE(Modes(), before);
  EXPECT_THAT(Seen(), testing::AllOf(HasSubstr("\x1b[?1049h"), HasSubstr("\x1b[?25l")));
  Type("q\x1b[Ax");
  ASSERT_TRUE(RunUntil(loop, [&] { return keys.size() == 3; }));
  EXPECT_EQ(keys, "q^x");
  screen = {};
  EXPECT_EQ(Modes(), before);
  EXPECT_THAT(Seen(), testing::AllOf(HasSubstr("\x1b[?1049l"), HasSubstr("\x1b[?25h")));
}

TEST_F(ProcessTerminalTest, EverySignalLeavesTheScreenBeforeItIsTold) {
  const std::string before = Modes();
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM,
                           SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGXCPU, SIGXFSZ}) {
    std::vector<std::string> told;
    Pending stops = terminal->WhenStopped(
        [&](int got) { told.push_back(std::to_string(got) + " " + Modes()); });
    Pending screen = terminal->OpenScreen({});
    ASSERT_EQ(raise(number), 0);
    ASSERT_TRUE(RunUntil(loop, [&] { return !told.empty(); }));
    EXPECT_THAT(told, ElementsAre(std::to_string(number) + " " + before));
    EXPECT_THAT(Seen(), HasSubstr("\x1b[?1049l"));
    screen = {};
    EXPECT_EQ(Seen(), "");
  }
}

// --- A process of its own, with the screen open --------------------------------------------------

constexpr const char* kEntered = "\x1b[?1049h";
constexpr const char* kLeft = "\x1b[?1049l";

class ScreenProcessTest : public ProcessTerminalTest {
 public:
  enum class Place : std::uint8_t {
    kJob,    // A group of its own in our session, as a shell makes one.
    kAlone,  // A session of its own: nobody there could make it go on.
  };
  // Forks; `after` is what the child does with its screen open.
  void Begin(const std::function<void(RealLoop& loop)>& after, Place place = Place::kJob) {
    child = fork();
    ASSERT_GE(child, 0);
    if (child > 0) return;
    (void)(place == Place::kJob ? setpgid(0, 0) : setsid());
    // Sanitizers handle crashes; a program that people run does not.
    for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP}) {
      (void)signal(number, SIG_DFL);
    }
    RealLoop own;
    ProcessTerminal mine(
        own, ProcessTerminal::Descriptors{.in = program, .out = program, .err = program});
    const Pending stops = mine.WhenStopped([](int number) { _exit(128 + number); });
    const Pending screen = mine.OpenScreen(
        {.resized = [&](ScreenSize) { mine.Write(Terminal::Stream::kOut, "DRAWN"); }});
    after(own);
    _exit(1);
  }
  // Until the text has come to the screen.
  [[nodiscard]] bool Sees(std::string_view text) {
    return RunUntil(loop, [&] {
      seen += Seen();
      return seen.contains(text);
    });
  }
  [[nodiscard]] int WaitFor(int options) const {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, options), child);
    return status;
  }

  pid_t child = -1;
  std::string seen;
};

TEST_F(ScreenProcessTest, ACrashGivesTheTerminalBackAndEndsAsItWouldHave) {
  const std::string before = Modes();
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP}) {
    seen.clear();
    ASSERT_NO_FATAL_FAILURE(Begin([number](RealLoop&) { (void)raise(number); }));
    const int status = WaitFor(0);
    EXPECT_TRUE(WIFSIGNALED(status)) << number;
    EXPECT_EQ(WTERMSIG(status), number);
    EXPECT_EQ(Modes(), before) << number;
    seen += Seen();
    EXPECT_THAT(seen, testing::AllOf(HasSubstr(kEntered), testing::EndsWith(kLeft))) << number;
  }
}

// The real thing: a fault of the program itself, and a stack without room.
TEST_F(ScreenProcessTest, AFaultGivesTheTerminalBack) {
  const std::string before = Modes();
  const auto fault = [](RealLoop&) {
    // A page that may not be read: the kernel's own SIGSEGV, whatever the compiler thinks.
    void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)*static_cast<volatile char*>(page);
  };
  ASSERT_NO_FATAL_FAILURE(Begin(fault));
  const int status = WaitFor(0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_EQ(Modes(), before);
  EXPECT_THAT(Seen(), testing::EndsWith(kLeft));
}

TEST_F(ScreenProcessTest, AStopGivesTheTerminalBackUntilItGoesOn) {
  const std::string before = Modes();
  ASSERT_NO_FATAL_FAILURE(Begin([](RealLoop& own) { own.Run(); }));
  ASSERT_TRUE(Sees(kEntered));
  for (const bool by_key : {false, true}) {
    seen.clear();
    // The key is read only once the modes are raw; a signal is taken whenever it comes.
    by_key ? Type("\x1a") : (void)kill(child, SIGTSTP);
    EXPECT_TRUE(WIFSTOPPED(WaitFor(WUNTRACED)));
    EXPECT_EQ(Modes(), before);
    EXPECT_TRUE(Sees(kLeft));
    seen.clear();
    ASSERT_EQ(kill(child, SIGCONT), 0);
    EXPECT_TRUE(Sees("DRAWN")) << seen;
    EXPECT_THAT(seen, HasSubstr(kEntered));
    EXPECT_NE(Modes(), before);
  }
  ASSERT_EQ(kill(child, SIGTERM), 0);
  EXPECT_EQ(WEXITSTATUS(WaitFor(0)), 128 + SIGTERM);
  EXPECT_EQ(Modes(), before);
}

// Without a shell that could say "go on" a stop would be for ever: it is none.
TEST_F(ScreenProcessTest, WhereNobodyCouldMakeItGoOnItDoesNotStop) {
  ASSERT_NO_FATAL_FAILURE(Begin([](RealLoop& own) { own.Run(); }, Place::kAlone));
  ASSERT_TRUE(Sees(kEntered));
  seen.clear();
  ASSERT_EQ(kill(child, SIGTSTP), 0);
  EXPECT_TRUE(Sees("DRAWN")) << seen;
  EXPECT_THAT(seen, testing::AllOf(HasSubstr(kLeft), HasSubstr(kEntered)));
  ASSERT_EQ(kill(child, SIGTERM), 0);
  EXPECT_EQ(WEXITSTATUS(WaitFor(0)), 128 + SIGTERM);
}

TEST_F(ProcessTerminalTest, CtrlCOnTheScreenIsAStop) {
  std::vector<int> told;
  const Pending stops = terminal->WhenStopped([&](int got) { told.push_back(got); });
  const Pending screen = terminal->OpenScreen({});
  Type("\x03");
  ASSERT_TRUE(RunUntil(loop, [&] { return !told.empty(); }));
  EXPECT_THAT(told, ElementsAre(SIGINT));
}

TEST_F(ProcessTerminalTest, ATerminalThatGoesAwayIsAHangUp) {
  std::vector<int> told;
  const Pending stops = terminal->WhenStopped([&](int got) { told.push_back(got); });
  const Pending screen = terminal->OpenScreen({});
  (void)close(person);
  person = -1;
  ASSERT_TRUE(RunUntil(loop, [&] { return !told.empty(); }));
  EXPECT_THAT(told, ElementsAre(SIGHUP));
}

TEST_F(ProcessTerminalTest, SizeChangesAreTold) {
  std::optional<ScreenSize> told;
  const Pending screen = terminal->OpenScreen({.resized = [&](ScreenSize size) { told = size; }});
  const winsize size{.ws_row = 10, .ws_col = 40, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(person, TIOCSWINSZ, &size), 0);
  ASSERT_EQ(raise(SIGWINCH), 0);
  ASSERT_TRUE(RunUntil(loop, [&] { return told.has_value(); }));
  EXPECT_EQ(told, (ScreenSize{.columns = 40, .rows = 10}));
}

TEST_F(ProcessTerminalTest, DestroyingItLeavesTheScreen) {
  const std::string before = Modes();
  Pending screen = terminal->OpenScreen({});
  screen.Cancel();
  Pending again = terminal->OpenScreen({});
  again.Cancel();
  EXPECT_EQ(Modes(), before);
}

}  // namespace
}  // namespace nstance
