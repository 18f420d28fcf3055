// FileStore: an object store in a directory (ports/object_store.h).
//
// Version: the MD5 of the bytes in hex. Listings tell no versions. There is no store time.
//
// Blocking work runs on threads of its own: Options::pool says how many calls run at once and how
// many wait; one beyond is answered with kUnavailable, kNotDone. A call that has no answer at its
// deadline ends with kDeadlineExceeded: kNotDone if it had not begun, kMaybeDone if a write had.
// What the bytes on disk look like, and why several processes may share a bucket: file_bucket.h.
//
// Errors before the change of a name are kNotDone, afterwards (the sync of the directory fails)
// kMaybeDone. Where a disk is full or a directory is not ours the message says what to do.
//
// Thread: made, used and destroyed on the thread of its loop, which must outlive it. Destroying it
// drops answers and calls that have not begun, and waits for those that have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "adapters/file_store/file_bucket.h"
#include "adapters/file_store/worker_pool.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/loop.h"
#include "ports/object_store.h"

namespace nstance {

class FileStore final : public ObjectStore {
 public:
  struct Options {
    std::string directory;
    FileBucket::Missing missing = FileBucket::Missing::kRefuse;
    Duration deadline = Duration::Seconds(3);
    WorkerPool::Options pool = {};
  };

  // Blocks for a few system calls. kUnavailable when the directory cannot be opened.
  [[nodiscard]] static Result<std::unique_ptr<FileStore>> Open(Loop& loop, const Options& options);
  ~FileStore() override;

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override;
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override;
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override;
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override;

  // Of calls that begin from now on.
  void set_deadline(Duration deadline) { deadline_ = deadline; }

 private:
  enum class Effect : std::uint8_t { kRead, kWrite };
  struct Desk;  // Who waits for an answer; only touched on the loop.
  template <class T>
  struct Caller;
  template <class T>
  using Work = std::move_only_function<Result<T>(FileBucket&, const FileBucket::Patience&)>;

  FileStore(Loop& loop, const Options& options, std::unique_ptr<FileBucket> bucket);

  template <class T>
  [[nodiscard]] Pending Ask(Effect effect, Done<T> done, Work<T> work);
  template <class T>
  void SetDeadline(std::uint64_t id, Effect effect);

  Loop& loop_;
  Duration deadline_;
  std::unique_ptr<FileBucket> bucket_;
  std::shared_ptr<Desk> desk_;
  std::unique_ptr<WorkerPool> pool_;  // Last: its threads use all of the above.
};

}  // namespace nstance
