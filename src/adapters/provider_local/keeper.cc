#include "adapters/provider_local/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "adapters/provider_local/console.h"
#include "adapters/provider_local/processes.h"
#include "adapters/provider_local/records.h"

namespace nstance::provider_local {
namespace {

constexpr int kCannotRun = 127;
constexpr auto kBetweenKills = Duration::Milliseconds(100);

Instant Now() {
  timespec now{};
  (void)::clock_gettime(CLOCK_BOOTTIME, &now);
  return Instant::FromClock(Duration::Seconds(now.tv_sec) + Duration::Nanoseconds(now.tv_nsec));
}

Timestamp WallNow() {
  timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME, &now);
  return Timestamp::FromUnix(now.tv_sec, static_cast<std::int32_t>(now.tv_nsec));
}

struct Pipe {
  Descriptor out;
  Descriptor in;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Fail(SystemError(errno, "making a pipe"));
  return Pipe{.out = Descriptor(ends[0]), .in = Descriptor(ends[1])};
}

// "NAME=value" and a null pointer at the end, for exec.
class Environment final {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    entries_.reserve(variables.size());
    for (const auto& [name, value] : variables)
      entries_.push_back(fmt::format("{}={}", name, value));
    for (std::string& entry : entries_) pointers_.push_back(entry.data());
    pointers_.push_back(nullptr);
  }
  [[nodiscard]] char* const* data() const { return pointers_.data(); }

 private:
  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
};

class Keeper final {
 public:
  explicit Keeper(const KeeperOptions& options) : options_(options) {}

  Status Start() {
    RETURN_IF_ERROR(Prepare());
    ASSIGN_OR_RETURN(Pipe gate, MakePipe());
    RETURN_IF_ERROR(Fork(gate));
    Step("keeper-forked");
    gate.out = Descriptor();
    const auto self = FindProcess(::getpid());
    if (!self) return Fail(Unavailable("this process is not in /proc"));
    run_ = {.keeper = self->name,
            .boot_id = BootId(),
            .pid_namespace = PidNamespace(),
            .started_at = WallNow()};
    // Whoever removes the instance may have called it off, and removed that word since.
    RETURN_IF_ERROR(PlaceFile(folder_.number(), std::string(kRunFile), WriteRun(run_), 0600));
    if (!InPlace()) return Fail(NotFound("the instance was removed meanwhile"));
    Step("keeper-recorded");
    if (meta_->run_limit) limit_at_ = Now() + *meta_->run_limit;
    (void)WriteAll(gate.in.number(), "!", "the gate");  // A shell that is dead already: seen below.
    Step("keeper-released");
    return {};
  }

  // Until the last process of the tree has ended.
  void Stay() {
    Console console(folder_.number(), options_.console_limit);
    while (Collect()) {
      WaitForNews();
      ReadSignals();
      Drain(console);
      if (Now() >= limit_at_) EndTree();
    }
    Drain(console);
    Step("keeper-ended");
    run_.exit_code = exit_code_;
    (void)ReplaceFile(folder_.number(), std::string(kRunFile), WriteRun(run_), 0600);
    Step("keeper-noted");
  }

 private:
  void Step(std::string_view name) const {
    if (options_.step) options_.step(name);
  }

