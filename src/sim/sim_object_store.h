// SimBucket and SimObjectStore: object storage in simulated time, stricter than any real one.
//
// A SimBucket is the world's truth: what is stored, whoever looks. Each simulated process has a
// SimObjectStore of its own, which is its way to the bucket: requests and answers take time, get
// lost, arrive late or twice, as the faults of that process say. All chance comes from the seed.
//
// A request is sent, arrives at the bucket, is judged *there and then*, and its answer travels
// back. So a write that arrives ten minutes late finds its condition judged ten minutes late, and
// takes effect although the process that sent it is dead.
//
// What is stricter: versions are new with every write and never content hashes; conditions are held
// to the letter; every fault of a store that the code above has to bear can be had, one by one:
//   F3   error, not applied               error_not_done
//   F4   applied, but the answer is lost   answer_lost, applied_late, error_maybe_done (a 5xx)
//   F5   refused                           rivals; delivered_twice (412 for our own write)
//   F6   stale reads and listings          stale_read, stale_listing
//   F13  one-way partitions                SimLink
// Personalities make a bucket that lies, for the store probe.
//
// Lifetimes: the bucket outlives its stores, a store goes before the loop that it answers on, the
// scheduler outlives all.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "sim/sim_loop.h"
#include "sim/sim_scheduler.h"

namespace nstance::sim {

// Chances are in ten thousand.
struct SimStoreFaults {
  Duration latency_min = Duration::Milliseconds(5);
  Duration latency_max = Duration::Milliseconds(50);

  std::uint32_t error_not_done = 0;    // Answered with an error, surely without effect.
  std::uint32_t error_maybe_done = 0;  // Writes: answered with a 5xx, applied in half of the cases.
  std::uint32_t request_lost = 0;      // Never arrives; the caller's deadline passes.
  std::uint32_t answer_lost = 0;       // Arrives and is done; the caller's deadline passes.
  std::uint32_t applied_late = 0;      // Writes: arrive late; the deadline passes.
  Duration late_min = Duration::Seconds(1);
  Duration late_max = Duration::Minutes(10);
  std::uint32_t delivered_twice = 0;  // Writes: judged twice; the second judgement is answered.
  std::uint32_t stale_read = 0;       // Get and Head: what was there up to `stale_by` ago.
  std::uint32_t stale_listing = 0;    // List: the same.
  Duration stale_by = Duration::Seconds(5);
  std::uint32_t short_page = 0;  // List: fewer keys than asked for, although there are more.

  friend bool operator==(const SimStoreFaults&, const SimStoreFaults&) = default;
};

// What happens to one request.
enum class SimFate : std::uint8_t {
  kNormal,
  kErrorNotDone,    // Answered with an error, surely without effect.
  kErrorMaybeDone,  // Mutations: answered with a 5xx, applied or not.
  kRefused,         // Providers, creates: quota, capacity, credentials, arguments.
  kRequestLost,
  kAnswerLost,
  kLate,   // Mutations: arrive late.
  kTwice,  // Mutations: judged twice; the second judgement is answered.
  kStale,  // Reads: what was there a while ago.
};

// A decision about one request, which is otherwise left to chance.
struct SimVerdict {
  SimFate fate = SimFate::kNormal;
  // Runs where the answer would have been handed over, instead of that.
  std::function<void()> at_answer = {};
  std::optional<Duration> late = std::nullopt;  // kLate: by so much; empty: drawn.
};

// One direction each; both together are a full partition.
struct SimLink {
  bool requests_lost = false;
  bool answers_lost = false;
};

// How a bucket differs from one that keeps its word. Some of these are lies, some only manners.
struct SimPersonality {
  // Lies.
  bool judges_before_it_writes = false;  // Many winners: rivals at one time are all let through.
  bool writes_on_missing_key = false;    // An update of what is not there creates it.
  bool ignores_conditions = false;       // Every write is applied.
  bool ignores_conditions_of_rewrites = false;  // As some stores do on versioned buckets: only the
                                                // first write of a key is judged.
  bool refuses_all_updates = false;             // Also those from the current version.
  Duration reads_lag = {};                      // Get and Head show what was there so long ago.

