#include "sim/sim_files.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <ranges>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/check.h"

namespace nstance::sim {
namespace {

// What a disk writes as a whole.
constexpr std::size_t kSector = 512;
constexpr int kSectorForSqlite = 4'096;
constexpr int kMaxPath = 512;

}  // namespace

// --- Files ---------------------------------------------------------------------------------------

void SimFile::Write(std::size_t at, std::string_view data) {
  if (data.empty()) return;
  const std::size_t there = at < bytes.size() ? std::min(data.size(), bytes.size() - at) : 0;
  unsynced.push_back({.at = at,
                      .length = data.size(),
                      .size_before = bytes.size(),
                      .before = there > 0 ? bytes.substr(at, there) : std::string()});
  if (bytes.size() < at + data.size()) bytes.resize(at + data.size());
  std::ranges::copy(data, bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

void SimFile::Truncate(std::size_t size) {
  if (size >= bytes.size()) return;
  unsynced.push_back(
      {.at = size, .length = 0, .size_before = bytes.size(), .before = bytes.substr(size)});
  bytes.resize(size);
}

void SimFile::LosePower(Prng& prng) {
  // Back to what was synced, and from there on again with what had reached the disk by chance.
  std::vector<std::string> written;
  for (const Change& change : unsynced | std::views::reverse) {
    written.push_back(bytes.substr(std::min(change.at, bytes.size()), change.length));
    bytes.resize(change.size_before);
    if (change.before.empty()) continue;  // A hole: it began behind the end.
    std::ranges::copy(change.before, bytes.begin() + static_cast<std::ptrdiff_t>(change.at));
  }
  const std::vector<Change> changes = std::exchange(unsynced, {});
  // All was written back, nothing was, all up to one moment, or any of it.
  const std::uint64_t mode = prng.Below(4);
  const bool anything = mode == 3;
  std::uint64_t last = mode == 0 ? changes.size() : 0;
  if (mode == 2) last = prng.Below(changes.size() + 1);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (anything ? prng.Chance(1, 2) : i > last) continue;
    const Change& change = changes[i];
    if (change.length == 0) {
      Truncate(change.at);
      continue;
    }
    std::string_view data = written[changes.size() - 1 - i];
    const bool torn = anything ? prng.Chance(1, 8) : i == last;
    if (torn) data = data.substr(0, prng.Below((data.size() / kSector) + 1) * kSector);
    if (!data.empty()) Write(change.at, data);
  }
  Sync();
}

SimFiles& SimFiles::operator=(const SimFiles& other) {
  if (this == &other) return *this;
  files_.clear();
  for (const auto& [name, file] : other.files_) files_[name] = std::make_shared<SimFile>(*file);
  return *this;
}

std::shared_ptr<SimFile> SimFiles::Find(std::string_view name) const {
  const auto at = files_.find(name);
  return at == files_.end() ? nullptr : at->second;
}

std::shared_ptr<SimFile> SimFiles::FindOrMake(std::string_view name) {
  std::shared_ptr<SimFile>& file = files_[std::string(name)];
  if (file == nullptr) file = std::make_shared<SimFile>();
  return file;
}

void SimFiles::Remove(std::string_view name) {
  const auto at = files_.find(name);
  if (at != files_.end()) files_.erase(at);
}

void SimFiles::LosePower(Prng& prng) {
  for (const auto& [name, file] : files_) file->LosePower(prng);
}

void SimFiles::Damage(Prng& prng) {
  if (files_.empty()) return;
  SimFile& file =
      *std::next(files_.begin(), static_cast<std::ptrdiff_t>(prng.Below(files_.size())))->second;
  if (file.bytes.empty()) return;
  if (prng.Chance(1, 4)) return file.Truncate(prng.Below(file.bytes.size()));
  const std::uint64_t count = 1 + prng.Below(8);
  for (std::uint64_t i = 0; i < count; ++i) {
    char& byte = file.bytes[prng.Below(file.bytes.size())];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1 + prng.Below(255)));
  }
}

