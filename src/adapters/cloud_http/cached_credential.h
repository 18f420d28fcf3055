// CachedCredential: keeps a credential, fetches a new one before it expires, one fetch at a time.
//
// T has a member `std::optional<Timestamp> expires_at`. A fetch that fails leaves the old one in
// use until it expires; callers that have nothing to use get its error. When to fetch is decided by
// refresh_policy.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "adapters/cloud_http/refresh_policy.h"
#include "base/result.h"
#include "ports/loop.h"

namespace nstance::cloud {

template <class T>
class CachedCredential final {
 public:
  using Fetched = std::move_only_function<void(Result<T>)>;
  using Fetch = std::move_only_function<Pending(Fetched)>;
  using Done = std::move_only_function<void(Result<std::shared_ptr<const T>>)>;

  // More callers than this that wait for a first credential are answered kResourceExhausted.
  static constexpr std::size_t kMaxWaiting = 4'096;

  // `loop` outlives the cache, and the cache every Pending that it gave.
  CachedCredential(Loop& loop, Fetch fetch) : loop_(loop), fetch_(std::move(fetch)) {}

  // Answers later on the loop, with a credential that had not expired when it was asked for.
  [[nodiscard]] Pending Get(Done done) {
    const RefreshDecision decision = DecideRefresh(State(), loop_.WallNow(), loop_.Now());
    if (decision.fetch) BeginFetch();
    if (decision.use) return Answer(std::move(done), present_);
    if (waiting_.size() >= kMaxWaiting) {
      return Answer(std::move(done), Fail(ResourceExhausted("too many wait for credentials")));
    }
    const std::uint64_t id = ++last_id_;
    waiting_.emplace(id, std::move(done));
    return Pending([this, id] { waiting_.erase(id); });
  }

 private:
  [[nodiscard]] CredentialState State() const {
    return {.present = present_ != nullptr,
            .expires_at = present_ ? present_->expires_at : std::nullopt,
            .fetching = fetching_,
            .last_fetch_end = last_fetch_end_};
  }

  [[nodiscard]] Pending Answer(Done done, Result<std::shared_ptr<const T>> answer) {
    return loop_.CallAfter({}, [done = std::move(done), answer = std::move(answer)]() mutable {
      done(std::move(answer));
    });
  }

  void BeginFetch() {
    fetching_ = true;
    pending_ = fetch_([this](Result<T> fetched) { OnFetched(std::move(fetched)); });
  }

  void OnFetched(Result<T> fetched) {
    fetching_ = false;
    pending_ = Pending();
    last_fetch_end_ = loop_.Now();
    Result<std::shared_ptr<const T>> answer = Fail(Unavailable("the new credential has expired"));
    if (!fetched) {
      answer = Fail(std::move(fetched).error());
    } else if (!fetched->expires_at || loop_.WallNow() < *fetched->expires_at) {
      present_ = std::make_shared<const T>(*std::move(fetched));
      answer = present_;
    }
    // An answer may ask again, or end what others wait for: those that wait now, one by one.
    for (const std::uint64_t last = last_id_; !waiting_.empty();) {
      const auto first = waiting_.begin();
      if (first->first > last) break;
      Done done = std::move(first->second);
      waiting_.erase(first);
      done(answer);
    }
  }

  Loop& loop_;
  Fetch fetch_;
  std::shared_ptr<const T> present_;
  bool fetching_ = false;
  Instant last_fetch_end_ = Instant::FromClock(Duration::Min() / 2);
  std::map<std::uint64_t, Done> waiting_;  // In the order of their calls.
  std::uint64_t last_id_ = 0;
  Pending pending_;
};

}  // namespace nstance::cloud
