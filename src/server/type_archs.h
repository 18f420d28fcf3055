// TypeArchs: which architecture instance types have, by the provider's word.
//
//   if (types.Settled({"m7g.large"})) return Go();              // Nothing to ask.
//   learning_ = types.Learn({"m7g.large"}, [this] { Go(); });
//   if (const auto arch = types.Find("m7g.large")) ...          // Empty: nobody knows.
//
// Judging a group or an instance is a function that cannot wait, so whoever is about to judge one
// lets the types be learnt first. An answer is kept for good, since a type does not change;
// "unknown" is asked again after ten minutes, and an error, which is no evidence, after 30 s. A
// provider that does not answer holds nobody up for longer than five seconds, and what is not known
// is not refused: the provider itself has the last word.
//
// Bounded: 1,024 types are kept (the oldest answer goes first), and 64 questions are under way;
// what is asked beyond is not known. So operators that make types up cost a fixed amount.
//
// Guarantees, each held by a test:
//   - a type is asked about once, however many want to know it at the same time
//   - `then` runs once, in a later turn, unless its Pending is dropped
//   - destroying it leaves no callback
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/config/config.h"
#include "ports/loop.h"
#include "ports/pending.h"
#include "ports/provider.h"

namespace nstance {

class TypeArchs final {
 public:
  static constexpr Duration kAnswerLimit = Duration::Seconds(5);
  static constexpr std::size_t kMaxTypes = 1'024;
  static constexpr std::size_t kMaxQuestions = 64;

  // Both outlive it.
  TypeArchs(Loop& loop, Provider& provider, std::int64_t epoch)
      : loop_(loop), provider_(provider), epoch_(epoch) {}
  TypeArchs(const TypeArchs&) = delete;
  TypeArchs& operator=(const TypeArchs&) = delete;

  using Types = std::vector<std::string>;
  // Whether all that can be known of them now is known.
  [[nodiscard]] bool Settled(const Types& types) const;
  // `then` may not destroy this object, which must outlive the Pending.
  [[nodiscard]] Pending Learn(const Types& types, Task then);
  [[nodiscard]] std::optional<config::Arch> Find(std::string_view type) const;

  // Types that are kept, answered or asked about.
  [[nodiscard]] std::size_t size() const { return types_.size(); }

 private:
  struct Type {
    std::optional<config::Arch> arch = std::nullopt;
    Instant ask_after = {};
    bool asking = false;
    std::vector<std::uint64_t> waiters = {};
    Pending call = {};
  };
  struct Waiter {
    std::size_t left = 0;
    Task then = {};
  };

  [[nodiscard]] bool IsDue(const std::string& type) const;
  // Whether its answer is to be waited for.
  [[nodiscard]] bool Ask(const std::string& type);
  void OnAnswer(const std::string& type, const ProviderResult<std::optional<config::Arch>>& answer);
  void ForgetOldest();

  Loop& loop_;
  Provider& provider_;
  std::int64_t epoch_;
  std::map<std::string, Type, std::less<>> types_;
  std::deque<std::string> answered_;  // The oldest first.
  std::map<std::uint64_t, Waiter> waiters_;
  std::uint64_t next_ = 1;
  std::size_t questions_ = 0;
};

}  // namespace nstance
