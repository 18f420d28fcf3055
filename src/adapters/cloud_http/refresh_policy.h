// RefreshPolicy: when a credential that expires is used, and when a new one is fetched. Pure.
#pragma once

#include <optional>

#include "base/time.h"

namespace nstance::cloud {

// A new one is asked for this long before the old one ends.
inline constexpr Duration kRefreshBefore = Duration::Minutes(5);
// Between two fetches while the old one is still good, after one that did not help.
inline constexpr Duration kRefreshPause = Duration::Seconds(20);

struct CredentialState {
  bool present = false;
  std::optional<Timestamp> expires_at = {};  // Empty: never.
  bool fetching = false;
  Instant last_fetch_end = {};  // When the last fetch ended, if one did since the present one came.
};

struct RefreshDecision {
  bool use = false;    // The present one may be used.
  bool fetch = false;  // Begin a fetch. Never while one is under way.
};

// Guarantees, each held by a test:
//   - an expired credential is never used; one that is present and not expired always is
//   - without a usable one a fetch is begun at once
//   - with a usable one a fetch is begun in its last kRefreshBefore, at most every kRefreshPause
//   - at most one fetch is under way
[[nodiscard]] RefreshDecision DecideRefresh(const CredentialState& state, Timestamp wall,
                                            Instant now);

}  // namespace nstance::cloud
