// SimFiles and SimFileSystem: a simulated disk that SQLite works on, by way of its VFS interface.
//
// SimFiles are the files: a value, so an old disk is a copy. They outlive the processes that use
// them and remember what was not synced, so that a machine may lose its power. SimFileSystem is one
// process's way to them: calls fail, a full disk takes a part of a write, bytes are stored wrong,
// and the process may die at any write, after which nothing that it does reaches the disk. What is
// drawn comes from the seed alone: SQLite makes the same calls in the same order.
//
// Names are one folder's. One process at a time has the files open. Files that are assigned to or
// cleared while they are open are, to whoever has them open, unlinked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"

namespace nstance::sim {

struct SimFile {
  // One write or truncation since the last sync, with what was there before it.
  struct Change {
    std::size_t at = 0;
    std::size_t length = 0;  // 0: a truncation to `at`.
    std::size_t size_before = 0;
    std::string before = {};
  };
  std::string bytes = {};
  std::vector<Change> unsynced = {};

  void Write(std::size_t at, std::string_view data);
  void Truncate(std::size_t size);
  void Sync() { unsynced.clear(); }
  // Of each change since the last sync: all of it, the first of its sectors, or nothing is left.
  void LosePower(Prng& prng);
};

class SimFiles final {
 public:
  SimFiles() = default;
  SimFiles(const SimFiles& other) { *this = other; }
  SimFiles& operator=(const SimFiles& other);
  SimFiles(SimFiles&&) noexcept = default;
  SimFiles& operator=(SimFiles&&) noexcept = default;
  ~SimFiles() = default;

  // Null: there is none of this name.
  [[nodiscard]] std::shared_ptr<SimFile> Find(std::string_view name) const;
  [[nodiscard]] std::shared_ptr<SimFile> FindOrMake(std::string_view name);
  void Remove(std::string_view name);
  [[nodiscard]] bool empty() const { return files_.empty(); }

  // The machine loses its power.
  void LosePower(Prng& prng);
  // A few bytes of one file change, or its end is lost.
  void Damage(Prng& prng);

 private:
  std::map<std::string, std::shared_ptr<SimFile>, std::less<>> files_;
};

// In ten thousand calls.
struct SimFileFaults {
  std::uint32_t read_error = 0;
  std::uint32_t write_error = 0;  // Also of truncating, syncing and removing.
  std::uint32_t full = 0;         // A part is written.
  std::uint32_t rot = 0;          // Written, and a byte of it is wrong.
  std::uint32_t death = 0;        // The process dies at a change, which happens in part.
};

class SimFileSystem final {
 public:
  // Faults and `broken` (every call fails) are looked at with each call.
  struct Deps {
    SimFiles& files;
    const SimFileFaults& faults;
    const bool& broken;
    std::uint64_t seed = 0;
  };
  // All of `deps` outlives it; it outlives every connection that is opened on it.
  explicit SimFileSystem(const Deps& deps);
  SimFileSystem(const SimFileSystem&) = delete;
  SimFileSystem& operator=(const SimFileSystem&) = delete;
  ~SimFileSystem();

  // What SQLite knows it by.
  [[nodiscard]] const std::string& name() const;
  // Returns whether it was removed, or was not there.
  [[nodiscard]] bool Remove(std::string_view file);

  // From now on nothing reaches the disk: the process is about to be destroyed.
  void Die();
  [[nodiscard]] bool dead() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nstance::sim
