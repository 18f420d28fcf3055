#include "adapters/cache_folder/disk_cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "adapters/file_store/file_bucket.h"
#include "adapters/file_store/file_error.h"

namespace nstance {
namespace {

constexpr std::size_t kMaxQueue = 64;

Status WriteAll(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail(FileError(errno, fmt::format("writing {}", path)));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file) != 0) return Fail(FileError(errno, fmt::format("syncing {}", path)));
  return {};
}

Result<std::string> ReadFile(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return Fail(NotFound(fmt::format("no file {}", path)));
    return Fail(FileError(errno, fmt::format("opening {}", path)));
  }
  std::string bytes;
  std::array<char, std::size_t{64} * 1024> buffer{};
  while (true) {
    const ssize_t got = ::read(file.number(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(FileError(errno, fmt::format("reading {}", path)));
    if (got == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
    if (bytes.size() > CacheFolder::kMaxFileBytes) {
      return Fail(
          ResourceExhausted(fmt::format("{}: above {} bytes", path, CacheFolder::kMaxFileBytes)));
    }
  }
}

Status MakeFolder(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Fail(FileError(error.value(), fmt::format("making {}", directory)));
  return {};
}

}  // namespace

Status ReplaceFile(const std::string& path, std::string_view bytes, mode_t mode) {
  const std::filesystem::path whole(path);
  const std::string folder = whole.has_parent_path() ? whole.parent_path().string() : ".";
  const std::string temporary = fmt::format("{}/.{}.tmp", folder, whole.filename().string());
  // Whatever a writer that was killed has left there.
  ::unlink(temporary.c_str());
  {
    const FileDescriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file.is_open()) return Fail(FileError(errno, fmt::format("making {}", temporary)));
    if (Status written = WriteAll(file.number(), bytes, temporary); !written) {
      ::unlink(temporary.c_str());
      return written;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int why = errno;
    ::unlink(temporary.c_str());
    return Fail(FileError(why, fmt::format("replacing {}", path)));
  }
  const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open() || ::fsync(directory.number()) != 0) {
    return Fail(FileError(errno, fmt::format("syncing {}", folder)).MaybeDone());
  }
  return {};
}

struct DiskCacheFolder::Desk {
  std::map<std::uint64_t, std::shared_ptr<void>> waiting;
  std::uint64_t next_id = 1;
};

DiskCacheFolder::DiskCacheFolder(Loop& loop, std::string directory)
    : loop_(loop),
      directory_(std::move(directory)),
      desk_(std::make_shared<Desk>()),
      pool_(std::make_unique<WorkerPool>(WorkerPool::Options{.threads = 1, .queue = kMaxQueue})) {}

DiskCacheFolder::~DiskCacheFolder() = default;

template <class T>
Pending DiskCacheFolder::Ask(std::string_view name, std::move_only_function<void(Result<T>)> done,
                             std::move_only_function<Result<T>(const std::string& path)> work) {
  using Done = std::move_only_function<void(Result<T>)>;
  const std::uint64_t id = desk_->next_id++;
  desk_->waiting.emplace(id, std::make_shared<Done>(std::move(done)));
  auto answer = [loop = &loop_, desk = desk_, id](Result<T> result) {
    loop->Post([desk, id, result = std::move(result)]() mutable {
      const auto node = desk->waiting.extract(id);
      if (!node.empty()) (*static_cast<Done*>(node.mapped().get()))(std::move(result));
    });
  };
  if (Status sound = CheckCacheFileName(name); !sound) {
    answer(Fail(std::move(sound).error()));
  } else {
    auto job = [answer, path = fmt::format("{}/{}", directory_, name),
                work = std::move(work)](const std::stop_token&) mutable { answer(work(path)); };
    if (!pool_->Add(id, std::move(job))) {
      answer(Fail(Unavailable("too many files wait for the disk")));
    }
  }
  return Pending([desk = desk_, id] { desk->waiting.erase(id); });
}

Pending DiskCacheFolder::Read(std::string_view name, ReadDone done) {
  return Ask<std::string>(name, std::move(done), ReadFile);
}

Pending DiskCacheFolder::Write(std::string_view name, std::string bytes, WriteDone done) {
  return Ask<void>(name, std::move(done),
                   [folder = directory_, bytes = std::move(bytes)](const std::string& path) {
                     if (bytes.size() > kMaxFileBytes) {
                       return Status(Fail(InvalidArgument(
                           fmt::format("{}: above {} bytes", path, kMaxFileBytes))));
                     }
                     if (Status made = MakeFolder(folder); !made) return made;
                     return ReplaceFile(path, bytes);
                   });
}

}  // namespace nstance
