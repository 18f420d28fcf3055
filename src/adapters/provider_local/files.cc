#include "adapters/provider_local/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include <fmt/core.h>

namespace nstance::provider_local {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr std::size_t kNamesPerTurn = 4'096;
constexpr int kMostTurns = 1'000'000;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

Result<Folder> Reopen(int folder) {
  Descriptor again(::openat(folder, ".", kFolderFlags));
  if (!again.is_open()) return Fail(SystemError(errno, "opening a folder"));
  Folder opened(::fdopendir(again.number()));
  if (opened == nullptr) return Fail(SystemError(errno, "reading a folder"));
  (void)again.Release();  // The DIR closes it.
  return opened;
}

Result<std::vector<std::string>> SomeNames(int folder, std::size_t most) {
  ASSIGN_OR_RETURN(const Folder opened, Reopen(folder));
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    // Each DIR is used by one thread.
    const dirent* entry = ::readdir(opened.get());  // NOLINT(concurrency-mt-unsafe)
    if (entry == nullptr) {
      if (errno != 0) return Fail(SystemError(errno, "reading a folder"));
      return names;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.emplace_back(name);
    if (names.size() >= most) return names;
  }
}

// Should this fail, the step that needs it fails too, and says why.
void AllowOwner(int folder, const std::string& name) {
  [[maybe_unused]] const int done = ::fchmodat(folder, name.c_str(), S_IRWXU, 0);
}

// Empties folders that all stand in one top folder: what lies deeper is moved up first.
class TreeRemover final {
 public:
  explicit TreeRemover(int top) : top_(top) {}

  Status Run() {
    // What is moved up comes to stand beside these.
    ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(top_));
    for (const std::string& name : names) RETURN_IF_ERROR(RemoveEntry(top_, name));
    while (!folders_.empty()) {
      const std::string name = std::move(folders_.back());
      folders_.pop_back();
      if (::unlinkat(top_, name.c_str(), AT_REMOVEDIR) == 0) continue;
      ASSIGN_OR_RETURN(const Descriptor folder, OpenOwned(name));
      RETURN_IF_ERROR(Empty(folder.number()));
      if (::unlinkat(top_, name.c_str(), AT_REMOVEDIR) != 0) {
        return Fail(SystemError(errno, fmt::format("removing folder {}", name)));
      }
    }
    return {};
  }

 private:
  [[nodiscard]] Result<Descriptor> OpenOwned(const std::string& name) const {
    Descriptor folder(::openat(top_, name.c_str(), kFolderFlags));
    if (!folder.is_open() && errno == EACCES) {
      AllowOwner(top_, name);
      folder = Descriptor(::openat(top_, name.c_str(), kFolderFlags));
    }
    if (!folder.is_open()) return Fail(SystemError(errno, fmt::format("opening {}", name)));
    (void)::fchmod(folder.number(), S_IRWXU);
    return folder;
  }

  Status Empty(int folder) {
    for (int turn = 0; turn < kMostTurns; ++turn) {
      ASSIGN_OR_RETURN(const std::vector<std::string> names, SomeNames(folder, kNamesPerTurn));
      if (names.empty()) return {};
      for (const std::string& name : names) RETURN_IF_ERROR(RemoveEntry(folder, name));
    }
    return Fail(Unavailable("a folder does not get empty"));
  }

  // Unlinks, or moves up to be emptied later.
  Status RemoveEntry(int folder, const std::string& name) {
    if (::unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) {
      return Fail(SystemError(errno, fmt::format("removing {}", name)));
    }
    if (::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
    if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES) {
      return Fail(SystemError(errno, fmt::format("removing {}", name)));
    }
    // Moving a folder changes its `..`, which needs the right to write to it.
    AllowOwner(folder, name);
    std::string moved = fmt::format("{}{}", kMoved, ++moves_);
    while (::renameat(folder, name.c_str(), top_, moved.c_str()) != 0) {
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
        return Fail(SystemError(errno, fmt::format("moving {}", name)));
      }
      moved = fmt::format("{}{}", kMoved, ++moves_);  // Somebody has used the name.
    }
    folders_.push_back(std::move(moved));
    return {};
  }

  static constexpr std::string_view kMoved = ".nstance-moved-";
  int top_;
  std::vector<std::string> folders_;
  std::uint64_t moves_ = 0;
};

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Error SystemError(int error_number, std::string_view doing) {
  std::string message = fmt::format("{}: {}", doing, std::generic_category().message(error_number));
  switch (error_number) {
    case ENOENT:
    case ESRCH: return NotFound(std::move(message));
    case ENOSPC:
    case EDQUOT: return ResourceExhausted(std::move(message));
    case EACCES:
    case EPERM:
    case EROFS: return PermissionDenied(std::move(message));
    case ENOTDIR:
    case EISDIR: return FailedPrecondition(std::move(message));
    case ELOOP:
      return FailedPrecondition(
          fmt::format("{}: a symbolic link is in the way; none is followed here", doing));
    default: return Unavailable(std::move(message));
  }
}

