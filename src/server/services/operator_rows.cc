#include "server/services/operator_rows.h"

#include <vector>

#include "base/text.h"
#include "crypto/ed25519.h"

namespace nstance {
namespace {

constexpr Duration kRetry = Duration::Seconds(30);
// A disk that fails again and again does not cost every record each time.
constexpr Duration kRefillDelay = Duration::Seconds(10);

}  // namespace

void OperatorRows::Start() {
  if (deps_.cache == nullptr) return;
  watch_ = deps_.cache->Watch([this] { ReadLater(kRefillDelay); });
  Read();
}

void OperatorRows::ReadLater(Duration delay) {
  timer_ = deps_.loop.CallAfter(delay, [this] { Read(); });
}

// Rows before records: one that is written in between is in neither list, and stays.
void OperatorRows::Read() {
  reading_ = true;
  keys_.clear();
  written_.clear();
  call_ = deps_.cache->Load([this](const cache::Contents& rows) { OnLoaded(rows); });
}

void OperatorRows::OnLoaded(const cache::Contents& rows) {
  stale_.clear();
  for (const cache::OperatorRow& row : rows.operators) {
    Key key = {row.tenant, row.storage_key};
    if (!written_.contains(key)) stale_.insert(std::move(key));
  }
  List({});
}

void OperatorRows::List(std::string page_token) {
  call_ = deps_.store.List({.prefix = "operator/", .page_token = std::move(page_token)},
                           [this](const Result<ListPage>& page) { OnPage(page); });
}

void OperatorRows::OnPage(const Result<ListPage>& page) {
  if (!page.has_value()) return ReadLater(kRetry);
  for (const ListedObject& object : page->objects) {
    if (!ParseOperatorKey(object.key).has_value()) continue;
    keys_.push_back(object.key);
  }
  if (!page->next_page_token.empty()) return List(page->next_page_token);
  NextRecord();
}

void OperatorRows::NextRecord() {
  if (keys_.empty()) return EraseStale();
  call_ =
      deps_.store.Get(keys_.front(), [this](const Result<Object>& object) { OnRecord(object); });
}

void OperatorRows::OnRecord(const Result<Object>& object) {
  if (!object.has_value() && object.error().code != Code::kNotFound) return ReadLater(kRetry);
  const OperatorName name = *ParseOperatorKey(keys_.front());
  if (object.has_value() && !written_.contains({name.tenant, name.storage_key})) {
    const Result<OperatorRecord> record = DecodeOperatorRecord(object->bytes);
    if (record.has_value()) Put(name, *record);
  }
  keys_.pop_front();
  NextRecord();
}

void OperatorRows::EraseStale() {
  reading_ = false;
  written_.clear();
  std::vector<cache::Change> changes;
  for (const auto& [tenant, storage_key] : std::exchange(stale_, {})) {
    changes.emplace_back(cache::EraseOperator{.tenant = tenant, .storage_key = storage_key});
  }
  if (!changes.empty()) deps_.cache->Write(std::move(changes));
}

void OperatorRows::Write(const OperatorName& name, const OperatorRecord& record) {
  if (deps_.cache == nullptr) return;
  if (reading_) written_.emplace(name.tenant, name.storage_key);
  Put(name, record);
}

void OperatorRows::Put(const OperatorName& name, const OperatorRecord& record) {
  const Result<crypto::PublicKey> key = crypto::PublicKey::FromPem(record.public_key_pem);
  if (!key.has_value()) return;
  stale_.erase({name.tenant, name.storage_key});
  std::vector<cache::Change> changes;
  changes.emplace_back(cache::OperatorRow{.tenant = name.tenant,
                                          .storage_key = name.storage_key,
                                          .public_key_sha256 = HexEncode(key->SpkiSha256()),
                                          .registered_at = record.registered_at,
                                          .expires_at = record.expires_at});
  deps_.cache->Write(std::move(changes));
}

}  // namespace nstance
