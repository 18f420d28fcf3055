#include "adapters/file_store/file_bucket.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <utility>

#include <fmt/core.h>
#include <openssl/evp.h>

#include "adapters/file_store/file_error.h"
#include "base/check.h"
#include "base/text.h"

namespace nstance {
namespace {

constexpr std::string_view kReserved = ".nstance-";
constexpr std::array<std::string_view, 3> kTemporaries = {".nstance-put-", ".nstance-create-",
                                                          ".nstance-update-"};
constexpr std::time_t kStaleSeconds = 3'600;
constexpr std::size_t kLongestPage = 10'000;
constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Empty where the machine's policy has switched MD5 off.
std::string TryMd5(std::string_view bytes) {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_md5(), nullptr) != 1) {
    return {};
  }
  return HexEncode(std::span(digest).first(length));
}

std::string Md5(std::string_view bytes) {
  std::string digest = TryMd5(bytes);
  CHECK(!digest.empty(), "Open() has tried it");
  return digest;
}

// Objects below `secret/` are for the owner's eyes only, whatever prefix stands before it.
bool IsSecret(std::string_view key) {
  return key.starts_with("secret/") || key.find("/secret/") != std::string_view::npos;
}
mode_t FileMode(std::string_view key) { return IsSecret(key) ? 0600 : 0644; }
mode_t FolderMode(std::string_view key) { return IsSecret(key) ? 0700 : 0755; }

Status CheckSize(const ObjectKey& key, std::string_view bytes) {
  if (bytes.size() <= ObjectStore::kMaxObjectBytes) return {};
  return Fail(InvalidArgument(fmt::format("{}: {} bytes; an object has at most {}", key.text(),
                                          bytes.size(), ObjectStore::kMaxObjectBytes)));
}

Status CheckKey(const ObjectKey& key) {
  std::string_view rest = key.text();
  while (!rest.empty()) {
    const std::string_view component = rest.substr(0, rest.find('/'));
    if (component.starts_with(kReserved)) {
      return Fail(InvalidArgument(
          fmt::format("key {}: names that start with {} are reserved for temporary files",
                      key.text(), kReserved)));
    }
    rest.remove_prefix(std::min(rest.size(), component.size() + 1));
  }
  return {};
}