  // Manners.
  bool rival_gets_conflict = false;       // 409 for whoever meets another write of the key.
  bool lost_race_gets_error = false;      // 500 for the loser of a race: maybe done, by its code.
  bool ignores_delete_condition = false;  // Deletes are applied whatever version they name.
  bool tells_no_version = false;          // Applied writes are answered without a version.
  Duration listings_lag = {};
};

enum class SimMethod : std::uint8_t { kGet, kHead, kPut, kPutUnconditionally, kDelete, kList };
enum class SimResult : std::uint8_t {
  kDone,      // Applied, found, listed; the answer may have been lost all the same.
  kNotFound,  // Read of what is not there.
  kRefused,   // Condition not met.
  kFailed,    // An injected error; without effect.
  kLost,      // Never arrived.
};

// The first component of a key ("instance"), by which request budgets are counted.
[[nodiscard]] std::string KeyClass(std::string_view key);

// A change of the truth, as it happens.
struct SimChange {
  Instant at;
  std::string process;  // Empty: by hand, through the bucket itself.
  SimMethod method = SimMethod::kPut;
  ObjectKey key;
  const Object* before = nullptr;  // Null: there was none.
  const Object* after = nullptr;   // Null: there is none now.
};

// A request as the process that makes it knows of it: when it is sent, and, of writes, when it is
// answered. An answer that comes to nobody is not told.
struct SimCall {
  enum class Moment : std::uint8_t { kSent, kAnswered };
  Moment moment = Moment::kSent;
  const std::string& process;
  SimMethod method = SimMethod::kGet;
  const std::string& key;   // Prefix, for lists.
  bool maybe_done = false;  // kAnswered: the process cannot tell whether it was applied.
};

struct SimRequest {
  Instant at;
  std::string process;
  SimMethod method = SimMethod::kGet;
  std::string key;  // Prefix, for lists.
  SimResult result = SimResult::kDone;
};

class SimBucket final {
 public:
  struct Options {
    SimPersonality personality = {};
    // What the bucket's clock shows at world time zero; empty: it tells none.
    std::optional<Timestamp> wall_start = std::nullopt;
    // Whether requests() is kept besides the counts.
    enum class Log : std::uint8_t { kCounts, kRequests } log = Log::kCounts;
  };
  using Counter = std::tuple<SimMethod, std::string, SimResult>;  // Method, key class, result.

  SimBucket(SimScheduler& scheduler, Options options);
  SimBucket(const SimBucket&) = delete;
  SimBucket& operator=(const SimBucket&) = delete;

  // The truth. Pointers are valid until the key changes.
  [[nodiscard]] const Object* Find(const ObjectKey& key) const;
  [[nodiscard]] std::vector<ObjectKey> Keys() const;

  // What an administrator or a broken disk does, at once and without conditions.
  void SetByHand(const ObjectKey& key, std::string bytes);
  void EraseByHand(const ObjectKey& key);

  // Called at every change, before anybody is answered: where invariants are checked.
  void set_observer(std::function<void(const SimChange&)> observer) {
    observer_ = std::move(observer);
  }

  // Called at every request of a process.
  void set_call_observer(std::function<void(const SimCall&)> observer) {
    call_observer_ = std::move(observer);
  }

  [[nodiscard]] SimPersonality& personality() { return options_.personality; }

  // Every request that was sent is counted once, when its fate is decided.
  [[nodiscard]] const std::map<Counter, std::uint64_t>& counts() const { return counts_; }
  // Writes of SimFate::kLate that have not arrived. They are counted when they do.
  [[nodiscard]] std::size_t late_writes() const { return late_writes_; }
  [[nodiscard]] std::uint64_t Count(SimMethod method, std::string_view key_class) const;
  [[nodiscard]] const std::vector<SimRequest>& requests() const { return requests_; }

 private:
  friend class SimObjectStore;

  struct Revision {
    Instant since;
    std::optional<Object> object;
  };
  struct Entry {
    ObjectKey key;
    std::deque<Revision> revisions;  // The newest last; a short memory for stale reads.
    bool trimmed = false;            // There were older ones.
    int in_flight = 0;               // Writes between arrival and judgement.
  };

  struct Write {
    std::string process;
    SimMethod method = SimMethod::kPut;
    ObjectKey key;
    std::string bytes = {};                                // Puts.
    std::optional<PutCondition> condition = std::nullopt;  // Puts; empty: none.
    std::optional<ObjectVersion> version = std::nullopt;   // Deletes; empty: none.
  };
  using WriteDone = std::move_only_function<void(Result<ObjectVersion>)>;

