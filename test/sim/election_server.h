// ElectionServer: one simulated server process of the election simulation: its loop, its way to the
// bucket, an elector, a journal writer while it leads, and work to do.
//
// As leader it opens intents, and once one is durable sends its "provider request", which takes
// effect at some later moment whatever has happened to the process by then; then it closes the
// intent. What a former leader left open is finished first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/seeded_random.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "storage/elector.h"
#include "storage/journal_writer.h"
#include "test/sim/election_checkers.h"
#include "test/sim/election_plants.h"

namespace nstance::sim {

// What a run has reached, so that a test can tell that it was worth something.
struct ElectionCounts {
  std::uint64_t acquisitions = 0;
  std::uint64_t take_overs = 0;
  std::uint64_t commits = 0;
  std::uint64_t effects = 0;
  std::uint64_t refused_effects = 0;  // The lease left no time for them.
  std::uint64_t hanging_take_overs = 0;
  std::uint64_t refused_journals = 0;
  std::uint64_t excuses = 0;                         // Of election_checkers.h, by task.
  std::array<std::uint64_t, 6> lease_losses = {};    // By LeaseLoss.
  std::array<std::uint64_t, 5> journal_losses = {};  // By JournalLoss.
  std::array<std::uint64_t, 3> alarms = {};          // By LeaseAlarm.

  // Faults.
  std::uint64_t crashes = 0;
  std::uint64_t storms = 0;
  std::uint64_t pauses = 0;
  std::uint64_t partitions = 0;
  std::uint64_t clogs = 0;
  std::uint64_t wall_jumps = 0;
  std::uint64_t rate_changes = 0;
  std::uint64_t vandalisms = 0;
  std::uint64_t journal_damages = 0;
  std::uint64_t restores = 0;
  std::uint64_t stops = 0;

  ElectionCounts& operator+=(const ElectionCounts& other);
};

// What all servers of a run share. Chance for what servers do by themselves comes from the
// scheduler's generator.
struct ElectionWorld {
  SimScheduler& scheduler;
  SimLoop& loop;  // Of the world, not of any process: provider, faults.
  SimBucket& bucket;
  ElectionCheckers& checkers;
  JournalIdentity identity;
  ObjectKey lease_key;
  ObjectKey journal_key;
  LeaseTimings timings;
  Plant plant = Plant::kNone;
  std::vector<std::string>* trace = nullptr;
  std::vector<Pending> later = {};  // What is under way between processes.

  // Instance records that carry an epoch would exist.
  bool was_led = false;
  ElectionCounts counts = {};

  void Note(const std::string& text) const;
};

class ElectionServer final {
 public:
  struct Config {
    std::string id;
    std::string process;  // Unique in the world, also over restarts.
    Timestamp wall_start;
    BucketAge bucket = BucketAge::kUsed;
    std::uint64_t random_seed = 0;
    bool works = true;  // Opens intents as leader.
    std::string boot_id = "first";
  };
  // The memory of a process as a virtual machine's saved state has it.
  struct Memory {
    LeaseMachine lease;
    std::optional<JournalMachine> journal;
    Instant clock;
    WatchedStore::Doubts doubts;
    Config config;
  };

  ElectionServer(ElectionWorld& world, Config config);
  ElectionServer(ElectionWorld& world, const Memory& memory, std::string process);
  ~ElectionServer();
  ElectionServer(const ElectionServer&) = delete;
  ElectionServer& operator=(const ElectionServer&) = delete;

  void Start();
  [[nodiscard]] Memory Save() const;
  void Stop();
  // Was told to stop.
  [[nodiscard]] bool stops() const { return stops_; }

  [[nodiscard]] SimLoop& loop() { return loop_; }
  [[nodiscard]] SimObjectStore& store() { return store_; }
  [[nodiscard]] Elector& elector() { return elector_; }
  [[nodiscard]] const Config& config() const { return config_; }
  // The machine's new generation is noticed.
  void DetectRestore();
  // Came from a saved state and does not know yet.
  [[nodiscard]] bool unaware() const { return unaware_; }
  // Says that it leads: has the lease and time left.
  [[nodiscard]] bool Leads() const { return elector_.machine().Leads(ClockNow()); }
  // And has taken the journal over.
  [[nodiscard]] bool Acts() const { return Leads() && writer_ && writer_->machine().open(); }
  void set_works(bool works) { config_.works = works; }

 private:
  // What the elector takes for the monotonic clock.
  [[nodiscard]] Loop& clock() {
    if (wall_loop_) return *wall_loop_;
    return loop_;
  }
  [[nodiscard]] Instant ClockNow() const { return wall_loop_ ? wall_loop_->Now() : loop_.Now(); }
  [[nodiscard]] bool MayWrite() const;
  [[nodiscard]] LeaseMachine NewLeaseMachine() const;
  [[nodiscard]] Elector::Deps ElectorDeps();
  [[nodiscard]] Elector::Owner ElectorOwner();
  void MakeWriter(JournalMachine machine);
  void DropWriter();
  void Acquired(std::int64_t term);
  void Lost(LeaseLoss loss);
  void TookOver(std::int64_t epoch);
  void JournalLost(JournalLoss loss);
  void JournalRefused(const Error& why);
  void LeaveJournal();
  void Work();
  void OpenOne();
  void Durable(const Result<std::string>& id);
  void Begin(const std::string& intent_id);
  void TryAgain(const std::string& intent_id);
  void Finish(const std::string& intent_id);
  [[nodiscard]] Intent NewIntent();

  ElectionWorld& world_;
  Config config_;
  SimLoop loop_;
  std::unique_ptr<WallClockLoop> wall_loop_;
  SeededRandom random_;
  SimObjectStore store_;
  WatchedStore watched_;
  PlantedStore planted_;
  Prng prng_;
  Elector elector_;
  std::unique_ptr<JournalWriter> writer_;
  std::uint64_t generation_ = 0;  // Of leaderships: late answers of an earlier one are ignored.
  std::size_t open_ = 0;
  bool stops_ = false;
  bool unaware_ = false;
  Pending work_;
  std::vector<Pending> retries_;
  std::shared_ptr<ElectionServer*> self_;  // For what the world sends back: null when dead.
};

}  // namespace nstance::sim
