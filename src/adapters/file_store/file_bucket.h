// FileBucket: the operations of the file store, blocking, for one directory.
//
// Why it is safe between processes that know nothing of each other:
//   - an object appears whole: its bytes are written and synced under a temporary name first
//   - create-only is link(2), which exactly one rival wins, and which needs no lock
//   - whatever replaces or removes an object holds the key's lock from the comparison to the
//     change, so between the two an object can neither change nor go; and while it is there nobody
//     can create it
//   - a process that is killed leaves at most a temporary (skipped by listings, and removed by them
//     after an hour) and an open lock, which the kernel releases
// Everything is synced before it is acknowledged: the file, its directory, and directories on the
// way that this process has not synced before. The last sync comes after the lock is released, so
// that a process stopped inside a slow sync holds nobody up.
//
// No symbolic link is followed below the bucket's directory, since two names of one object would
// have two locks. The directory itself is opened once: what is mounted over it later is not seen.
//
// Methods may be called from any thread at the same time.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/secure_random/system_random.h"
#include "base/result.h"
#include "core/object_key.h"
#include "ports/object_store.h"

namespace nstance {

// A file descriptor that closes itself.
class FileDescriptor final {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

class FileBucket final {
 public:
  enum class Missing : std::uint8_t { kRefuse, kCreate };

  // How long a lock that somebody else holds is waited for.
  struct Patience {
    std::chrono::steady_clock::time_point until;
    std::stop_token stop;
  };

  // What a directory that is not there means is up to the caller: an administrator's typing error,
  // or an empty store to begin with.
  [[nodiscard]] static Result<std::unique_ptr<FileBucket>> Open(const std::string& directory,
                                                                Missing missing);

  [[nodiscard]] Result<Object> Get(const ObjectKey& key) const;
  [[nodiscard]] Result<ObjectVersion> Put(const PutRequest& request, const Patience& patience);
  [[nodiscard]] Result<ObjectVersion> PutUnconditionally(const ObjectKey& key,
                                                         std::string_view bytes,
                                                         const Patience& patience);
  [[nodiscard]] Status Delete(const DeleteRequest& request, const Patience& patience);
  // Versions are left empty: they would cost a read of every file.
  [[nodiscard]] Result<ListPage> List(const ListRequest& request) const;

 private:
  // The directory that holds an object, and the object's name in it.
  struct Place {
    FileDescriptor directory;
    std::string name;
    std::string key;
  };
  class Temporary;
  struct Listing;

  FileBucket(std::string path, FileDescriptor root, FileDescriptor locks);

  [[nodiscard]] Result<Place> Find(const ObjectKey& key) const;
  [[nodiscard]] Result<Place> FindOrMake(const ObjectKey& key);
  [[nodiscard]] Status SyncOnce(int directory, const std::string& child);
  [[nodiscard]] Error Absent(const ObjectKey& key) const;
  [[nodiscard]] Result<Object> Read(const Place& place) const;
  [[nodiscard]] Result<Temporary> WriteTemporary(const Place& place, std::string_view prefix,
                                                 std::string_view bytes);
  [[nodiscard]] Result<FileDescriptor> Lock(const ObjectKey& key, const Patience& patience) const;
  [[nodiscard]] Result<ObjectVersion> Create(const ObjectKey& key, std::string_view bytes);
  [[nodiscard]] Result<ObjectVersion> Update(const PutRequest& request,
                                             const ObjectVersion& version,
                                             const Patience& patience);
  [[nodiscard]] Status Compare(const Place& place, const ObjectVersion& version) const;
  [[nodiscard]] Status Remove(const Place& place, const DeleteRequest& request,
                              const Patience& patience) const;
  [[nodiscard]] Status Walk(const std::string& folder, Listing& listing) const;

  const std::string path_;
  const FileDescriptor root_;
  const FileDescriptor locks_;
  std::mutex mutex_;              // Guards `synced_` and `random_`.
  std::set<std::string> synced_;  // Folders whose entry in the folder above is on disk.
  SystemRandom random_;
};

}  // namespace nstance
