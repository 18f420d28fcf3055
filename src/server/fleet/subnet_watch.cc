#include "server/fleet/subnet_watch.h"

#include <utility>

namespace nstance {
namespace {

constexpr Duration kGap = Duration::Seconds(30);
constexpr Duration kGapUnknown = Duration::Minutes(10);

}  // namespace

std::optional<SubnetWatch::Room> SubnetWatch::Find(const std::string& subnet) const {
  const auto at = subnets_.find(subnet);
  return at == subnets_.end() ? std::nullopt : at->second.room;
}

void SubnetWatch::Want(const std::string& subnet) {
  const auto at = subnets_.find(subnet);
  if (at == subnets_.end()) {
    if (subnets_.size() >= kMaxSubnets) return;
    return Ask(subnet);
  }
  if (!at->second.asking && loop_.Now() >= at->second.ask_after) Ask(subnet);
}

void SubnetWatch::Ask(const std::string& subnet) {
  Subnet& asked = subnets_[subnet];
  asked.asking = true;
  asked.timer = {};
  const Instant now = loop_.Now();
  asked.call = provider_.SubnetCapacity(
      frame_(), subnet,
      [this, subnet, now](const ProviderResult<std::optional<std::uint64_t>>& answer) {
        OnAnswer(subnet, now, answer);
      });
}

void SubnetWatch::Await(const std::string& subnet) {
  Subnet& awaited = subnets_[subnet];
  if (std::exchange(awaited.awaited, true) || awaited.asking) return;
  awaited.timer = loop_.CallAt(awaited.ask_after, [this, subnet] { Ask(subnet); });
}

void SubnetWatch::OnAnswer(const std::string& subnet, Instant asked_at,
                           const ProviderResult<std::optional<std::uint64_t>>& answer) {
  Subnet& asked = subnets_.at(subnet);
  asked.asking = false;
  const bool tells = !answer.has_value() || answer->has_value();
  asked.ask_after = loop_.Now() + (tells ? kGap : kGapUnknown);
  if (answer.has_value()) {
    asked.room.reset();
    if (answer->has_value()) asked.room = Room{.free = **answer, .asked_at = asked_at};
  }
  if (std::exchange(asked.awaited, false)) changed_();
}

}  // namespace nstance