  Status Prepare() {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    (void)::umask(022);
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
      return Fail(SystemError(errno, "becoming the parent of orphans"));
    }
    ASSIGN_OR_RETURN(folder_, OpenFolder(AT_FDCWD, options_.folder));
    RETURN_IF_ERROR(CheckLock());
    Step("keeper-locked");
    ASSIGN_OR_RETURN(Meta meta, ReadMeta(folder_.number()));
    meta_ = std::move(meta);
    ASSIGN_OR_RETURN(const std::optional<Run> before, ReadRun(folder_.number()));
    if (before) return Fail(FailedPrecondition("the instance has run already"));
    sigset_t children{};
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    signals_ = Descriptor(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_.is_open()) return Fail(SystemError(errno, "making a signalfd"));
    return {};
  }

  [[nodiscard]] bool InPlace() const {
    struct stat held{};
    struct stat named{};
    return ::fstat(folder_.number(), &held) == 0 && ::stat(options_.folder.c_str(), &named) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
  }

  // It is the lock of this folder, and it is ours.
  Status CheckLock() {
    struct stat held{};
    struct stat named{};
    const std::string name(kLockFile);
    if (::fstat(kKeeperLock, &held) != 0 ||
        ::fstatat(folder_.number(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
        held.st_dev != named.st_dev || held.st_ino != named.st_ino) {
      return Fail(FailedPrecondition("the instance's lock was not handed over"));
    }
    if (::flock(kKeeperLock, LOCK_EX | LOCK_NB) != 0) {
      return Fail(FailedPrecondition("another keeper holds the lock"));
    }
    if (::fcntl(kKeeperLock, F_SETFD, FD_CLOEXEC) != 0) {
      return Fail(SystemError(errno, "keeping the lock"));
    }
    (void)::fcntl(kKeeperReport, F_SETFD, FD_CLOEXEC);
    return {};
  }

  Status Fork(const Pipe& gate) {
    ASSIGN_OR_RETURN(Pipe console, MakePipe());
    const int flags = ::fcntl(console.out.number(), F_GETFL);
    (void)::fcntl(console.out.number(), F_SETFL, flags | O_NONBLOCK);
    const Environment environment(meta_->environment);
    shell_ = ::fork();
    if (shell_ < 0) return Fail(SystemError(errno, "forking the shell"));
    if (shell_ == 0) Become(gate, console, environment);
    console_ = std::move(console.out);
    return {};
  }

  // In the child.
  [[noreturn]] void Become(const Pipe& gate, const Pipe& console, const Environment& environment) {
    // Without our own end of the gate its other end tells when the keeper dies.
    (void)::close(gate.in.number());
    char go = 0;
    ssize_t count = 0;
    while ((count = ::read(gate.out.number(), &go, 1)) < 0 && errno == EINTR) continue;
    if (count != 1) ::_exit(kCannotRun);
    (void)::setpgid(0, 0);
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const std::string work(kWorkFolder);
    if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 ||
        ::dup2(console.in.number(), STDOUT_FILENO) < 0 ||
        ::dup2(console.in.number(), STDERR_FILENO) < 0 || ::fchdir(folder_.number()) != 0 ||
        ::chdir(work.c_str()) != 0) {
      ::_exit(kCannotRun);
    }
    // 1 to 31: what the server ignores must not be ignored here.
    for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
    sigset_t none{};
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    std::string shell = meta_->shell;
    std::string script = fmt::format("{}/{}", options_.folder, kUserDataFile);
    const std::array<char*, 3> arguments = {shell.data(), script.data(), nullptr};
    ::execve(shell.c_str(), arguments.data(), environment.data());
    const std::string why = SystemError(errno, fmt::format("running {}", shell)).message + "\n";
    (void)!::write(STDERR_FILENO, why.data(), why.size());
    ::_exit(kCannotRun);
  }

  // False when nobody is left.
  bool Collect() {
    for (;;) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0) return errno != ECHILD;
      if (info.si_pid == 0) return true;
      if (info.si_pid != shell_) continue;
      exit_code_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    }
  }

  void WaitForNews() {
    const Instant until = std::min(limit_at_, Now() + Duration::Hours(1));
    const std::int64_t wait = (until - Now()).milliseconds() + 1;
    std::array<pollfd, 2> waiting = {
        pollfd{.fd = signals_.number(), .events = POLLIN, .revents = 0},
        pollfd{.fd = console_.number(), .events = POLLIN, .revents = 0}};
    (void)::poll(waiting.data(), waiting.size(), static_cast<int>(std::max<std::int64_t>(wait, 0)));
  }

  void ReadSignals() const {
    signalfd_siginfo info{};
    while (::read(signals_.number(), &info, sizeof(info)) > 0) continue;
  }

  // At most a few buffers, so that a tree that writes without end still can.
  void Drain(Console& console) {
    std::array<char, 65'536> buffer{};
    for (int turn = 0; turn < 16 && console_.is_open(); ++turn) {
      const ssize_t count = ::read(console_.number(), buffer.data(), buffer.size());
      if (count < 0) return;  // Nothing there now.
      if (count == 0) {
        console_ = Descriptor();  // Nobody can write any more.
        return;
      }
      console.Write({buffer.data(), static_cast<std::size_t>(count)});
    }
  }

  // The run limit is over; called again until nobody is left.
  void EndTree() {
    const auto tree = FindTree(meta_->instance_id.text(), run_.keeper);
    if (tree) {
      const int signal = kill_at_ && Now() >= *kill_at_ ? SIGKILL : SIGTERM;
      if (!kill_at_ || signal == SIGKILL) {
        for (const Process& process : tree->members) SendSignal(process.name, signal);
      }
    }
    if (!kill_at_) kill_at_ = Now() + meta_->kill_grace;
    limit_at_ = std::max(*kill_at_, Now() + kBetweenKills);
  }

  const KeeperOptions& options_;
  Descriptor folder_;
  std::optional<Meta> meta_;
  Run run_;
  pid_t shell_ = -1;
  int exit_code_ = kCannotRun;
  Descriptor signals_;
  Descriptor console_;
  Instant limit_at_ = Instant::Never();
  std::optional<Instant> kill_at_;
};

void Report(std::string_view text) {
  (void)!::write(kKeeperReport, text.data(), text.size());
  (void)::close(kKeeperReport);
}

}  // namespace

int RunKeeper(const KeeperOptions& options) {
  Keeper keeper(options);
  if (const Status started = keeper.Start(); !started) {
    Report(started.error().message);
    return 1;
  }
  Report(kKeeperStarted);
  keeper.Stay();
  return 0;
}

}  // namespace nstance::provider_local
