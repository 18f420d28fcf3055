#include "test/e2e/instance_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "test/support/loop_runner.h"

namespace nstance::test {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::vector<InstanceProcess> InstanceProcesses(const std::string& root) {
  using std::string_literals::operator""s;
  constexpr std::string_view kMark = "NSTANCE_LOCAL_ID=";
  std::vector<InstanceProcess> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    int pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr !=
        name.data() + name.size()) {
      continue;
    }
    const std::string environment = '\0' + ReadFile(entry.path() / "environ");
    const std::size_t mark = environment.find('\0' + std::string(kMark));
    if (mark == std::string::npos) continue;
    const std::string folder = fs::read_symlink(entry.path() / "cwd", error).string();
    const bool works_here = !error && (folder + "/").starts_with(root + "/");
    const bool named = ('\0' + ReadFile(entry.path() / "cmdline")).contains("\0"s + root + "/");
    if (!works_here && !named) continue;
    found.push_back({.pid = pid, .instance_id = environment.c_str() + mark + 1 + kMark.size()});
  }
  return found;
}

// A shell in a session of its own reads a pipe of which only this process has the other end.
InstanceGuard::InstanceGuard(RealLoop& loop, std::string root)
    : loop_(loop), root_(std::move(root)) {
  constexpr const char* kScript =
      "read -r; for p in /proc/[0-9]*; do"
      "  case \"$(readlink $p/cwd)/\" in \"$1\"/*)"
      "    tr '\\0' '\\n' < $p/environ | grep -q '^NSTANCE_LOCAL_ID=' && kill -9 ${p#/proc/};; "
      "esac;"
      "done 2>/dev/null";
  std::array<int, 2> ends{};
  CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, "errno {}", errno);
  guard_ = ::fork();
  CHECK(guard_ >= 0, "errno {}", errno);
  if (guard_ == 0) {
    ::setsid();
    ::dup2(ends[0], STDIN_FILENO);
    ::execl("/bin/bash", "bash", "-c", kScript, "guard", root_.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[0]);
  guarded_ = ends[1];
}

InstanceGuard::~InstanceGuard() {
  // A process that is being started may be missed by one look.
  static_cast<void>(RunUntil(
      loop_,
      [&] {
        const std::vector<InstanceProcess> left = InstanceProcesses(root_);
        for (const InstanceProcess& process : left) ::kill(process.pid, SIGKILL);
        return left.empty();
      },
      Duration::Seconds(10)));
  ::close(guarded_);
  ::waitpid(guard_, nullptr, 0);
}

}  // namespace nstance::test
