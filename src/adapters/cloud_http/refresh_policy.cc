#include "adapters/cloud_http/refresh_policy.h"

namespace nstance::cloud {

RefreshDecision DecideRefresh(const CredentialState& state, Timestamp wall, Instant now) {
  const bool use = state.present && (!state.expires_at || wall < *state.expires_at);
  if (state.fetching) return {.use = use, .fetch = false};
  if (!use) return {.use = false, .fetch = true};
  const bool ending = state.expires_at && *state.expires_at - wall <= kRefreshBefore;
  return {.use = true, .fetch = ending && now >= state.last_fetch_end + kRefreshPause};
}

}  // namespace nstance::cloud