// --- SQLite's way to them ------------------------------------------------------------------------

class SimFileSystem::Impl final {
 public:
  explicit Impl(const Deps& deps) : deps_(deps), prng_(deps.seed) {
    // Unique among those that live.
    name_ = fmt::format("sim-{}", fmt::ptr(this));
    vfs_.iVersion = 1;
    vfs_.szOsFile = static_cast<int>(sizeof(OpenFile));
    vfs_.mxPathname = kMaxPath;
    vfs_.zName = name_.c_str();
    vfs_.pAppData = this;
    vfs_.xOpen = &Impl::Open;
    vfs_.xDelete = &Impl::Delete;
    vfs_.xAccess = &Impl::Access;
    vfs_.xFullPathname = &Impl::FullPathname;
    vfs_.xRandomness = &Impl::Randomness;
    vfs_.xSleep = [](sqlite3_vfs*, int micros) { return micros; };
    vfs_.xCurrentTime = [](sqlite3_vfs*, double* at) {
      *at = 0;
      return SQLITE_OK;
    };
    vfs_.xGetLastError = [](sqlite3_vfs*, int, char*) { return 0; };
    CHECK(sqlite3_vfs_register(&vfs_, 0) == SQLITE_OK);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    CHECK(open_ == 0, "{} files are open", open_);
    sqlite3_vfs_unregister(&vfs_);
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool dead() const { return dead_; }
  void Die() { dead_ = true; }

  [[nodiscard]] int Remove(std::string_view file) {
    if (Change() == Fate::kFails) return SQLITE_IOERR_DELETE;
    deps_.files.Remove(file);
    return SQLITE_OK;
  }

 private:
  // What SQLite allocates; everything of ours is behind the pointer.
  struct Handle {
    Impl* system = nullptr;
    std::string name;  // Empty: a temporary file.
    std::shared_ptr<SimFile> file;
    bool delete_on_close = false;
    std::vector<std::unique_ptr<std::vector<std::uint64_t>>> shared;  // The index of the WAL.
  };
  struct OpenFile {
    sqlite3_file base;
    Handle* handle;
  };
  enum class Fate : std::uint8_t { kHappens, kFails };

  static Impl& Of(sqlite3_vfs* vfs) { return *static_cast<Impl*>(vfs->pAppData); }
  static Handle& Of(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file)->handle; }

