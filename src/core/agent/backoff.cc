#include "core/agent/backoff.h"

#include <algorithm>

namespace nstance::agent {
namespace {

constexpr Duration kFirstStep = Duration::Milliseconds(500);
constexpr Duration kLongLife = Duration::Seconds(30);
constexpr Duration kFirstWait = Duration::Seconds(1);
constexpr Duration kEarlyOutage = Duration::Seconds(60);
constexpr Duration kEarlyCap = Duration::Seconds(2);
constexpr Duration kLateCap = Duration::Seconds(30);
constexpr Duration kRefusedCap = Duration::Seconds(60);
constexpr Duration kUnimplementedCap = Duration::Minutes(5);
constexpr Duration kReplacedWait = Duration::Seconds(5);

Duration CapOf(std::optional<Code> code, Duration outage) {
  switch (code.value_or(Code::kUnavailable)) {
    case Code::kUnauthenticated:
    case Code::kPermissionDenied: return kRefusedCap;
    case Code::kUnimplemented: return kUnimplementedCap;
    default: return outage < kEarlyOutage ? kEarlyCap : kLateCap;
  }
}

}  // namespace

Duration Jittered(Duration length, Prng& jitter) { return (length / 2) + jitter.UpTo(length); }

Duration Doubled(int n, Duration cap) {
  Duration length = kFirstStep;
  for (int i = 0; i < n && length < cap; ++i) length = length * 2;
  return std::min(length, cap);
}

Duration Backoff::Ended(Instant now, std::optional<Code> code, Prng& jitter) {
  const bool lived = opened_at_.has_value() && now - *opened_at_ >= kLongLife;
  opened_at_.reset();
  Duration wait;
  if (lived) {
    failures_ = 0;
    outage_since_ = now;
    wait = jitter.UpTo(kFirstWait);
  } else {
    if (!outage_since_) outage_since_ = now;
    wait = Jittered(Doubled(failures_++, CapOf(code, now - *outage_since_)), jitter);
  }
  return code == Code::kAborted ? std::max(wait, kReplacedWait) : wait;
}

}  // namespace nstance::agent
