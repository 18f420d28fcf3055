#include "test/support/background_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/check.h"

extern char** environ;

namespace nstance::test {
namespace {

constexpr std::size_t kTail = 2'000;

// What this process has, after what is given: the first of a name counts in the places we look.
std::vector<std::string> Merged(const std::vector<std::string>& given) {
  std::vector<std::string> all = given;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    const bool replaced =
        std::ranges::any_of(given, [&](const std::string& own) { return own.starts_with(name); });
    if (!replaced) all.push_back(text);
  }
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Child {
  char** argv;
  char** environment;
  const char* directory;  // Null pointer: as it is.
  int output;
  int report;  // Where an errno is written when the program cannot be started.
  pid_t parent;
};

// Between fork and exec: only calls that are safe there.
[[noreturn]] void RunChild(const Child& child) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(1);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(child.output, STDOUT_FILENO);
  ::dup2(child.output, STDERR_FILENO);
  if (child.directory == nullptr || ::chdir(child.directory) == 0) {
    ::execve(child.argv[0], child.argv, child.environment);
  }
  const int error = errno;
  if (::write(child.report, &error, sizeof(error)) < 0) ::_exit(126);
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<BackgroundProcess>> BackgroundProcess::Start(
    const ProcessRequest& request, const std::string& output_file) {
  CHECK(!request.argv.empty());
  std::vector<std::string> arguments = request.argv;
  if (!arguments.front().contains('/')) {
    ASSIGN_OR_RETURN(arguments.front(), FindProgram(arguments.front()));
  }
  std::vector<std::string> environment = Merged(request.environment);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> variables = Pointers(environment);
  int report[2] = {-1, -1};
  CHECK(::pipe2(report, O_CLOEXEC) == 0, "error {}", errno);
  const int output = ::open(output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  CHECK(output >= 0, "{}: error {}", output_file, errno);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  CHECK(pid >= 0, "error {}", errno);
  if (pid == 0) {
    RunChild({.argv = const_cast<char**>(argv.data()),
              .environment = const_cast<char**>(variables.data()),
              .directory = request.directory.empty() ? nullptr : request.directory.c_str(),
              .output = output,
              .report = report[1],
              .parent = parent});
  }
  ::setpgid(pid, pid);
  ::close(output);
  ::close(report[1]);
  int error = 0;
  const ssize_t got = ::read(report[0], &error, sizeof(error));
  ::close(report[0]);
  std::unique_ptr<BackgroundProcess> process(new BackgroundProcess(pid, output_file));
  if (got > 0) {
    const std::string message =
        fmt::format("cannot start {}: {}", arguments.front(), std::strerror(error));
    return Fail(error == ENOENT ? NotFound(message) : FailedPrecondition(message));
  }
  return process;
}

BackgroundProcess::~BackgroundProcess() {
  if (!Running()) {
    ::kill(-pid_, SIGKILL);  // What it may have left behind.
    return;
  }
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

bool BackgroundProcess::Running() { return !exit_code().has_value(); }

std::optional<int> BackgroundProcess::exit_code() {
  int status = 0;
  if (!exit_code_.has_value() && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return exit_code_;
}

void BackgroundProcess::Signal(int number) const { ::kill(-pid_, number); }

std::string BackgroundProcess::OutputTail() const {
  std::ifstream file(output_file_, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return text.size() > kTail ? text.substr(text.size() - kTail) : text;
}

int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(socket >= 0, "error {}", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  CHECK(::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0, "error {}", errno);
  CHECK(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0, "error {}",
        errno);
  ::close(socket);
  return ntohs(address.sin_port);
}

}  // namespace nstance::test
