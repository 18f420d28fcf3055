#include "adapters/provider_local/keeper_start.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/core.h>

#include "adapters/provider_local/keeper.h"
#include "adapters/provider_local/processes.h"
#include "base/check.h"

namespace nstance::provider_local {
namespace {

constexpr int kFirstFree = 16;  // Above what the keeper finds open.
constexpr int kPollMilliseconds = 50;
constexpr int kPatienceMilliseconds = 20'000;
constexpr int kLeavingMilliseconds = 1'000;

// posix_spawn's attributes and file actions, which must be destroyed.
class SpawnPlan final {
 public:
  SpawnPlan(int lock, int report) {
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawn_file_actions_init(&actions_);
    sigset_t none{};
    ::sigemptyset(&none);
    sigset_t all{};
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    const int flags = POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::posix_spawn_file_actions_addopen(&actions_, standard, "/dev/null", O_RDWR, 0);
    }
    ::posix_spawn_file_actions_adddup2(&actions_, lock, kKeeperLock);
    ::posix_spawn_file_actions_adddup2(&actions_, report, kKeeperReport);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kKeeperReport + 1);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  // An errno, or 0.
  int Spawn(pid_t& pid, std::vector<std::string> arguments, std::string mark) {
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const std::array<char*, 2> environment = {mark.data(), nullptr};
    return ::posix_spawn(&pid, pointers.front(), &actions_, &attributes_, pointers.data(),
                         environment.data());
  }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t actions_{};
};

// What the keeper says, until it has said all or the patience is over.
std::string ReadReport(int report, const std::stop_token& stop) {
  std::string text;
  for (int waited = 0; waited < kPatienceMilliseconds && !stop.stop_requested();) {
    pollfd waiting{.fd = report, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kPollMilliseconds) <= 0) {
      waited += kPollMilliseconds;
      continue;
    }
    std::array<char, 1'024> buffer{};
    const ssize_t count = ::read(report, buffer.data(), buffer.size());
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > buffer.size()) break;
  }
  return text;
}

}  // namespace

Status StartKeeper(const KeeperStart& start, Descriptor lock, const std::stop_token& stop) {
  CHECK(!start.command.empty(), "a keeper needs a program");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Fail(ResourceExhausted("no descriptor is left to start a keeper"));
  }
  const Descriptor report(ends[0]);
  Descriptor theirs(ends[1]);
  const Descriptor high_lock(::fcntl(lock.number(), F_DUPFD_CLOEXEC, kFirstFree));
  Descriptor high_report(::fcntl(theirs.number(), F_DUPFD_CLOEXEC, kFirstFree));
  if (!high_lock.is_open() || !high_report.is_open()) {
    return Fail(ResourceExhausted("no descriptor is left to start a keeper"));
  }
  std::vector<std::string> arguments = start.command;
  arguments.push_back(start.folder);
  pid_t pid = -1;
  const int error_number =
      SpawnPlan(high_lock.number(), high_report.number())
          .Spawn(pid, std::move(arguments), fmt::format("{}={}", kMarkVariable, start.instance_id));
  if (error_number == EAGAIN || error_number == ENOMEM) {
    return Fail(ResourceExhausted("this machine has no room for another process"));
  }
  if (error_number != 0) {
    return Fail(
        SystemError(error_number, fmt::format("starting {}", start.command.front())).MaybeDone());
  }
  theirs = Descriptor();
  high_report = Descriptor();
  const std::string said = ReadReport(report.number(), stop);
  if (said == kKeeperStarted) return {};
  // One that is about to leave is waited for, so that nothing of it remains.
  const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd leaving{.fd = handle.number(), .events = POLLIN, .revents = 0};
  (void)::poll(&leaving, 1, kLeavingMilliseconds);
  Reap(pid);
  return Fail(Unavailable(fmt::format("the keeper {}", said.empty() ? "has said nothing" : said))
                  .MaybeDone());
}

void Reap(pid_t pid) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) != 0 && errno == EINTR) {
  }
}

}  // namespace nstance::provider_local