  [[nodiscard]] bool Chance(std::uint32_t rate) { return rate > 0 && prng_.Chance(rate, 10'000); }
  [[nodiscard]] Fate Look() {
    const bool fails = dead_ || deps_.broken || Chance(deps_.faults.read_error);
    return fails ? Fate::kFails : Fate::kHappens;
  }
  // A change that has no parts.
  [[nodiscard]] Fate Change() {
    if (dead_ || deps_.broken) return Fate::kFails;
    if (Chance(deps_.faults.death)) dead_ = true;
    return dead_ || Chance(deps_.faults.write_error) ? Fate::kFails : Fate::kHappens;
  }

  [[nodiscard]] int WriteTo(SimFile& file, std::size_t at, std::string_view data) {
    if (dead_ || deps_.broken || Chance(deps_.faults.write_error)) return SQLITE_IOERR_WRITE;
    const bool full = Chance(deps_.faults.full);
    if (Chance(deps_.faults.death)) dead_ = true;
    if (full || dead_) {
      file.Write(at, data.substr(0, prng_.Below(data.size() + 1)));
      return SQLITE_FULL;
    }
    file.Write(at, data);
    if (!data.empty() && Chance(deps_.faults.rot)) {
      char& byte = file.bytes[at + prng_.Below(data.size())];
      byte = static_cast<char>(static_cast<unsigned char>(byte) ^ 0x40U);
    }
    return SQLITE_OK;
  }

  // --- sqlite3_vfs ---

  // NOLINTNEXTLINE(readability-function-size): SQLite's signature.
  static int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* out, int flags,
                  int* out_flags) {
    Impl& self = Of(vfs);
    out->pMethods = nullptr;
    auto handle = std::make_unique<Handle>();
    handle->system = &self;
    handle->name = name == nullptr ? "" : name;
    handle->delete_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    const bool makes = (flags & SQLITE_OPEN_CREATE) != 0;
    handle->file = self.deps_.files.Find(handle->name);
    if (handle->file == nullptr) {
      if (!makes || self.Change() == Fate::kFails) return SQLITE_CANTOPEN;
      handle->file =
          name == nullptr ? std::make_shared<SimFile>() : self.deps_.files.FindOrMake(handle->name);
    } else if (self.Look() == Fate::kFails) {
      return SQLITE_CANTOPEN;
    }
    ++self.open_;
    reinterpret_cast<OpenFile*>(out)->handle = handle.release();
    out->pMethods = &Methods();
    if (out_flags != nullptr) *out_flags = flags;
    return SQLITE_OK;
  }

  static int Delete(sqlite3_vfs* vfs, const char* name, int /*sync*/) {
    Impl& self = Of(vfs);
    if (self.deps_.files.Find(name) == nullptr) return SQLITE_IOERR_DELETE_NOENT;
    return self.Remove(name);
  }

  static int Access(sqlite3_vfs* vfs, const char* name, int /*flags*/, int* result) {
    Impl& self = Of(vfs);
    if (self.Look() == Fate::kFails) return SQLITE_IOERR_ACCESS;
    // As the real one has it: an empty file is none.
    const std::shared_ptr<SimFile> file = self.deps_.files.Find(name);
    *result = file != nullptr && !file->bytes.empty() ? 1 : 0;
    return SQLITE_OK;
  }

  static int FullPathname(sqlite3_vfs* /*vfs*/, const char* name, int size, char* out) {
    sqlite3_snprintf(size, out, "%s", name);
    return SQLITE_OK;
  }

  static int Randomness(sqlite3_vfs* /*vfs*/, int size, char* out) {
    std::memset(out, 0, static_cast<std::size_t>(size));
    return size;
  }

  // --- sqlite3_io_methods ---

  static int Close(sqlite3_file* file) {
    const std::unique_ptr<Handle> handle(&Of(file));
    Impl& self = *handle->system;
    --self.open_;
    if (handle->delete_on_close && !handle->name.empty() && !self.dead_) {
      self.deps_.files.Remove(handle->name);
    }
    return SQLITE_OK;
  }

  static int Read(sqlite3_file* file, void* out, int size, sqlite3_int64 at) {
    const Handle& handle = Of(file);
    if (handle.system->Look() == Fate::kFails) return SQLITE_IOERR_READ;
    const std::string& bytes = handle.file->bytes;
    const auto from = std::min(static_cast<std::size_t>(at), bytes.size());
    const std::size_t there = std::min(static_cast<std::size_t>(size), bytes.size() - from);
    std::memcpy(out, bytes.data() + from, there);
    if (there == static_cast<std::size_t>(size)) return SQLITE_OK;
    std::memset(static_cast<char*>(out) + there, 0, static_cast<std::size_t>(size) - there);
    return SQLITE_IOERR_SHORT_READ;
  }

  static int Write(sqlite3_file* file, const void* data, int size, sqlite3_int64 at) {
    const Handle& handle = Of(file);
    return handle.system->WriteTo(*handle.file, static_cast<std::size_t>(at),
                                  {static_cast<const char*>(data), static_cast<std::size_t>(size)});
  }

  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    const Handle& handle = Of(file);
    if (handle.system->Change() == Fate::kFails) return SQLITE_IOERR_TRUNCATE;
    handle.file->Truncate(static_cast<std::size_t>(size));
    return SQLITE_OK;
  }

  static int Sync(sqlite3_file* file, int /*flags*/) {
    const Handle& handle = Of(file);
    if (handle.system->Change() == Fate::kFails) return SQLITE_IOERR_FSYNC;
    handle.file->Sync();
    return SQLITE_OK;
  }

