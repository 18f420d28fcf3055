#include "server/type_archs.h"

#include <algorithm>
#include <utility>

namespace nstance {
namespace {

constexpr Duration kAskUnknownAgain = Duration::Minutes(10);
constexpr Duration kAskBrokenAgain = Duration::Seconds(30);

}  // namespace

std::optional<config::Arch> TypeArchs::Find(std::string_view type) const {
  const auto at = types_.find(type);
  return at == types_.end() ? std::nullopt : at->second.arch;
}

bool TypeArchs::IsDue(const std::string& type) const {
  const auto at = types_.find(type);
  if (at == types_.end()) return true;
  return !at->second.asking && !at->second.arch && loop_.Now() >= at->second.ask_after;
}

bool TypeArchs::Settled(const Types& types) const {
  return std::ranges::none_of(types, [this](const std::string& type) {
    const auto at = types_.find(type);
    return IsDue(type) || (at != types_.end() && at->second.asking);
  });
}

Pending TypeArchs::Learn(const Types& types, Task then) {
  const std::uint64_t number = next_++;
  std::size_t left = 0;
  for (const std::string& type : types) {
    if (!Ask(type)) continue;
    types_.at(type).waiters.push_back(number);
    ++left;
  }
  if (left == 0) return loop_.CallAfter({}, std::move(then));
  waiters_.try_emplace(number, Waiter{.left = left, .then = std::move(then)});
  return Pending([this, number] { waiters_.erase(number); });
}

bool TypeArchs::Ask(const std::string& type) {
  if (!IsDue(type)) {
    const auto at = types_.find(type);
    return at != types_.end() && at->second.asking;
  }
  if (questions_ >= kMaxQuestions) return false;
  std::erase(answered_, type);
  if (!types_.contains(type) && types_.size() >= kMaxTypes) ForgetOldest();
  Type& asked = types_[type];
  asked.asking = true;
  ++questions_;
  asked.call = provider_.InstanceTypeArch(
      {.epoch = epoch_, .deadline = loop_.Now() + kAnswerLimit}, type,
      [this, type](const ProviderResult<std::optional<config::Arch>>& answer) {
        OnAnswer(type, answer);
      });
  return true;
}

void TypeArchs::ForgetOldest() {
  if (answered_.empty()) return;
  types_.erase(answered_.front());
  answered_.pop_front();
}

void TypeArchs::OnAnswer(const std::string& type,
                         const ProviderResult<std::optional<config::Arch>>& answer) {
  Type& asked = types_.at(type);
  asked.asking = false;
  --questions_;
  if (answer.has_value()) asked.arch = *answer;
  asked.ask_after = loop_.Now() + (answer.has_value() ? kAskUnknownAgain : kAskBrokenAgain);
  answered_.push_back(type);
  for (const std::uint64_t number : std::exchange(asked.waiters, {})) {
    const auto at = waiters_.find(number);
    if (at == waiters_.end() || --at->second.left > 0) continue;
    Task then = std::move(at->second.then);
    waiters_.erase(at);
    then();
  }
}

}  // namespace nstance
