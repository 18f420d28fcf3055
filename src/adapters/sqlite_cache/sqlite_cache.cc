#include "adapters/sqlite_cache/sqlite_cache.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "sqlite/cache_file.h"

namespace nstance {
namespace {

using sqlite::Batch;
using sqlite::Outcome;
using sqlite::Trouble;

constexpr std::string_view kMemory = ":memory:";

// A path of the machine's own file system.
class RealPlace final : public sqlite::Place {
 public:
  explicit RealPlace(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] sqlite::FileName Name() const override { return {.path = path_}; }

  [[nodiscard]] Outcome MakeReady() override {
    if (path_ == kMemory) return {};
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error) return {.trouble = Trouble::kDisk, .message = error.message()};
    // A folder or a pipe in the way.
    const std::filesystem::file_status status = std::filesystem::status(path_, error);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
      return {.trouble = Trouble::kDamaged, .message = "not a regular file"};
    }
    return {};
  }

  [[nodiscard]] Outcome Remove() override {
    if (path_ == kMemory) return {};
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      std::error_code error;
      std::filesystem::remove_all(path_ + suffix, error);
      if (error) return {.trouble = Trouble::kDisk, .message = error.message()};
    }
    return {};
  }

 private:
  const std::string path_;
};

}  // namespace

class SqliteCache::Worker final {
 public:
  Worker(Loop& loop, log::Logger log, const Options& options)
      : loop_(loop),
        interval_(std::chrono::nanoseconds(options.flush_interval.nanoseconds())),
        place_(options.path),
        file_(place_, std::move(log)),
        thread_([this] { Run(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    ready_.notify_one();
    thread_.join();
  }

  void Write(std::vector<cache::Change> changes) {
    {
      const std::scoped_lock lock(mutex_);
      for (cache::Change& change : changes) sqlite::Gather(batch_, std::move(change));
    }
    ready_.notify_one();
  }

  [[nodiscard]] Pending Load(Loaded done) { return Ask(std::move(done)); }
  [[nodiscard]] Pending Flush(Task done) { return Ask(std::move(done)); }
  [[nodiscard]] Pending Watch(BegunAnew begun_anew) {
    const std::uint64_t id = desk_->next_id++;
    desk_->watchers.emplace(id, std::move(begun_anew));
    return Pending([desk = desk_, id] { desk->watchers.erase(id); });
  }

 private:
  using Callback = std::variant<Loaded, Task>;
  // Who waits for an answer, or watches; only touched on the loop.
  struct Desk {
    std::map<std::uint64_t, Callback> waiting;
    std::map<std::uint64_t, BegunAnew> watchers;
    std::uint64_t next_id = 1;
  };
  struct Request {
    std::uint64_t id = 0;
    bool wants_rows = false;
  };

  [[nodiscard]] Pending Ask(Callback callback) {
    const std::uint64_t id = desk_->next_id++;
    const bool wants_rows = std::holds_alternative<Loaded>(callback);
    desk_->waiting.emplace(id, std::move(callback));
    {
      const std::scoped_lock lock(mutex_);
      requests_.push_back({.id = id, .wants_rows = wants_rows});
    }
    ready_.notify_one();
    return Pending([desk = desk_, id] { desk->waiting.erase(id); });
  }

  // Everything that waited, together; written before it is answered for.
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      ready_.wait(lock, [this] { return stopping_ || !batch_.empty() || !requests_.empty(); });
      // More may come: one transaction per interval.
      ready_.wait_for(lock, interval_, [this] { return stopping_ || !requests_.empty(); });
      const Batch batch = std::exchange(batch_, {});
      const std::vector<Request> requests = std::exchange(requests_, {});
      const bool stops = stopping_;
      lock.unlock();
      if (!batch.empty()) file_.Write(batch);
      for (const Request& request : requests) Serve(request);
      if (file_.TakeBegunAnew()) TellWatchers();
      lock.lock();
      if (stops) break;
    }
    file_.Close();
  }

  void Serve(const Request& request) {
    cache::Contents contents;
    if (request.wants_rows) contents = file_.Read();
    loop_.Post([desk = desk_, id = request.id, contents = std::move(contents)]() mutable {
      auto node = desk->waiting.extract(id);
      if (node.empty()) return;
      if (auto* loaded = std::get_if<Loaded>(&node.mapped())) {
        (*loaded)(std::move(contents));
      } else {
        std::get<Task>(node.mapped())();
      }
    });
  }

  void TellWatchers() {
    loop_.Post([desk = desk_] {
      // A copy: who is told may watch no more, or anew.
      for (const auto& [id, begun_anew] : std::map(desk->watchers)) {
        if (desk->watchers.contains(id)) begun_anew();
      }
    });
  }

  Loop& loop_;
  const std::chrono::nanoseconds interval_;
  std::shared_ptr<Desk> desk_ = std::make_shared<Desk>();
  RealPlace place_;         // Of the thread.
  sqlite::CacheFile file_;  // Of the thread.
  std::mutex mutex_;        // Guards what follows.
  std::condition_variable ready_;
  Batch batch_;
  std::vector<Request> requests_;
  bool stopping_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

SqliteCache::SqliteCache(Loop& loop, log::Logger log, const Options& options)
    : worker_(std::make_unique<Worker>(loop, std::move(log), options)) {}
SqliteCache::~SqliteCache() = default;

void SqliteCache::Write(std::vector<cache::Change> changes) { worker_->Write(std::move(changes)); }
Pending SqliteCache::Load(Loaded done) { return worker_->Load(std::move(done)); }
Pending SqliteCache::Flush(Task done) { return worker_->Flush(std::move(done)); }
Pending SqliteCache::Watch(BegunAnew begun_anew) { return worker_->Watch(std::move(begun_anew)); }

}  // namespace nstance
