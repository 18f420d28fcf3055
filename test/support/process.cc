#include "test/support/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"

extern char** environ;

namespace nstance::test {
namespace {

class Descriptor final {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { Close(); }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool open() const { return number_ >= 0; }
  void Close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Pipe MakePipe() {
  std::array<int, 2> ends{};
  CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, "error {}", errno);
  CHECK(::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "error {}", errno);
  return {.read = Descriptor(ends[0]), .write = Descriptor(ends[1])};
}

// The input as an anonymous file: the program reads it at its own pace and nobody has to feed it.
Descriptor FileWith(std::string_view bytes) {
  Descriptor file(::memfd_create("input", MFD_CLOEXEC));
  CHECK(file.open(), "error {}", errno);
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
    CHECK(written > 0, "error {}", errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  CHECK(::lseek(file.number(), 0, SEEK_SET) == 0, "error {}", errno);
  return file;
}

// Reads what is there without waiting, at most a buffer full. Closes the pipe at its end. True when
// there may be more.
bool ReadSome(Descriptor& from, std::string& into) {
  if (!from.open()) return false;
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(from.number(), buffer.data(), buffer.size());
  CHECK(got >= 0 || errno == EAGAIN || errno == EINTR, "error {}", errno);
  if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
  if (got == 0) from.Close();
  return got > 0;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const std::vector<std::string>& replaced) {
  std::vector<std::string> all = replaced;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    bool keep = true;
    for (const std::string& other : replaced) keep = keep && !other.starts_with(name);
    if (keep) all.emplace_back(text);
  }
  return all;
}

struct Streams {
  int in;
  int out;
  int err;
};

// Starts the program as the leader of a process group of its own.
Result<pid_t> Spawn(const ProcessRequest& request, const Streams& streams) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, streams.in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, streams.out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, streams.err, STDERR_FILENO);
  if (!request.directory.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, request.directory.c_str());
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> arguments = request.argv;
  std::vector<std::string> environment = Environment(request.environment);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, request.argv.front().c_str(), &actions, &attributes,
                                   Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  const std::string message =
      fmt::format("cannot start {}: {}", request.argv.front(), std::strerror(error));
  return Fail(error == ENOENT ? NotFound(message) : FailedPrecondition(message));
}

int ExitCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace

std::string ProcessOutput::ToString() const {
  return fmt::format("exit code {}: {}", exit_code, err);
}

Result<ProcessOutput> RunProcess(const ProcessRequest& request) {
  CHECK(!request.argv.empty());
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(request.deadline.nanoseconds());
  Pipe out = MakePipe();
  Pipe err = MakePipe();
  const Descriptor in = FileWith(request.input);
  ASSIGN_OR_RETURN(
      const pid_t pid,
      Spawn(request, {.in = in.number(), .out = out.write.number(), .err = err.write.number()}));
  out.write.Close();
  err.write.Close();
  // Not pidfd_open(): glibc 2.36 declares it without C linkage.
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  CHECK(process.open(), "error {}", errno);

  ProcessOutput output;
  bool ended = false;
  while (!ended) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    // A closed pipe is -1 here, which poll passes over.
    std::array<pollfd, 3> waiting = {{{.fd = process.number(), .events = POLLIN, .revents = 0},
                                      {.fd = out.read.number(), .events = POLLIN, .revents = 0},
                                      {.fd = err.read.number(), .events = POLLIN, .revents = 0}}};
    const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
    CHECK(ready >= 0 || errno == EINTR, "error {}", errno);
    ended = ready > 0 && waiting[0].revents != 0;
    ReadSome(out.read, output.out);
    ReadSome(err.read, output.err);
  }
  // All that the program wrote is in the pipes by now.
  while (ended && ReadSome(out.read, output.out)) continue;
  while (ended && ReadSome(err.read, output.err)) continue;
  if (!ended) ::kill(-pid, SIGKILL);
  int wait_status = 0;
  while (::waitpid(pid, &wait_status, 0) < 0) CHECK(errno == EINTR, "error {}", errno);
  if (!ended) {
    return Fail(DeadlineExceeded(fmt::format("{} did not end within {}", request.argv.front(),
                                             FormatDuration(request.deadline))));
  }
  output.exit_code = ExitCode(wait_status);
  return output;
}

Result<std::string> FindProgram(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? std::string_view() : std::string_view(path);
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    const std::string candidate = std::string(folder).append("/").append(name);
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return Fail(NotFound(fmt::format("{} is not in PATH", name)));
}

}  // namespace nstance::test
