// IdentityKeys: a public key may belong to one identity only (security.md J8).
//
// Who holds a key is known from three places: the fleet's table (instances of this shard), the
// names of the operator records of the whole cluster (every key that an operator has ever had gave
// a record its name, whatever the tenant), and what is about to be registered by this leader.
//
//   const KeyClaim claim = keys.Claim(key, id.text());   // Not null: nobody else asks for it now.
//   keys.FindOperators(key, KeyNews::kRecent, [](const auto& tenants) { ... });
//
// Operators are registered by the leaders of all shards, so their names are listed. For operators
// the listing begins after the question; whoever then also looks after it has written its own
// record cannot miss another who did the same: of two at most one goes on. For agents, whose joins
// come in storms, a listing of the last minute is good enough, and none at all when the store does
// not answer: what they could gain is a certificate that the holder of the operator's key can use.
//
// Not seen: instances of other shards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "crypto/ed25519.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"

namespace nstance {

enum class KeyNews : std::uint8_t {
  kFresh,   // What was there when the question was asked; an error when the store does not answer.
  kRecent,  // At most a minute old; never an error.
};

// Lasts as long as it is held; may be held by several calls of the same identity at once.
using KeyClaim = std::shared_ptr<const void>;

class IdentityKeys final {
 public:
  using Tenants = std::set<TenantId>;
  using Done = std::function<void(const Result<Tenants>&)>;

  // Both outlive it.
  IdentityKeys(Loop& loop, ObjectStore& cluster_store) : loop_(loop), store_(cluster_store) {}
  IdentityKeys(const IdentityKeys&) = delete;
  IdentityKeys& operator=(const IdentityKeys&) = delete;

  // Null: another asks for the same key at this moment. `who` names the identity.
  [[nodiscard]] KeyClaim Claim(const crypto::PublicKey& key, std::string_view who);

  // The tenants whose operator records have the key's name. `done` may be called from inside.
  void FindOperators(const crypto::PublicKey& key, KeyNews news, Done done);
  // This leader has given the key to an operator: no need to wait for a listing to know it.
  void Note(const crypto::PublicKey& key, const TenantId& tenant);

 private:
  struct Question {
    std::string name;
    Done done;
  };
  struct Claimed {
    std::string who;
    std::weak_ptr<const void> claim = {};
  };
  using Claims = std::map<std::string, Claimed>;
  // Takes the claim out as it goes; may outlive this object.
  struct Holding;

  void StartListing();
  void ListNext(std::string page_token);
  void OnPage(const Result<ListPage>& page);
  void EndListing(const Status& listed);
  [[nodiscard]] Tenants HoldersOf(const std::string& name) const;

  Loop& loop_;
  ObjectStore& store_;
  std::shared_ptr<Claims> claims_ = std::make_shared<Claims>();
  std::map<std::string, Tenants> holders_;  // By the record's storage key, as last listed.
  std::map<std::string, Tenants> found_;    // Of the listing under way.
  std::optional<Instant> listed_at_ = std::nullopt;
  std::optional<Instant> failed_at_ = std::nullopt;
  bool listing_ = false;
  std::vector<Question> asked_;    // Answered by the listing under way.
  std::vector<Question> waiting_;  // By the next one.
  Pending call_;
};

}  // namespace nstance