  static int FileSize(sqlite3_file* file, sqlite3_int64* size) {
    const Handle& handle = Of(file);
    if (handle.system->Look() == Fate::kFails) return SQLITE_IOERR_FSTAT;
    *size = static_cast<sqlite3_int64>(handle.file->bytes.size());
    return SQLITE_OK;
  }

  // One process at a time: whoever asks for a lock has it.
  static int Lock(sqlite3_file* /*file*/, int /*level*/) { return SQLITE_OK; }
  static int CheckReservedLock(sqlite3_file* /*file*/, int* reserved) {
    *reserved = 0;
    return SQLITE_OK;
  }
  static int FileControl(sqlite3_file* /*file*/, int /*op*/, void* /*argument*/) {
    return SQLITE_NOTFOUND;
  }
  static int SectorSize(sqlite3_file* /*file*/) { return kSectorForSqlite; }
  static int DeviceCharacteristics(sqlite3_file* /*file*/) {
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
  }

  // The index of the WAL: memory, made anew by every process from the WAL itself.
  // NOLINTNEXTLINE(readability-function-size): SQLite's signature.
  static int ShmMap(sqlite3_file* file, int region, int size, int extend, void volatile** out) {
    Handle& handle = Of(file);
    *out = nullptr;
    if (handle.system->Look() == Fate::kFails) return SQLITE_IOERR_SHMMAP;
    const auto at = static_cast<std::size_t>(region);
    if (at >= handle.shared.size() && extend == 0) return SQLITE_OK;
    while (at >= handle.shared.size()) {
      handle.shared.push_back(std::make_unique<std::vector<std::uint64_t>>(
          static_cast<std::size_t>(size) / sizeof(std::uint64_t)));
    }
    *out = handle.shared[at]->data();
    return SQLITE_OK;
  }
  static int ShmLock(sqlite3_file* /*file*/, int /*offset*/, int /*n*/, int /*flags*/) {
    return SQLITE_OK;
  }
  static void ShmBarrier(sqlite3_file* /*file*/) {}
  static int ShmUnmap(sqlite3_file* file, int /*delete_it*/) {
    Of(file).shared.clear();
    return SQLITE_OK;
  }

  static const sqlite3_io_methods& Methods() {
    static const sqlite3_io_methods methods = [] {
      sqlite3_io_methods made = {};
      made.iVersion = 2;
      made.xClose = &Impl::Close;
      made.xRead = &Impl::Read;
      made.xWrite = &Impl::Write;
      made.xTruncate = &Impl::Truncate;
      made.xSync = &Impl::Sync;
      made.xFileSize = &Impl::FileSize;
      made.xLock = &Impl::Lock;
      made.xUnlock = &Impl::Lock;
      made.xCheckReservedLock = &Impl::CheckReservedLock;
      made.xFileControl = &Impl::FileControl;
      made.xSectorSize = &Impl::SectorSize;
      made.xDeviceCharacteristics = &Impl::DeviceCharacteristics;
      made.xShmMap = &Impl::ShmMap;
      made.xShmLock = &Impl::ShmLock;
      made.xShmBarrier = &Impl::ShmBarrier;
      made.xShmUnmap = &Impl::ShmUnmap;
      return made;
    }();
    return methods;
  }

  Deps deps_;
  Prng prng_;
  std::string name_;
  sqlite3_vfs vfs_ = {};
  int open_ = 0;
  bool dead_ = false;
};

SimFileSystem::SimFileSystem(const Deps& deps) : impl_(std::make_unique<Impl>(deps)) {}
SimFileSystem::~SimFileSystem() = default;

const std::string& SimFileSystem::name() const { return impl_->name(); }
bool SimFileSystem::Remove(std::string_view file) { return impl_->Remove(file) == SQLITE_OK; }
void SimFileSystem::Die() { impl_->Die(); }
bool SimFileSystem::dead() const { return impl_->dead(); }

}  // namespace nstance::sim
