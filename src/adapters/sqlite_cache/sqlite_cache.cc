#include "adapters/sqlite_cache/sqlite_cache.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "adapters/sqlite_cache/sqlite_database.h"
#include "adapters/sqlite_cache/sqlite_tables.h"

namespace nstance {
namespace {

using sqlite::Outcome;
using sqlite::RowKey;
using sqlite::Trouble;

constexpr std::string_view kMemory = ":memory:";

// What is to become of one row. Erased first: it may have been another one with the same key, whose
// dependants must go.
struct RowChange {
  cache::Change change;
  bool erase_first = false;
};
using Batch = std::map<RowKey, RowChange>;

void Gather(Batch& batch, cache::Change change) {
  RowKey key = sqlite::KeyOf(change);
  const bool erases_instance = std::holds_alternative<cache::EraseInstance>(change);
  if (erases_instance) {
    std::erase_if(batch, [&](const auto& row) { return OwnerOf(row.first) == key.first; });
  }
  const auto before = batch.find(key);
  const bool erase_first = before != batch.end() &&
                           (before->second.erase_first ||
                            std::holds_alternative<cache::EraseInstance>(before->second.change));
  batch.insert_or_assign(std::move(key),
                         RowChange{.change = std::move(change), .erase_first = erase_first});
}

// The file: opened, repaired and written. Used by one thread.
class CacheFile final {
 public:
  CacheFile(std::string path, log::Logger log) : path_(std::move(path)), log_(std::move(log)) {}

  void Write(const Batch& batch) {
    // Twice: a file that turns out damaged is made anew, and takes the batch.
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (!EnsureOpen()) return;
      const Outcome outcome = Transact(batch);
      if (outcome.ok()) {
        complained_ = false;
        return;
      }
      GiveUp(outcome);
      if (*outcome.trouble != Trouble::kDamaged) return;
    }
  }

  [[nodiscard]] cache::Contents Read() {
    cache::Contents contents;
    if (!EnsureOpen()) return contents;
    if (const Outcome outcome = tables_.ReadAll(contents); !outcome.ok()) {
      GiveUp(outcome);
      return {};
    }
    return contents;
  }

  void Close() {
    tables_ = sqlite::Tables();
    database_.Close();
  }

 private:
  // A file that missed a batch tells of rows that are gone: it is not used again.
  void GiveUp(const Outcome& outcome) {
    Complain(outcome);
    Close();
    distrusted_ = true;
  }

  void Complain(const Outcome& outcome) {
    if (std::exchange(complained_, true)) return;
    log_.Warning("cache database not usable", {{"path", path_}, {"error", outcome.message}});
  }

  [[nodiscard]] bool EnsureOpen() {
    if (database_.is_open()) return true;
    if (distrusted_ && !Remove()) return false;
    Outcome outcome = Open();
    if (!outcome.ok() && *outcome.trouble == Trouble::kDamaged) {
      log_.Warning("cache database made anew", {{"path", path_}, {"error", outcome.message}});
      Close();
      if (!Remove()) return false;
      outcome = Open();
    }
    if (outcome.ok()) {
      distrusted_ = false;
      return true;
    }
    Complain(outcome);
    Close();
    return false;
  }

  [[nodiscard]] bool Remove() {
    if (path_ == kMemory) return true;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      std::error_code error;
      std::filesystem::remove_all(path_ + suffix, error);
      if (error) {
        Complain({.trouble = Trouble::kDisk, .message = error.message()});
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] Outcome Open() {
    if (path_ != kMemory) {
      std::error_code error;
      const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
      if (!folder.empty()) std::filesystem::create_directories(folder, error);
      if (error) return {.trouble = Trouble::kDisk, .message = error.message()};
      // A folder or a pipe in the way.
      if (std::filesystem::exists(path_, error) && !std::filesystem::is_regular_file(path_)) {
        return {.trouble = Trouble::kDamaged, .message = "not a regular file"};
      }
    }
    if (Outcome opened = database_.Open(path_); !opened.ok()) return opened;
    if (Outcome sound = CheckSoundness(); !sound.ok()) return sound;
    return tables_.Prepare(database_);
  }

  [[nodiscard]] Outcome CheckSoundness() {
    std::string answer;
    if (Outcome asked = database_.Ask("PRAGMA quick_check(1)", answer); !asked.ok()) return asked;
    if (answer != "ok") return {.trouble = Trouble::kDamaged, .message = answer};
    std::string version;
    std::string tables;
    if (Outcome asked = database_.Ask("PRAGMA user_version", version); !asked.ok()) return asked;
    if (Outcome asked = database_.Ask("SELECT count(*) FROM sqlite_master", tables); !asked.ok()) {
      return asked;
    }
    if (version == "0" && tables == "0") {
      return sqlite::CreateSchema(database_, SqliteCache::kSchemaVersion);
    }
    if (version == fmt::format("{}", SqliteCache::kSchemaVersion)) return {};
    return {.trouble = Trouble::kDamaged, .message = "schema version " + version};
  }

  [[nodiscard]] Outcome Transact(const Batch& batch) {
    if (Outcome begun = database_.Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
    for (const auto& [key, row] : batch) {
      Outcome outcome;
      if (row.erase_first) outcome = tables_.Erase(key);
      if (outcome.ok()) outcome = tables_.Apply(row.change);
      if (!outcome.ok() && *outcome.trouble != Trouble::kRow) return outcome;
    }
    return database_.Execute("COMMIT");
  }

  const std::string path_;
  const log::Logger log_;
  sqlite::Database database_;
  sqlite::Tables tables_;  // After the database: its statements go first.
  bool distrusted_ = false;
  bool complained_ = false;
};

}  // namespace

class SqliteCache::Worker final {
 public:
  Worker(Loop& loop, log::Logger log, const Options& options)
      : loop_(loop),
        interval_(std::chrono::nanoseconds(options.flush_interval.nanoseconds())),
        file_(options.path, std::move(log)),
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
      for (cache::Change& change : changes) Gather(batch_, std::move(change));
    }
    ready_.notify_one();
  }

  [[nodiscard]] Pending Load(Loaded done) { return Ask(std::move(done)); }
  [[nodiscard]] Pending Flush(Task done) { return Ask(std::move(done)); }

 private:
  using Callback = std::variant<Loaded, Task>;
  // Who waits for an answer; only touched on the loop.
  struct Desk {
    std::map<std::uint64_t, Callback> waiting;
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

  Loop& loop_;
  const std::chrono::nanoseconds interval_;
  std::shared_ptr<Desk> desk_ = std::make_shared<Desk>();
  CacheFile file_;    // Of the thread.
  std::mutex mutex_;  // Guards what follows.
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

}  // namespace nstance