Result<Descriptor> OpenFolder(int parent, const std::string& name) {
  Descriptor folder(::openat(parent, name.c_str(), kFolderFlags));
  if (folder.is_open()) return folder;
  int error_number = errno;
  // With O_DIRECTORY the kernel says ENOTDIR of a symbolic link, too.
  struct stat about{};
  if (error_number == ENOTDIR &&
      ::fstatat(parent, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(about.st_mode)) {
    error_number = ELOOP;
  }
  return Fail(SystemError(error_number, fmt::format("opening folder {}", name)));
}

Result<Descriptor> OpenFile(int parent, const std::string& name, int flags) {
  Descriptor file(::openat(parent, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return Fail(SystemError(errno, fmt::format("opening {}", name)));
  return file;
}

Result<std::string> ReadFile(int folder, const std::string& name, std::size_t limit) {
  ASSIGN_OR_RETURN(const Descriptor file, OpenFile(folder, name, O_RDONLY | O_NONBLOCK));
  std::string bytes;
  std::array<char, 16'384> buffer{};
  for (;;) {
    const ssize_t count = ::read(file.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(SystemError(errno, fmt::format("reading {}", name)));
    if (count == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
    if (bytes.size() > limit) {
      return Fail(Error{.code = Code::kDataLoss,
                        .outcome = Outcome::kNotDone,
                        .message = fmt::format("{} is above {} bytes", name, limit)});
    }
  }
}

Status WriteAll(int file, std::string_view bytes, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(SystemError(errno, fmt::format("writing {}", what)));
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Status WriteNewFile(int folder, const std::string& name, std::string_view bytes, mode_t mode) {
  ASSIGN_OR_RETURN(const Descriptor file, OpenFile(folder, name, O_WRONLY | O_CREAT | O_EXCL));
  RETURN_IF_ERROR(WriteAll(file.number(), bytes, name));
  if (::fchmod(file.number(), mode) != 0) {
    return Fail(SystemError(errno, fmt::format("setting the mode of {}", name)));
  }
  if (::fsync(file.number()) != 0) {
    return Fail(SystemError(errno, fmt::format("syncing {}", name)));
  }
  return {};
}

Status PlaceFile(int folder, const std::string& name, std::string_view bytes, mode_t mode) {
  const std::string temporary = fmt::format(".{}.{}", name, ::getpid());
  (void)::unlinkat(folder, temporary.c_str(), 0);
  RETURN_IF_ERROR(WriteNewFile(folder, temporary, bytes, mode));
  const int linked = ::linkat(folder, temporary.c_str(), folder, name.c_str(), 0);
  const int error_number = errno;
  (void)::unlinkat(folder, temporary.c_str(), 0);
  if (linked == 0) return SyncFolder(folder, name);
  if (error_number == EEXIST) return Fail(AlreadyExists(fmt::format("{} is there", name)));
  return Fail(SystemError(error_number, fmt::format("putting {} in place", name)));
}

Status ReplaceFile(int folder, const std::string& name, std::string_view bytes, mode_t mode) {
  const std::string temporary = "." + name + ".new";
  (void)::unlinkat(folder, temporary.c_str(), 0);
  RETURN_IF_ERROR(WriteNewFile(folder, temporary, bytes, mode));
  if (::renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) {
    return Fail(SystemError(errno, fmt::format("putting {} in place", name)));
  }
  return SyncFolder(folder, name);
}

Status MakeFolder(int parent, const std::string& name, mode_t mode) {
  if (::mkdirat(parent, name.c_str(), mode) == 0) return {};
  return Fail(SystemError(errno, fmt::format("making folder {}", name)));
}

Status SyncFolder(int folder, std::string_view what) {
  if (::fsync(folder) == 0) return {};
  return Fail(SystemError(errno, fmt::format("syncing the folder of {}", what)));
}

Result<std::vector<std::string>> NamesIn(int folder) {
  return SomeNames(folder, static_cast<std::size_t>(-1));
}

Status RemoveTree(int parent, const std::string& name) {
  auto top = OpenFolder(parent, name);
  if (!top && top.error().code == Code::kPermissionDenied) {
    AllowOwner(parent, name);
    top = OpenFolder(parent, name);
  }
  if (!top && top.error().code == Code::kNotFound) return {};
  if (!top) return Fail(std::move(top).error());
  (void)::fchmod(top->number(), S_IRWXU);
  RETURN_IF_ERROR(TreeRemover(top->number()).Run());
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return Fail(SystemError(errno, fmt::format("removing folder {}", name)));
  }
  return {};
}

}  // namespace nstance::provider_local
