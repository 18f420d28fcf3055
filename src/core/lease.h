// The lease record and its timing: the bytes of `leader/{shard}.json` and `leader/cluster.json`.
//
//   {"leaderID","leaderAddr","lastUpdated","incarnation","term","lease_ms","released","write_id",
//    "checksum"}
//
// The first three keys are those of the Go implementation, with its spelling. Readers keep unknown
// keys on rewrite and accept a record without checksum. A record that another program wrote (no
// incarnation, no lease time) is `foreign`; anything else that is not such a record is `corrupt`.
// Neither is an error: a follower waits one full lease of unchanged bytes and then overwrites it by
// compare-and-swap.
//
// The lease only makes it likely that there is one leader. That at most one leader's writes take
// effect is the journal's promise (core/journal.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "base/time.h"

namespace nstance {

// How long things take, on the monotonic clock of whoever measures.
struct LeaseTimings {
  static constexpr Duration kMinRenew = Duration::Milliseconds(500);
  static constexpr Duration kMaxRenew = Duration::Seconds(60);
  // Also the longest lease that a record may ask a follower to wait for.
  static constexpr Duration kMaxLease = Duration::Minutes(10);

  // A holder writes, and a follower reads, once in this time.
  Duration renew = Duration::Seconds(2);
  // A follower takes a lease whose bytes it has seen unchanged for this long.
  Duration lease = Duration::Seconds(8);
  // A holder stops this much before a follower could start.
  Duration margin = Duration::Seconds(2);
  // The longest that one storage call takes.
  Duration store_timeout = Duration::Seconds(3);
  // A holder that has not taken over by then gives the lease back.
  Duration take_over_limit = Duration::Seconds(60);

  friend bool operator==(const LeaseTimings&, const LeaseTimings&) = default;
};

// The timings for a configured renew interval, lease and storage time-out, or what is wrong with
// them: renew 500 ms to 60 s; lease at least three times renew and at most 10 min; store_timeout
// below 3/4 lease - renew, so that a renewal which times out can still be made good. The margin is
// a quarter of the lease.
struct LeaseSettings {
  Duration renew = Duration::Seconds(2);
  Duration lease = Duration::Seconds(8);
  Duration store_timeout = Duration::Seconds(3);
};
[[nodiscard]] Result<LeaseTimings> MakeLeaseTimings(const LeaseSettings& settings);

// `send_timeout` of faults.md 1 under a lease of that length: 2 s, and less where so long an effect
// could begin only right after a renewal.
[[nodiscard]] constexpr Duration SendTimeout(Duration lease) {
  const Duration by_lease = (lease * 3) / 8;
  return by_lease < Duration::Seconds(2) ? by_lease : Duration::Seconds(2);
}

// Whether an effect that takes at most `bound` ends before the lease does: effects start only then.
[[nodiscard]] constexpr bool MayStart(Instant now, Duration bound, Instant lease_deadline) {
  return now + bound < lease_deadline;
}

struct LeaseRecord {
  std::string leader_id;
  std::string leader_addr;
  Timestamp last_updated;   // The writer's clock; information only. GoZero() when released.
  std::string incarnation;  // 16 hex digits, new for every process.
  std::int64_t term = 0;    // Rises with every acquisition.
  Duration lease;           // The holder's; whole milliseconds.
  bool released = false;
  std::string write_id;
  json::Object unknown;  // Kept on rewrite, after the known keys.

  friend bool operator==(const LeaseRecord&, const LeaseRecord&) = default;
};

// The record's bytes, checksum last.
// REQUIRES: texts are valid UTF-8; `unknown` has none of our keys.
[[nodiscard]] std::string EncodeLease(const LeaseRecord& record);

enum class LeaseForm : std::uint8_t {
  kValid,
  kForeign,  // Another program's: it names a leader and lacks what is ours.
  kCorrupt,  // Not JSON, wrong checksum, or values that no writer of ours makes.
};

struct DecodedLease {
  LeaseForm form = LeaseForm::kCorrupt;
  LeaseRecord record;  // kValid only.
  std::string flaw;    // Otherwise: what is wrong, for people.
};

// Total: any bytes are allowed.
[[nodiscard]] DecodedLease DecodeLease(std::string_view bytes);

}  // namespace nstance
