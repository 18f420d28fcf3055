#include "adapters/local_machine/posix_machine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "adapters/agent_files/local_agent_files.h"

namespace nstance {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPrivateFolder = 0700;
constexpr mode_t kSharedFolder = 0755;
constexpr unsigned kPrivateFile = 0600;

class Descriptor final {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) (void)::close(number_);
  }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

Error SystemError(int error_number, std::string_view doing, const std::string& path) {
  const std::error_code code(error_number, std::generic_category());
  std::string what = fmt::format("{} {}: {}", doing, path, code.message());
  if (error_number == EACCES || error_number == EPERM || error_number == EROFS) {
    return PermissionDenied(std::move(what));
  }
  return error_number == ENOENT ? NotFound(std::move(what)) : FailedPrecondition(std::move(what));
}

Status SyncFolder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return Fail(SystemError(errno, "opening", path));
  if (::fsync(folder.number()) != 0) return Fail(SystemError(errno, "syncing", path));
  return {};
}

std::string FolderOf(const std::string& path) {
  const fs::path above = fs::path(path).parent_path();
  return above.empty() ? "." : above.string();
}

// The folder and those above it that are missing.
Status MakeFolders(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return SyncFolder(FolderOf(path));
  if (errno == EEXIST) {
    struct stat about{};
    if (::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) return {};
    return Fail(FailedPrecondition(path + " is there and is no folder"));
  }
  const std::string above = FolderOf(path);
  if (errno != ENOENT || above == path || above == ".") {
    return Fail(SystemError(errno, "making the folder", path));
  }
  RETURN_IF_ERROR(MakeFolders(above, mode));
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return Fail(SystemError(errno, "making the folder", path));
  }
  return SyncFolder(above);
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.empty() ? "." : path;
}

Status WriteAll(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(SystemError(errno, "writing", path));
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fsync(file) != 0) return Fail(SystemError(errno, "syncing", path));
  return {};
}

}  // namespace

Result<std::unique_ptr<AgentFiles>> PosixMachine::OpenFolder(const std::string& path) {
  RETURN_IF_ERROR(MakeFolders(WithoutSlash(path), kPrivateFolder));
  ASSIGN_OR_RETURN(auto files, LocalAgentFiles::Open(WithoutSlash(path), kPrivateFile));
  return files;
}

Status PosixMachine::MakeFolder(const std::string& path) {
  return MakeFolders(WithoutSlash(path), kSharedFolder);
}

// Written under another name first, then linked: exactly one of several makers wins.
Status PosixMachine::CreateFile(const std::string& path, std::string_view bytes) {
  RETURN_IF_ERROR(MakeFolders(FolderOf(path), kPrivateFolder));
  const std::string temporary = fmt::format("{}.new-{}", path, ::getpid());
  (void)::unlink(temporary.c_str());
  Status written;
  {
    const Descriptor file(::open(
        temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPrivateFile));
    if (!file.is_open()) return Fail(SystemError(errno, "creating", temporary));
    written = WriteAll(file.number(), bytes, temporary);
  }
  if (written.has_value() && ::link(temporary.c_str(), path.c_str()) != 0) {
    written = errno == EEXIST ? Fail(AlreadyExists(path + " is there already"))
                              : Fail(SystemError(errno, "creating", path));
  }
  (void)::unlink(temporary.c_str());
  RETURN_IF_ERROR(written);
  return SyncFolder(FolderOf(path));
}

bool PosixMachine::Exists(const std::string& path) {
  struct stat about{};
  return ::lstat(path.c_str(), &about) == 0;
}

Result<std::string> PosixMachine::ReadFile(const std::string& path, std::size_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.is_open()) return Fail(SystemError(errno, "reading", path));
  std::string bytes(max_bytes + 1, '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(file.number(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(SystemError(errno, "reading", path));
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  if (filled > max_bytes) {
    return Fail(ResourceExhausted(fmt::format("{} is larger than {} bytes", path, max_bytes)));
  }
  bytes.resize(filled);
  return bytes;
}

std::string PosixMachine::AbsolutePath(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return path;
  return WithoutSlash(absolute.lexically_normal().string());
}

std::string PosixMachine::ProgramFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : program.parent_path().string();
}

std::string PosixMachine::Architecture() {
#if defined(__aarch64__)
  return "arm64";
#else
  return "amd64";
#endif
}

Result<std::vector<std::uint16_t>> PosixMachine::FreePorts(std::size_t count) {
  std::vector<Descriptor> held;  // Until all are known, so that they differ.
  std::vector<std::uint16_t> ports;
  while (ports.size() < count) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) return Fail(SystemError(errno, "opening", "a socket"));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return Fail(SystemError(errno, "binding", "127.0.0.1"));
    }
    ports.push_back(ntohs(address.sin_port));
    held.push_back(std::move(socket));
  }
  return ports;
}

}  // namespace nstance
