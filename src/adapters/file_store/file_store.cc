#include "adapters/file_store/file_store.h"

#include <chrono>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "ports/pending.h"

namespace nstance {
namespace {

// A lock is waited for a little shorter than the call, so that the answer "not done" comes in time.
std::chrono::steady_clock::time_point LockLimit(Duration deadline) {
  return std::chrono::steady_clock::now() +
         std::chrono::nanoseconds((deadline * 3 / 4).nanoseconds());
}

}  // namespace

struct FileStore::Desk {
  struct Waiting {
    Waiting() = default;
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    virtual ~Waiting() = default;
  };

  std::map<std::uint64_t, std::unique_ptr<Waiting>> waiting;
  std::uint64_t next_id = 1;

  // Taken out before it is destroyed or called: a callback may own other Pendings of this store.
  std::unique_ptr<Waiting> Take(std::uint64_t id) {
    auto node = waiting.extract(id);
    return node.empty() ? nullptr : std::move(node.mapped());
  }
};

template <class T>
struct FileStore::Caller final : Desk::Waiting {
  explicit Caller(Done<T> callback) : done(std::move(callback)) {}
  Done<T> done;
  Pending deadline;

  static void Answer(Desk& desk, std::uint64_t id, Result<T> result) {
    const auto waiting = desk.Take(id);
    if (waiting == nullptr) return;  // Cancelled, or answered by the deadline.
    auto& caller = static_cast<Caller&>(*waiting);
    caller.deadline.Cancel();
    caller.done(std::move(result));
  }
};

Result<std::unique_ptr<FileStore>> FileStore::Open(Loop& loop, const Options& options) {
  ASSIGN_OR_RETURN(auto bucket, FileBucket::Open(options.directory, options.missing));
  return std::unique_ptr<FileStore>(new FileStore(loop, options, std::move(bucket)));
}

FileStore::FileStore(Loop& loop, const Options& options, std::unique_ptr<FileBucket> bucket)
    : loop_(loop),
      deadline_(options.deadline),
      bucket_(std::move(bucket)),
      desk_(std::make_shared<Desk>()),
      pool_(std::make_unique<WorkerPool>(options.pool)) {}

FileStore::~FileStore() {
  pool_.reset();
  // Answers that are posted already find an empty desk.
  const auto dropped = std::exchange(desk_->waiting, {});
}

template <class T>
void FileStore::SetDeadline(std::uint64_t id, Effect effect) {
  auto& caller = static_cast<Caller<T>&>(*desk_->waiting.at(id));
  caller.deadline = loop_.CallAfter(deadline_, [this, id, effect] {
    Error error = DeadlineExceeded(
        fmt::format("the file store did not answer within {}", FormatDuration(deadline_)));
    const bool begun = !pool_->Withdraw(id);
    if (begun && effect == Effect::kWrite) error = std::move(error).MaybeDone();
    Caller<T>::Answer(*desk_, id, Fail(std::move(error)));
  });
}

template <class T>
Pending FileStore::Ask(Effect effect, Done<T> done, Work<T> work) {
  const std::uint64_t id = desk_->next_id++;
  desk_->waiting.emplace(id, std::make_unique<Caller<T>>(std::move(done)));
  SetDeadline<T>(id, effect);
  const auto limit = LockLimit(deadline_);
  const bool queued =
      pool_->Add(id, [bucket = bucket_.get(), &loop = loop_, desk = desk_, id, limit,
                      work = std::move(work)](const std::stop_token& stop) mutable {
        Result<T> result = work(*bucket, {.until = limit, .stop = stop});
        loop.Post([desk = std::move(desk), id, result = std::move(result)]() mutable {
          Caller<T>::Answer(*desk, id, std::move(result));
        });
      });
  if (!queued) {
    loop_.Post([desk = desk_, id] {
      Caller<T>::Answer(*desk, id,
                        Fail(Unavailable("too many calls wait for the file store already")));
    });
  }
  return Pending([desk = desk_, id] { const auto dropped = desk->Take(id); });
}

Pending FileStore::Get(const ObjectKey& key, Done<Object> done) {
  return Ask<Object>(Effect::kRead, std::move(done),
                     [key](FileBucket& bucket, const auto&) { return bucket.Get(key); });
}

Pending FileStore::Head(const ObjectKey& key, Done<ObjectHead> done) {
  return Ask<ObjectHead>(
      Effect::kRead, std::move(done), [key](FileBucket& bucket, const auto&) -> Result<ObjectHead> {
        ASSIGN_OR_RETURN(const Object object, bucket.Get(key));
        return ObjectHead{.version = object.version, .size = object.bytes.size()};
      });
}

Pending FileStore::Put(PutRequest request, Done<ObjectVersion> done) {
  return Ask<ObjectVersion>(
      Effect::kWrite, std::move(done),
      [request = std::move(request)](FileBucket& bucket, const FileBucket::Patience& patience) {
        return bucket.Put(request, patience);
      });
}

Pending FileStore::PutUnconditionally(ObjectKey key, std::string bytes, Done<ObjectVersion> done) {
  return Ask<ObjectVersion>(Effect::kWrite, std::move(done),
                            [key = std::move(key), bytes = std::move(bytes)](
                                FileBucket& bucket, const FileBucket::Patience& patience) {
                              return bucket.PutUnconditionally(key, bytes, patience);
                            });
}

Pending FileStore::Delete(DeleteRequest request, Done<void> done) {
  return Ask<void>(
      Effect::kWrite, std::move(done),
      [request = std::move(request)](FileBucket& bucket, const FileBucket::Patience& patience) {
        return bucket.Delete(request, patience);
      });
}

Pending FileStore::List(ListRequest request, Done<ListPage> done) {
  return Ask<ListPage>(Effect::kRead, std::move(done),
                       [request = std::move(request)](FileBucket& bucket, const auto&) {
                         return bucket.List(request);
                       });
}

}  // namespace nstance