// openat(2) with O_DIRECTORY says ENOTDIR of a symbolic link too; here it is always ELOOP.
Result<FileDescriptor> OpenFolder(int parent, const std::string& name, int* error_number) {
  FileDescriptor folder(::openat(parent, name.c_str(), kOpenDirectory));
  if (folder.is_open()) return folder;
  *error_number = errno;
  struct stat about{};
  if (*error_number == ENOTDIR &&
      ::fstatat(parent, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(about.st_mode)) {
    *error_number = ELOOP;
  }
  return Fail(FileError(*error_number, fmt::format("opening folder {}", name)));
}

Status Sync(int descriptor, std::string_view what) {
  if (::fsync(descriptor) == 0) return {};
  return Fail(FileError(errno, fmt::format("syncing {}", what)));
}

Status WriteAll(int file, std::string_view bytes, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(FileError(errno, fmt::format("writing {}", what)));
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::string> ReadAll(int file, std::string_view key) {
  std::string bytes;
  struct stat about{};
  if (::fstat(file, &about) == 0 && about.st_size > 0) {
    bytes.reserve(std::min(static_cast<std::size_t>(about.st_size), ObjectStore::kMaxObjectBytes));
  }
  std::array<char, 65'536> buffer{};
  for (;;) {
    const ssize_t count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(FileError(errno, fmt::format("reading {}", key)));
    if (count == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
    if (bytes.size() > ObjectStore::kMaxObjectBytes) {
      return Fail(ResourceExhausted(
          fmt::format("object {} is above {} bytes", key, ObjectStore::kMaxObjectBytes)));
    }
  }
}

// False when it is time to give up.
bool PauseBeforeRetry(const FileBucket::Patience& patience, std::chrono::microseconds length) {
  const auto now = std::chrono::steady_clock::now();
  if (now >= patience.until || patience.stop.stop_requested()) return false;
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_until(lock, patience.stop, std::min(now + length, patience.until),
                   [] { return false; });
  return !patience.stop.stop_requested();
}

Error Conflict(std::string_view key, std::string_view why) {
  return Aborted(fmt::format("{}: {}", key, why));
}

Error InTheWay(std::string_view key) {
  return FailedPrecondition(
      fmt::format("{}: on a file store a key cannot be an object and a folder at once", key));
}

// What a failed link or rename means.
Error ChangeFailed(int error_number, std::string_view key) {
  if (error_number == EISDIR || error_number == ENOTDIR) return InTheWay(key);
  Error error = FileError(error_number, fmt::format("putting {} in place", key));
  return SurelyNotDone(error_number) ? error : std::move(error).MaybeDone();
}

// The bucket's own name, which must last as long as what is in it.
Status SyncFolderAbove(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string above = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor folder(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return Fail(FileError(errno, fmt::format("opening {}", above)));
  return Sync(folder.number(), above);
}

// After the change: only its durability is in doubt.
Status SyncChange(int directory, std::string_view key) {
  Status synced = Sync(directory, fmt::format("the folder of {}", key));
  if (!synced) return Fail(std::move(synced).error().MaybeDone());
  return {};
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : number_(std::exchange(other.number_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) ::close(number_);
}

// A file under a temporary name; gone with the object, whatever became of its content.
class FileBucket::Temporary final {
 public:
  Temporary(int directory, std::string name) : directory_(directory), name_(std::move(name)) {}
  Temporary(Temporary&& other) noexcept
      : directory_(other.directory_), name_(std::exchange(other.name_, {})) {}
  Temporary& operator=(Temporary&&) = delete;
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() { Remove(); }

  [[nodiscard]] const char* name() const { return name_.c_str(); }
  void Remove() {
    if (!name_.empty()) ::unlinkat(directory_, name_.c_str(), 0);
    name_.clear();
  }
  // It has become the object.
  void Forget() { name_.clear(); }

 private:
  int directory_;
  std::string name_;
};

FileBucket::FileBucket(std::string path, FileDescriptor root, FileDescriptor locks)
    : path_(std::move(path)), root_(std::move(root)), locks_(std::move(locks)) {}

Result<std::unique_ptr<FileBucket>> FileBucket::Open(const std::string& directory,
                                                     Missing missing) {
  std::string path = directory;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path.empty() || path == "/") {
    return Fail(InvalidArgument(fmt::format("{} cannot be a bucket", Quote(directory))));
  }
  if (TryMd5("").empty()) {
    return Fail(FailedPrecondition(
        "the file store needs MD5 for its versions, and this machine's crypto policy forbids it"));
  }
  if (missing == Missing::kCreate) {
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
      return Fail(FileError(errno, fmt::format("making the bucket {}", path)));
    }
    RETURN_IF_ERROR(SyncFolderAbove(path));
  }
  // The bucket itself may be reached through links: that is the administrator's business.
  FileDescriptor root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return Fail(FileError(errno, fmt::format("opening the bucket {}", path)));
  const std::string locks_path = path + ".locks";
  if (::mkdir(locks_path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Fail(FileError(errno, fmt::format("making {}", locks_path)));
  }
  FileDescriptor locks(::open(locks_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!locks.is_open()) return Fail(FileError(errno, fmt::format("opening {}", locks_path)));
  return std::unique_ptr<FileBucket>(
      new FileBucket(std::move(path), std::move(root), std::move(locks)));
}

// kNotFound is a positive word, so it is not given when the bucket itself is gone.
Error FileBucket::Absent(const ObjectKey& key) const {
  struct stat about{};
  if (::fstat(root_.number(), &about) != 0 || about.st_nlink == 0) {
    return Unavailable(fmt::format("the bucket {} was removed", path_));
  }
  return NotFound(fmt::format("no object {}", key.text()));
}

Result<FileBucket::Place> FileBucket::Find(const ObjectKey& key) const {
  RETURN_IF_ERROR(CheckKey(key));
  Place place{.directory = FileDescriptor(::fcntl(root_.number(), F_DUPFD_CLOEXEC, 0)),
              .name = key.text(),
              .key = key.text()};
  if (!place.directory.is_open()) return Fail(FileError(errno, "opening the bucket"));
  for (std::size_t end = 0; (end = place.name.find('/')) != std::string::npos;) {
    int error_number = 0;
    auto folder = OpenFolder(place.directory.number(), place.name.substr(0, end), &error_number);
    // A file where a folder should be holds no object of that name.
    if (error_number == ENOENT || error_number == ENOTDIR) return Fail(Absent(key));
    if (!folder) return Fail(std::move(folder).error().Under(key.text()));
    place.directory = *std::move(folder);
    place.name.erase(0, end + 1);
  }
  return place;
}

Result<FileBucket::Place> FileBucket::FindOrMake(const ObjectKey& key) {
  RETURN_IF_ERROR(CheckKey(key));
  Place place{.directory = FileDescriptor(::fcntl(root_.number(), F_DUPFD_CLOEXEC, 0)),
              .name = key.text(),
              .key = key.text()};
  if (!place.directory.is_open()) return Fail(FileError(errno, "opening the bucket"));
  std::string path;
  for (std::size_t end = 0; (end = place.name.find('/')) != std::string::npos;) {
    const std::string component = place.name.substr(0, end);
    path.append(component).append("/");
    if (::mkdirat(place.directory.number(), component.c_str(), FolderMode(path)) != 0 &&
        errno != EEXIST) {
      return Fail(FileError(errno, fmt::format("making folder {}", path)));
    }
    int error_number = 0;
    auto folder = OpenFolder(place.directory.number(), component, &error_number);
    if (error_number == ENOTDIR) return Fail(InTheWay(key.text()));
    if (!folder) return Fail(std::move(folder).error().Under(key.text()));
    RETURN_IF_ERROR(SyncOnce(place.directory.number(), path));
    place.directory = *std::move(folder);
    place.name.erase(0, end + 1);
  }
  return place;
}

// A folder that another process has made may not be on disk yet: the first use here makes sure.
Status FileBucket::SyncOnce(int directory, const std::string& child) {
  {
    const std::scoped_lock lock(mutex_);
    if (synced_.contains(child)) return {};
  }
  RETURN_IF_ERROR(Sync(directory, fmt::format("the folder above {}", child)));
  const std::scoped_lock lock(mutex_);
  synced_.insert(child);
  return {};
}

Result<Object> FileBucket::Get(const ObjectKey& key) const {
  ASSIGN_OR_RETURN(const Place place, Find(key));
  auto object = Read(place);
  if (!object && object.error().code == Code::kNotFound) return Fail(Absent(key));
  return object;
}

Result<Object> FileBucket::Read(const Place& place) const {
  // Without O_NONBLOCK a pipe in the way would block until somebody writes to it.
  const FileDescriptor file(::openat(place.directory.number(), place.name.c_str(),
                                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return Fail(NotFound("no object " + place.key));
    return Fail(FileError(errno, fmt::format("opening {}", place.key)));
  }
  struct stat about{};
  if (::fstat(file.number(), &about) != 0) {
    return Fail(FileError(errno, fmt::format("looking at {}", place.key)));
  }
  if (!S_ISREG(about.st_mode)) return Fail(NotFound("no object " + place.key));
  ASSIGN_OR_RETURN(std::string bytes, ReadAll(file.number(), place.key));
  ObjectVersion version{Md5(bytes)};
  const auto fraction = static_cast<std::int32_t>(about.st_mtim.tv_nsec);
  return Object{.bytes = std::move(bytes),
                .version = std::move(version),
                .modified_at = Timestamp::FromUnix(about.st_mtim.tv_sec, fraction)};
}

Result<FileBucket::Temporary> FileBucket::WriteTemporary(const Place& place,
                                                         std::string_view prefix,
                                                         std::string_view bytes) {
  std::array<std::uint8_t, 12> random{};
  {
    const std::scoped_lock lock(mutex_);
    random_.Fill(random);
  }
  std::string name = fmt::format("{}{}", prefix, HexEncode(random));
  const FileDescriptor file(::openat(place.directory.number(), name.c_str(),
                                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) {
    return Fail(FileError(errno, fmt::format("making a temporary file for {}", place.key)));
  }
  Temporary temporary(place.directory.number(), std::move(name));
  RETURN_IF_ERROR(WriteAll(file.number(), bytes, place.key));
  if (::fchmod(file.number(), FileMode(place.key)) != 0) {
    return Fail(FileError(errno, fmt::format("setting the mode of {}", place.key)));
  }
  RETURN_IF_ERROR(Sync(file.number(), place.key));
  return temporary;
}

Result<FileDescriptor> FileBucket::Lock(const ObjectKey& key, const Patience& patience) const {
  const std::string name = Md5(key.text()) + ".lock";
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    FileDescriptor file(
        ::openat(locks_.number(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.is_open()) {
      return Fail(FileError(errno, fmt::format("opening the lock of {}", key.text())));
    }
    while (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) {
        return Fail(FileError(errno, fmt::format("locking {}", key.text())));
      }
      if (!PauseBeforeRetry(patience, pause)) {
        return Fail(Unavailable(fmt::format("{} is locked by another process", key.text())));
      }
      pause = std::min(pause * 2, std::chrono::microseconds(10'000));
    }
    // Whoever deletes an object removes its lock as well; a lock without a name protects nothing.
    struct stat about{};
    if (::fstat(file.number(), &about) == 0 && about.st_nlink > 0) return file;
  }
}

Status FileBucket::Compare(const Place& place, const ObjectVersion& version) const {
  const auto present = Read(place);
  if (!present && present.error().code == Code::kNotFound) {
    return Fail(Conflict(place.key, "there is no such object"));
  }
  if (!present) return Fail(present.error());
  if (present->version != version) return Fail(Conflict(place.key, "it has another version"));
  return {};
}

Result<ObjectVersion> FileBucket::Put(const PutRequest& request, const Patience& patience) {
  RETURN_IF_ERROR(CheckSize(request.key, request.bytes));
  if (const auto* update = std::get_if<IfVersion>(&request.condition)) {
    return Update(request, update->version, patience);
  }
  return Create(request.key, request.bytes);
}

Result<ObjectVersion> FileBucket::Create(const ObjectKey& key, std::string_view bytes) {
  ASSIGN_OR_RETURN(const Place place, FindOrMake(key));
  const int directory = place.directory.number();
  struct stat about{};
  if (::fstatat(directory, place.name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(about.st_mode)) return Fail(InTheWay(key.text()));
    return Fail(Conflict(key.text(), "it exists"));
  }
  ASSIGN_OR_RETURN(Temporary temporary, WriteTemporary(place, ".nstance-create-", bytes));
  if (::linkat(directory, temporary.name(), directory, place.name.c_str(), 0) != 0) {
    if (errno == EEXIST) return Fail(Conflict(key.text(), "it exists"));
    return Fail(ChangeFailed(errno, key.text()));
  }
  temporary.Remove();
  RETURN_IF_ERROR(SyncChange(directory, key.text()));
  return ObjectVersion{Md5(bytes)};
}

Result<ObjectVersion> FileBucket::Update(const PutRequest& request, const ObjectVersion& version,
                                         const Patience& patience) {
  auto place = Find(request.key);
  if (!place && place.error().code == Code::kNotFound) {
    return Fail(Conflict(request.key.text(), "there is no such object"));
  }
  if (!place) return Fail(std::move(place).error());
  const int directory = place->directory.number();
  ASSIGN_OR_RETURN(Temporary temporary, WriteTemporary(*place, ".nstance-put-", request.bytes));
  {
    ASSIGN_OR_RETURN(const FileDescriptor lock, Lock(request.key, patience));
    RETURN_IF_ERROR(Compare(*place, version));
    if (::renameat(directory, temporary.name(), directory, place->name.c_str()) != 0) {
      return Fail(ChangeFailed(errno, request.key.text()));
    }
    temporary.Forget();
  }
  RETURN_IF_ERROR(SyncChange(directory, request.key.text()));
  return ObjectVersion{Md5(request.bytes)};
}

Result<ObjectVersion> FileBucket::PutUnconditionally(const ObjectKey& key, std::string_view bytes,
                                                     const Patience& patience) {
  RETURN_IF_ERROR(CheckSize(key, bytes));
  ASSIGN_OR_RETURN(const Place place, FindOrMake(key));
  const int directory = place.directory.number();
  ASSIGN_OR_RETURN(Temporary temporary, WriteTemporary(place, ".nstance-put-", bytes));
  {
    ASSIGN_OR_RETURN(const FileDescriptor lock, Lock(key, patience));
    if (::renameat(directory, temporary.name(), directory, place.name.c_str()) != 0) {
      return Fail(ChangeFailed(errno, key.text()));
    }
    temporary.Forget();
  }
  RETURN_IF_ERROR(SyncChange(directory, key.text()));
  return ObjectVersion{Md5(bytes)};
}

Status FileBucket::Delete(const DeleteRequest& request, const Patience& patience) {
  auto place = Find(request.key);
  if (!place && place.error().code == Code::kNotFound) return {};
  if (!place) return Fail(std::move(place).error());
  RETURN_IF_ERROR(Remove(*place, request, patience));
  return SyncChange(place->directory.number(), request.key.text());
}

Status FileBucket::Remove(const Place& place, const DeleteRequest& request,
                          const Patience& patience) const {
  ASSIGN_OR_RETURN(const FileDescriptor lock, Lock(request.key, patience));
  if (request.version) {
    const auto present = Read(place);
    if (!present && present.error().code == Code::kNotFound) return {};
    if (!present) return Fail(present.error());
    if (present->version != *request.version) {
      return Fail(Conflict(request.key.text(), "it has another version"));
    }
  }
  if (::unlinkat(place.directory.number(), place.name.c_str(), 0) != 0 && errno != ENOENT &&
      errno != EISDIR) {
    Error error = FileError(errno, fmt::format("deleting {}", request.key.text()));
    return Fail(SurelyNotDone(errno) ? std::move(error) : std::move(error).MaybeDone());
  }
  // While it is still held; see Lock().
  ::unlinkat(locks_.number(), (Md5(request.key.text()) + ".lock").c_str(), 0);
  return {};
}

// One page in the making. Folders are walked in the order of the keys below them, so the walk ends
// as soon as the page is full.
struct FileBucket::Listing {
  const std::string& prefix;
  const std::string& after;
  std::size_t limit = 0;
  ListPage page = {};

  struct Entry {
    std::string text;  // The whole key; of a folder, with its `/`, which puts it in its place.
    std::uint64_t size = 0;
  };

  [[nodiscard]] bool full() const { return !page.next_page_token.empty(); }

  // Whether keys that are wanted may lie below the folder.
  [[nodiscard]] bool MayHold(const std::string& folder) const {
    if (!folder.starts_with(prefix) && !prefix.starts_with(folder)) return false;
    return after < folder || after.starts_with(folder);
  }

  void Add(const Entry& entry) {
    if (!entry.text.starts_with(prefix) || entry.text <= after) return;
    auto key = ObjectKey::Parse(entry.text);
    if (!key) return;  // A foreign file that cannot be asked for.
    if (page.objects.size() == limit) {
      page.next_page_token = page.objects.back().key.text();
      return;
    }
    page.objects.push_back({.key = *std::move(key), .version = {}, .size = entry.size});
  }

  // What stands in one folder, in order. Temporaries that a dead process has left are removed.
  [[nodiscard]] static std::vector<Entry> ReadFolder(DIR* stream, const std::string& folder) {
    std::vector<Entry> entries;
    const int directory = ::dirfd(stream);
    CHECK(directory >= 0, "a folder that was opened has a descriptor");
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream belongs to this call alone.
    while (const dirent* found = ::readdir(stream)) {
      const std::string_view name = found->d_name;
      if (name == "." || name == "..") continue;
      struct stat about{};
      if (::fstatat(directory, found->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (name.starts_with(kReserved)) {
        RemoveIfStale(directory, name, about);
      } else if (S_ISDIR(about.st_mode)) {
        entries.push_back({.text = fmt::format("{}{}/", folder, name)});
      } else if (S_ISREG(about.st_mode)) {
        entries.push_back({.text = fmt::format("{}{}", folder, name),
                           .size = static_cast<std::uint64_t>(about.st_size)});
      }
    }
    std::ranges::sort(entries, {}, &Entry::text);
    return entries;
  }

  // A process that was only paused finds its temporary gone, and says "not done".
  static void RemoveIfStale(int directory, std::string_view name, const struct stat& about) {
    const bool ours = std::ranges::any_of(
        kTemporaries, [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (!ours || !S_ISREG(about.st_mode)) return;
    timespec now{};
    if (::clock_gettime(CLOCK_REALTIME, &now) != 0) return;
    if (now.tv_sec - about.st_mtim.tv_sec <= kStaleSeconds) return;
    ::unlinkat(directory, std::string(name).c_str(), 0);
  }
};

Result<ListPage> FileBucket::List(const ListRequest& request) const {
  Listing listing{.prefix = request.prefix,
                  .after = request.page_token,
                  .limit = std::clamp<std::size_t>(request.page_size, 1, kLongestPage)};
  struct stat about{};
  if (::fstat(root_.number(), &about) != 0 || about.st_nlink == 0) {
    return Fail(Unavailable(fmt::format("the bucket {} was removed", path_)));
  }
  RETURN_IF_ERROR(Walk("", listing));
  return std::move(listing.page);
}

Status FileBucket::Walk(const std::string& folder, Listing& listing) const {
  // Opened from the top each time, so that a deep tree does not hold a descriptor per level.
  FileDescriptor directory(::openat(root_.number(), ".", kOpenDirectory));
  if (!directory.is_open()) return Fail(FileError(errno, "opening the bucket"));
  for (std::string_view rest = folder; !rest.empty();) {
    const std::string component(rest.substr(0, rest.find('/')));
    int error_number = 0;
    auto next = OpenFolder(directory.number(), component, &error_number);
    // Gone, or replaced, since the folder above was read.
    if (error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP) return {};
    if (!next) return Fail(std::move(next).error().Under("listing " + folder));
    directory = *std::move(next);
    rest.remove_prefix(component.size() + 1);
  }
  std::vector<Listing::Entry> entries;
  {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(
        ::fdopendir(::fcntl(directory.number(), F_DUPFD_CLOEXEC, 0)), &::closedir);
    if (stream == nullptr) return Fail(FileError(errno, "listing " + folder));
    entries = Listing::ReadFolder(stream.get(), folder);
  }
  directory = FileDescriptor();
  for (const Listing::Entry& entry : entries) {
    if (listing.full()) break;
    if (!entry.text.ends_with('/')) {
      listing.Add(entry);
    } else if (listing.MayHold(entry.text)) {
      RETURN_IF_ERROR(Walk(entry.text, listing));
    }
  }
  return {};
}

}  // namespace nstance
