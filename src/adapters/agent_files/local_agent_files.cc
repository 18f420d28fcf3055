#include "adapters/agent_files/local_agent_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace nstance {
namespace {

constexpr std::string_view kTemporary = ".nstance-tmp-";

std::string Reason(int error_number) {
  return std::error_code(error_number, std::generic_category()).message();
}

Error Failed(std::string_view doing, const std::string& path, int error_number) {
  std::string what = fmt::format("{} {}: {}", doing, path, Reason(error_number));
  if (error_number == ELOOP) return FailedPrecondition(std::move(what));
  return Unavailable(std::move(what));
}

class Descriptor final {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) (void)::close(number_);
  }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

// 0, or errno.
int WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

// Calls `visit` with the name of every entry.
template <class Visit>
int ForEachEntry(int directory, Visit visit) {
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return errno;
  DIR* stream = ::fdopendir(copy);
  if (stream == nullptr) {
    const int error_number = errno;
    (void)::close(copy);
    return error_number;
  }
  // The stream is this function's own, which is what readdir asks for.
  while (const dirent* entry = ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe)
    visit(std::string(entry->d_name));
  }
  (void)::closedir(stream);
  return 0;
}

}  // namespace

Result<std::unique_ptr<LocalAgentFiles>> LocalAgentFiles::Open(std::string directory,
                                                               unsigned mode) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return Fail(FailedPrecondition(fmt::format("{}: {}", directory, Reason(errno))));
  }
  std::unique_ptr<LocalAgentFiles> files(
      new LocalAgentFiles(std::move(directory), descriptor, mode));
  if (::faccessat(descriptor, ".", R_OK | W_OK | X_OK, AT_EACCESS) != 0) {
    return Fail(FailedPrecondition(
        fmt::format("{} cannot be written: {}", files->directory_, Reason(errno))));
  }
  files->RemoveTemporaries();
  return files;
}

LocalAgentFiles::~LocalAgentFiles() { (void)::close(descriptor_); }

void LocalAgentFiles::RemoveTemporaries() const {
  std::vector<std::string> left;
  (void)ForEachEntry(descriptor_, [&](std::string name) {
    if (name.starts_with(kTemporary)) left.push_back(std::move(name));
  });
  for (const std::string& name : left) (void)::unlinkat(descriptor_, name.c_str(), 0);
}

std::string LocalAgentFiles::PathOf(std::string_view name) const {
  return fmt::format("{}/{}", directory_, name);
}

Result<std::optional<std::string>> LocalAgentFiles::Read(std::string_view name) {
  const std::string path = PathOf(name);
  const Descriptor file(::openat(descriptor_, std::string(name).c_str(),
                                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    return Fail(Failed("reading", path, errno));
  }
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return Fail(Failed("reading", path, errno));
  if (!S_ISREG(about.st_mode)) {
    return Fail(FailedPrecondition(fmt::format("{} is not a regular file", path)));
  }
  std::string bytes;
  std::array<char, 16'384> buffer{};
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(Failed("reading", path, errno));
    if (count == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
    if (bytes.size() > kMaxFileBytes) {
      return Fail(ResourceExhausted(fmt::format("{} is above {} bytes", path, kMaxFileBytes)));
    }
  }
}

Status LocalAgentFiles::WriteTemporary(const std::string& temporary, std::string_view bytes) const {
  const std::string path = PathOf(temporary);
  (void)::unlinkat(descriptor_, temporary.c_str(), 0);
  const Descriptor file(::openat(descriptor_, temporary.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return Fail(Failed("creating", path, errno));
  if (::fchmod(file.get(), static_cast<mode_t>(mode_)) != 0) {
    return Fail(Failed("setting the mode of", path, errno));
  }
  if (const int error_number = WriteAll(file.get(), bytes); error_number != 0) {
    return Fail(Failed("writing", path, error_number));
  }
  if (::fsync(file.get()) != 0) return Fail(Failed("syncing", path, errno));
  return {};
}

Status LocalAgentFiles::Replace(std::string_view name, std::string_view bytes) {
  const std::string temporary = fmt::format("{}{}", kTemporary, name);
  Status status = WriteTemporary(temporary, bytes);
  if (status) status = Move(temporary, name);
  if (!status) (void)::unlinkat(descriptor_, temporary.c_str(), 0);
  return status;
}

Status LocalAgentFiles::Move(std::string_view from, std::string_view to) {
  if (::renameat(descriptor_, std::string(from).c_str(), descriptor_, std::string(to).c_str()) !=
      0) {
    if (errno == ENOENT) return Fail(NotFound(fmt::format("there is no {}", PathOf(from))));
    return Fail(Failed("writing", PathOf(to), errno));
  }
  return SyncDirectory();
}

Status LocalAgentFiles::Remove(std::string_view name) {
  if (::unlinkat(descriptor_, std::string(name).c_str(), 0) != 0) {
    if (errno == ENOENT) return {};
    return Fail(Failed("removing", PathOf(name), errno));
  }
  return SyncDirectory();
}

Status LocalAgentFiles::SyncDirectory() const {
  if (::fsync(descriptor_) == 0) return {};
  return Fail(Failed("syncing", directory_, errno));
}

Result<std::map<std::string, Timestamp>> LocalAgentFiles::List() {
  std::map<std::string, Timestamp> files;
  const int error_number = ForEachEntry(descriptor_, [&](std::string name) {
    struct stat about{};
    if (name.starts_with('.') || files.size() >= kMaxListed) return;
    if (::fstatat(descriptor_, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (!S_ISREG(about.st_mode)) return;
    files.emplace(std::move(name), Timestamp::FromUnix(about.st_mtim.tv_sec));
  });
  if (error_number != 0) return Fail(Failed("listing", directory_, error_number));
  return files;
}

}  // namespace nstance
