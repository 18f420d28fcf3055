#include "server/services/identity_keys.h"

#include <utility>

#include "core/object_layout.h"
#include "core/operator_record.h"

namespace nstance {
namespace {

constexpr Duration kRecent = Duration::Minutes(1);
// A store that does not answer is not asked for every join.
constexpr Duration kRetry = Duration::Seconds(5);

}  // namespace

struct IdentityKeys::Holding {
  std::shared_ptr<Claims> claims;
  std::string name;

  Holding(std::shared_ptr<Claims> all, std::string of)
      : claims(std::move(all)), name(std::move(of)) {}
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() { claims->erase(name); }
};

KeyClaim IdentityKeys::Claim(const crypto::PublicKey& key, std::string_view who) {
  const std::string name = OperatorStorageKey(key);
  if (const auto at = claims_->find(name); at != claims_->end()) {
    return at->second.who == who ? at->second.claim.lock() : nullptr;
  }
  KeyClaim claim = std::make_shared<const Holding>(claims_, name);
  claims_->try_emplace(name, Claimed{.who = std::string(who), .claim = claim});
  return claim;
}

IdentityKeys::Tenants IdentityKeys::HoldersOf(const std::string& name) const {
  const auto at = holders_.find(name);
  return at == holders_.end() ? Tenants() : at->second;
}

void IdentityKeys::FindOperators(const crypto::PublicKey& key, KeyNews news, Done done) {
  Question question = {.name = OperatorStorageKey(key), .done = std::move(done)};
  if (news == KeyNews::kRecent) {
    const Instant now = loop_.Now();
    const bool known = listed_at_ && now - *listed_at_ < kRecent;
    const bool broken = failed_at_ && now - *failed_at_ < kRetry;
    if (known || broken) return question.done(HoldersOf(question.name));
    // What is known must do when nothing newer comes.
    question.done = [this, name = question.name,
                     then = std::move(question.done)](const Result<Tenants>& tenants) {
      then(tenants.has_value() ? *tenants : HoldersOf(name));
    };
    if (listing_) {
      asked_.push_back(std::move(question));
      return;
    }
  }
  waiting_.push_back(std::move(question));
  if (!listing_) StartListing();
}

void IdentityKeys::Note(const crypto::PublicKey& key, const TenantId& tenant) {
  holders_[OperatorStorageKey(key)].insert(tenant);
}

void IdentityKeys::StartListing() {
  listing_ = true;
  asked_ = std::exchange(waiting_, {});
  found_.clear();
  ListNext({});
}

void IdentityKeys::ListNext(std::string page_token) {
  call_ = store_.List({.prefix = "operator/", .page_token = std::move(page_token)},
                      [this](const Result<ListPage>& page) { OnPage(page); });
}

void IdentityKeys::OnPage(const Result<ListPage>& page) {
  if (!page.has_value()) return EndListing(Fail(page.error()));
  for (const ListedObject& object : page->objects) {
    const Result<OperatorName> name = ParseOperatorKey(object.key);
    if (name.has_value()) found_[name->storage_key].insert(name->tenant);
  }
  if (page->next_page_token.empty()) return EndListing({});
  ListNext(page->next_page_token);
}

void IdentityKeys::EndListing(const Status& listed) {
  if (listed.has_value()) {
    holders_ = std::exchange(found_, {});
    listed_at_ = loop_.Now();
    failed_at_.reset();
  } else {
    failed_at_ = loop_.Now();
  }
  listing_ = false;
  const std::vector<Question> asked = std::exchange(asked_, {});
  if (!waiting_.empty()) StartListing();
  for (const Question& question : asked) {
    if (listed.has_value()) {
      question.done(HoldersOf(question.name));
    } else {
      question.done(Fail(Unavailable("the operators cannot be listed: " + listed.error().message)));
    }
  }
}

}  // namespace nstance
