// SimAgentDisk and SimAgentFiles: ports/agent_files.h in memory, with faults.
//
// The disk outlives the process that uses it: destroy the SimAgentFiles (and the agent) and make
// new ones on the same disk, and that is a restart. Changes are counted, so that a test can let the
// process die at each of them: from `die_at` on nothing changes the disk any more and every call
// fails; the test looks at dead() after every task and destroys the process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ports/agent_files.h"

namespace nstance::sim {

class SimAgentDisk final {
 public:
  std::map<std::string, std::string, std::less<>> files = {};
  Timestamp changed_at = {};  // Of every file.
  // A file was replaced.
  std::function<void(std::string_view name, std::string_view bytes)> on_replaced = {};

  // The process dies at this change (counted from 1 over the disk's life), before or after it.
  enum class Death : std::uint8_t { kBefore, kAfter };
  std::optional<std::int64_t> die_at = std::nullopt;
  Death death = Death::kBefore;
  // Told in the middle of the process's task.
  std::function<void()> on_death = {};
  // While set, every change fails with it and happens not at all.
  std::optional<Error> refuse = std::nullopt;

  [[nodiscard]] std::int64_t changes() const { return changes_; }
  [[nodiscard]] bool dead() const { return dead_; }
  void Revive() {
    dead_ = false;
    die_at.reset();
    on_death = {};
  }

  template <class Change>
  [[nodiscard]] Status Apply(Change change) {
    if (dead_) return Fail(Unavailable("dead"));
    if (refuse) return Fail(*refuse);
    dead_ = ++changes_ == die_at;
    if (dead_ && on_death) on_death();
    if (dead_ && death == Death::kBefore) return Fail(Unavailable("dead"));
    return change();
  }

 private:
  std::int64_t changes_ = 0;
  bool dead_ = false;
};

class SimAgentFiles final : public AgentFiles {
 public:
  explicit SimAgentFiles(SimAgentDisk& disk) : disk_(disk) {}

  [[nodiscard]] std::string PathOf(std::string_view name) const override {
    return "disk/" + std::string(name);
  }
  [[nodiscard]] Result<std::optional<std::string>> Read(std::string_view name) override {
    if (disk_.dead()) return Fail(Unavailable("dead"));
    const auto at = disk_.files.find(name);
    if (at == disk_.files.end()) return std::nullopt;
    if (at->second.size() > kMaxFileBytes) return Fail(ResourceExhausted("too large"));
    return at->second;
  }
  [[nodiscard]] Status Replace(std::string_view name, std::string_view bytes) override {
    return disk_.Apply([&]() -> Status {
      disk_.files.insert_or_assign(std::string(name), std::string(bytes));
      if (disk_.on_replaced) disk_.on_replaced(name, bytes);
      return {};
    });
  }
  [[nodiscard]] Status Move(std::string_view from, std::string_view to) override {
    return disk_.Apply([&]() -> Status {
      const auto at = disk_.files.find(from);
      if (at == disk_.files.end()) return Fail(NotFound("there is no " + PathOf(from)));
      disk_.files.insert_or_assign(std::string(to), at->second);
      disk_.files.erase(disk_.files.find(from));
      return {};
    });
  }
  [[nodiscard]] Status Remove(std::string_view name) override {
    if (!disk_.dead() && !disk_.files.contains(name)) return {};
    return disk_.Apply([&]() -> Status {
      disk_.files.erase(disk_.files.find(name));
      return {};
    });
  }
  [[nodiscard]] Result<std::map<std::string, Timestamp>> List() override {
    if (disk_.dead()) return Fail(Unavailable("dead"));
    std::map<std::string, Timestamp> listed;
    for (const auto& [name, bytes] : disk_.files) {
      if (name.starts_with('.') || listed.size() >= kMaxListed) continue;
      listed.emplace(name, disk_.changed_at.TruncatedToSecond());
    }
    return listed;
  }

 private:
  SimAgentDisk& disk_;
};

}  // namespace nstance::sim