  // The bucket's side of a request that has arrived. `done` is called at this moment or, where the
  // personality lets rivals meet, a few milliseconds later.
  void Arrive(Write write, WriteDone done);
  [[nodiscard]] Result<Object> Read(const ObjectKey& key, Duration staleness) const;
  [[nodiscard]] ListPage List(const ListRequest& request, Duration staleness) const;
  void Note(SimRequest request);
  void Tell(const SimCall& call) const {
    if (call_observer_) call_observer_(call);
  }

  // By its own clock; empty: it has none.
  [[nodiscard]] std::optional<Timestamp> Time() const;
  // Runs `task` at `at`, whoever is dead by then.
  void Later(Instant at, Task task);
  [[nodiscard]] Entry& EntryOf(const ObjectKey& key);
  [[nodiscard]] bool Holds(const Write& write) const;
  [[nodiscard]] Result<ObjectVersion> Judge(Write write);
  ObjectVersion Apply(Write write);
  [[nodiscard]] Error Refuse(const Write& write, std::string_view why);
  [[nodiscard]] static const Object* AsOf(const Entry& entry, Instant at);

  SimScheduler& scheduler_;
  SimLoop loop_;
  Prng prng_;
  Options options_;
  std::map<std::string, Entry> objects_;
  std::uint64_t versions_ = 0;
  std::function<void(const SimChange&)> observer_;
  std::function<void(const SimCall&)> call_observer_;
  std::map<Counter, std::uint64_t> counts_;
  std::vector<SimRequest> requests_;
  std::size_t late_writes_ = 0;
  std::map<std::uint64_t, Pending> later_;
  std::uint64_t next_later_ = 0;
};

class SimObjectStore final : public ObjectStore {
 public:
  struct Options {
    std::string process = {};
    SimStoreFaults faults = {};
    // `server.store_timeout`: when a call without an answer ends.
    Duration deadline = Duration::Seconds(3);
    // Asked about every request when it is sent, with what chance has drawn for it.
    std::function<SimVerdict(SimMethod, const std::string& key, SimFate drawn)> decide = {};
  };

  // Chance is forked from the scheduler's.
  SimObjectStore(SimBucket& bucket, Loop& loop, Options options);
  ~SimObjectStore() override;

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override;
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override;
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override;
  // Of every answer that arrives, where the bucket has a clock.
  [[nodiscard]] Pending WatchTime(TimeTold told) override;
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override;

  // May be changed at any time; they hold for requests and answers that are sent from then on.
  [[nodiscard]] SimStoreFaults& faults() { return options_.faults; }
  [[nodiscard]] const SimStoreFaults& faults() const { return options_.faults; }
  [[nodiscard]] SimLink& link();
  [[nodiscard]] const SimLink& link() const;

 private:
  template <class T>
  struct Call;
  struct Wire;  // What outlives the store: is there still somebody to answer?

  // What happens to a request, decided when it is sent.
  struct Fate {
    SimFate kind = SimFate::kNormal;
    Duration out;   // On its way there.
    Duration back;  // And back.
    Duration staleness;
    std::optional<Duration> late = std::nullopt;  // kLate: empty: drawn.
    std::function<void()> at_answer = {};
  };

  [[nodiscard]] Fate Draw(SimMethod method, const std::string& key);
  [[nodiscard]] SimFate DrawKind(SimMethod method);
  [[nodiscard]] bool Chance(std::uint32_t in_ten_thousand);

  template <class T>
  [[nodiscard]] Pending Begin(const std::shared_ptr<Call<T>>& call, Error timeout);
  template <class T>
  [[nodiscard]] Pending RefuseAtOnce(Done<T> done, Error error);
  // `look` is called at the bucket with the staleness of what is to be shown.
  template <class T>
  [[nodiscard]] Pending SendRead(SimRequest request, Done<T> done,
                                 std::function<Result<T>(Duration)> look);
  template <class T>
  [[nodiscard]] Pending SendWrite(SimBucket::Write write, Done<T> done);
  void Carry(SimBucket::Write write, const Fate& fate, SimBucket::WriteDone answer);

  SimBucket& bucket_;
  Loop& loop_;
  Options options_;
  Prng prng_;
  std::shared_ptr<Wire> wire_;
};

}  // namespace nstance::sim
