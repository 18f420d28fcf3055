// SubnetWatch: how much room the subnets have, by the provider's word.
//
//   watch.Want("subnet-1");                          // Something is made there.
//   if (const auto room = watch.Find("subnet-1")) full = room->free <= made_since(room->asked_at);
//
// A subnet that is wanted is asked about at most every 30 s; one that is awaited is asked about by
// itself, so that a group that waits for room is planned when there may be some. A provider that
// cannot tell is left alone for ten minutes. An error is no evidence: the last word holds, and it
// is asked again after 30 s.
//
// Guarantees, each held by a test:
//   - what the provider cannot tell is not full
//   - `changed` is told of every answer that was awaited, in a turn of its own
//   - destroying it leaves no timer and no callback
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "ports/loop.h"
#include "ports/pending.h"
#include "ports/provider.h"

namespace nstance {

class SubnetWatch final {
 public:
  struct Room {
    std::uint64_t free = 0;
    Instant asked_at = {};  // VMs made later may not be counted in it.
  };
  // Makes the frame (epoch, deadline) of a call.
  using Frame = std::move_only_function<ProviderCall()>;

  // Both outlive it. `changed` may not destroy it.
  SubnetWatch(Loop& loop, Provider& provider, Frame frame, std::move_only_function<void()> changed)
      : loop_(loop), provider_(provider), frame_(std::move(frame)), changed_(std::move(changed)) {}
  SubnetWatch(const SubnetWatch&) = delete;
  SubnetWatch& operator=(const SubnetWatch&) = delete;

  void Want(const std::string& subnet);
  // There is no room: `changed` is told after the next answer.
  void Await(const std::string& subnet);
  // Whether it was ever wanted.
  [[nodiscard]] bool Asked(const std::string& subnet) const { return subnets_.contains(subnet); }
  // Empty: not known, or no limit.
  [[nodiscard]] std::optional<Room> Find(const std::string& subnet) const;

 private:
  struct Subnet {
    std::optional<Room> room = std::nullopt;
    Instant ask_after = {};
    bool asking = false;
    bool awaited = false;
    Pending call = {};
    Pending timer = {};
  };

  void Ask(const std::string& subnet);
  void OnAnswer(const std::string& subnet, Instant asked_at,
                const ProviderResult<std::optional<std::uint64_t>>& answer);

  static constexpr std::size_t kMaxSubnets = 10'000;

  Loop& loop_;
  Provider& provider_;
  Frame frame_;
  std::move_only_function<void()> changed_;
  std::map<std::string, Subnet> subnets_;
};

}  // namespace nstance
