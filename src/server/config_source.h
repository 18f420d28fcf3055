// ConfigSource: the shard's configuration, from the object store, checked, as one immutable value.
//
//   ConfigSource source(deps, {.places = {{key, Layout::kNstance}}, .shard = shard}, owner);
//   source.Start();                    // Owner::loaded(config), again after each change in force
//   source.LoadNow(done);              // Take-over: from storage, at once.
//   source.Refresh(done);              // RefreshConfig: calls within 5 s share one reload.
//   source.StartComparing();           // Leader: status().pending when the object has changed.
//
// What is in force changes in one step and only to a configuration without errors. Errors are told
// with file, line and column, and leave what is in force.
//
//   situation                         | in force                        | next try
//   ----------------------------------+---------------------------------+--------------------------
//   start, storage has a valid one    | that                            | only when asked
//   start, unreachable or invalid     | the last good copy of --cachedir| 1 s x 2^n, cap 30 s
//   the same, without a copy          | none                            | every 10 s
//   later: unreachable or invalid     | unchanged                       | when asked, and as above
//                                     |                                 | while it is a cached copy
//
// Guarantees, each held by a test:
//   - once a configuration has come from storage, the cached copy is never read again
//   - a load that was asked for reads the store after it was asked for: an upload that was done
//     before RefreshConfig is always seen by it. At most one refresh begins in any 5 s; those that
//     wait share it
//   - every valid configuration that was read goes to the cached copy; a copy that cannot be
//     written costs a log line and nothing else
//   - a configuration of another shard, or of another cluster than the journal's, is invalid
//   - destroying the source leaves no timer and no callback
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/input_probe.h"
#include "base/log.h"
#include "base/name.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "core/back_off.h"
#include "core/config/config.h"
#include "core/config/load.h"
#include "core/config/problem.h"
#include "core/config_place.h"
#include "core/object_key.h"
#include "ports/cache_folder.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"

namespace nstance {

enum class ConfigOrigin : std::uint8_t { kStorage, kCachedCopy };

struct ConfigSnapshot {
  config::Config config;
  ConfigOrigin origin = ConfigOrigin::kStorage;
  config::Layout layout = config::Layout::kNstance;
  std::string etag = {};  // The object's version; empty for a cached copy.
  std::uint64_t size = 0;
  std::optional<Timestamp> modified_at = std::nullopt;  // Empty where the store does not tell.
  std::vector<config::Problem> warnings = {};
};
using ConfigRef = std::shared_ptr<const ConfigSnapshot>;

// Whether what is in force is what storage holds, as far as is known.
enum class ConfigStanding : std::uint8_t {
  kNone,         // Nothing is in force.
  kCurrent,      // The last load took it from storage.
  kUnreachable,  // The last load could not read the store.
  kInvalid,      // The last load found an invalid one (hold `config-invalid`).
};

struct ConfigStatus {
  ConfigStanding standing = ConfigStanding::kNone;
  std::optional<Error> last_error = std::nullopt;  // Of the last load; empty when it succeeded.
  bool pending = false;  // The stored object is another one (hold `config-pending`).
  friend bool operator==(const ConfigStatus&, const ConfigStatus&) = default;
};

class ConfigSource final {
 public:
  // Where the object may be; the first that exists counts, and is kept to from then on.
  using Place = ConfigPlace;
  struct Deps {
    Loop& loop;
    ObjectStore& store;
    CacheFolder& cache;
    Prng& jitter;
    log::Logger log;
    InputProbe* probe = nullptr;
  };
  struct Options {
    std::vector<Place> places;  // REQUIRES: not empty.
    ShardId shard;
    Duration retry_without_any = Duration::Seconds(10);
    Duration refresh_gap = Duration::Seconds(5);
    Duration compare_interval = Duration::Seconds(60);
  };
  struct Owner {
    // Something else is in force: the first configuration, a cached copy, or a changed one. Told in
    // a turn of its own, before those who asked are answered; may not destroy the source.
    std::move_only_function<void(ConfigRef)> loaded = [](const ConfigRef&) {};
    // status() has changed.
    std::move_only_function<void()> status_changed = [] {};
  };
  struct Reload {
    ConfigRef config;       // In force now.
    std::string prev_etag;  // Of what was in force before; empty: nothing, or a cached copy.
    [[nodiscard]] bool updated() const { return prev_etag != config->etag; }
  };
  // kFailedPrecondition with the first error when the stored one is invalid or absent;
  // kUnavailable when the store could not be read.
  using Done = std::move_only_function<void(Result<Reload>)>;

  ConfigSource(Deps deps, Options options, Owner owner);
  ConfigSource(const ConfigSource&) = delete;
  ConfigSource& operator=(const ConfigSource&) = delete;
  ~ConfigSource() = default;

  void Start();

  // Reads the store, without regard to the gap. A `done` is called once, never from inside; it may
  // not destroy the source.
  void LoadNow(Done done);
  void Refresh(Done done);

  // From now on a configuration of another cluster is refused.
  void ExpectCluster(ClusterId cluster) { cluster_ = std::move(cluster); }

  void StartComparing();
  void StopComparing();

  // Null: none.
  [[nodiscard]] const ConfigRef& current() const { return current_; }
  [[nodiscard]] const ConfigStatus& status() const { return status_; }

 private:
  struct Found {
    Object object;
    std::size_t place = 0;
  };

  void MaybeBegin();
  void ReadPlace(std::size_t place);
  void OnRead(std::size_t place, Result<Object> object);
  void FinishLoad(Result<Found> found);
  void Succeed(ConfigRef config, std::vector<Done> answers);
  void FailLoad(const Error& error, std::vector<Done> answers);
  [[nodiscard]] Result<ConfigRef> Check(const Found& found, ConfigOrigin origin) const;
  void SetStatus(ConfigStatus status);
  void RetryLater();

  void ReadCopy(std::size_t place);
  void OnCopy(std::size_t place, Result<std::string> bytes);
  void KeepCopy(const Found& found);

  void CompareLater();
  void Compare();
  void OnCompared(const Result<ObjectHead>& head);

  Deps deps_;
  Options options_;
  Owner owner_;
  std::optional<ClusterId> cluster_ = std::nullopt;

  ConfigRef current_;
  ConfigStatus status_;
  std::optional<std::size_t> place_ = std::nullopt;  // Once found.

  std::vector<Done> refreshes_;  // Wait for the gap to end.
  std::vector<Done> asked_;      // To be answered by the next load that begins.
  std::vector<Done> answers_;    // To be answered by the load that is under way.
  bool loading_ = false;
  bool refresh_armed_ = false;
  bool copy_tried_ = false;
  bool comparing_ = false;
  Instant refresh_allowed_at_;
  BackOff back_off_;
  Pending load_;
  Pending retry_;
  Pending refresh_;
  Pending copy_read_;
  Pending copy_write_;
  Pending compare_;
};

// "config.jsonc", "config.nstance-v2.jsonc": the cached copy of a layout.
[[nodiscard]] std::string_view ConfigCacheName(config::Layout layout);

}  // namespace nstance
