#include "server/cluster_sweep.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "core/operator_record.h"
#include "core/stored_object.h"

namespace nstance {
namespace {

constexpr Duration kIdleInterval = Duration::Hours(1);
constexpr std::size_t kPage = 200;
constexpr std::size_t kMaxFirstSeen = 10'000;

// The latest `expires_at` of a certificate log entry.
Result<Timestamp> LastExpiry(std::string_view bytes) {
  ASSIGN_OR_RETURN(const json::Value entry, json::Parse(bytes));
  const json::Value* list = entry.Find("certificates");
  if (list == nullptr || list->if_array() == nullptr || list->if_array()->empty()) {
    return Fail(InvalidArgument("certificates: missing or empty"));
  }
  std::optional<Timestamp> last;
  for (const json::Value& certificate : *list->if_array()) {
    if (certificate.if_object() == nullptr) {
      return Fail(InvalidArgument("certificates: an entry is no object"));
    }
    ASSIGN_OR_RETURN(const Timestamp at, ObjectReader(certificate).Time("expires_at"));
    last = last ? std::max(*last, at) : at;
  }
  return *last;
}

}  // namespace

void ClusterSweep::Later() {
  const Duration interval = owner_.terms().interval;
  timer_ =
      deps_.loop.CallAfter(interval == Duration() ? kIdleInterval : interval, [this] { Begin(); });
}

void ClusterSweep::Begin() {
  if (!owner_.leads()) return Later();
  removals_ = 0;
  for (auto& [kind, place] : places_) place.looked = 0;
  kind_ = Kind::kNonces;
  List();
}

void ClusterSweep::NextKind() {
  switch (kind_) {
    case Kind::kNonces: kind_ = Kind::kOperators; break;
    case Kind::kOperators: kind_ = Kind::kLogs; break;
    case Kind::kLogs: return End();
  }
  List();
}

void ClusterSweep::List() {
  const auto prefix = [](Kind kind) {
    if (kind == Kind::kNonces) return "operator-nonce/";
    return kind == Kind::kOperators ? "operator/" : "certlog/";
  };
  call_ =
      store().List({.prefix = prefix(kind_), .page_token = places_[kind_].page, .page_size = kPage},
                   [this](Result<ListPage> page) { OnPage(std::move(page)); });
}

void ClusterSweep::OnPage(Result<ListPage> page) {
  if (!page.has_value()) {
    deps_.log.Warning("old objects cannot be listed", {{"error", page.error()}});
    // A page token may have become invalid: from the beginning next time.
    places_[kind_].page.clear();
    return End();
  }
  next_page_ = std::move(page->next_page_token);
  for (ListedObject& object : page->objects) keys_.push_back(std::move(object.key));
  NextObject();
}

void ClusterSweep::NextObject() {
  Place& place = places_[kind_];
  if (keys_.empty()) {
    place.page = next_page_;
    if (place.page.empty() || place.looked >= kLooks) return NextKind();
    return List();
  }
  if (removals_ >= kRemovals) {
    keys_.clear();  // This page again.
    return End();
  }
  ++place.looked;
  call_ = store().Get(keys_.front(), [this](const Result<Object>& object) { OnObject(object); });
}

void ClusterSweep::OnObject(const Result<Object>& object) {
  if (!object.has_value() && object.error().code != Code::kNotFound) {
    deps_.log.Warning("an old object cannot be read",
                      {{"key", keys_.front().text()}, {"error", object.error()}});
    return End();
  }
  if (object.has_value()) {
    const Result<bool> over = IsOver(*object);
    if (!over.has_value()) {
      deps_.log.Warning("an object does not read and stays",
                        {{"key", keys_.front().text()}, {"error", over.error()}});
    } else if (*over) {
      return Remove(object->version);
    }
  }
  keys_.pop_front();
  NextObject();
}

Result<bool> ClusterSweep::IsOver(const Object& object) {
  const Timestamp now = deps_.loop.WallNow();
  if (kind_ == Kind::kNonces) return NonceIsOver(object);
  if (kind_ == Kind::kOperators) {
    ASSIGN_OR_RETURN(const OperatorRecord record, DecodeOperatorRecord(object.bytes));
    return record.expires_at + kOperatorRetention <= now;
  }
  ASSIGN_OR_RETURN(const Timestamp last, LastExpiry(object.bytes));
  return last + owner_.terms().certlog_retention <= now;
}

bool ClusterSweep::NonceIsOver(const Object& object) {
  const Timestamp now = deps_.loop.WallNow();
  if (object.modified_at) return *object.modified_at + kNonceLife <= now;
  if (first_seen_.size() >= kMaxFirstSeen) first_seen_.clear();
  return first_seen_.try_emplace(keys_.front(), now).first->second + kNonceLife <= now;
}

void ClusterSweep::Remove(const ObjectVersion& version) {
  if (!owner_.leads()) return End();
  ++removals_;
  call_ = store().Delete({.key = keys_.front(), .version = version},
                         [this](const Status& removed) { OnRemoved(removed); });
}

void ClusterSweep::OnRemoved(const Status& removed) {
  const std::string key = keys_.front().text();
  if (!removed.has_value() && removed.error().code != Code::kAborted) {
    deps_.log.Warning("an old object cannot be removed",
                      {{"key", key}, {"error", removed.error()}});
    return End();
  }
  if (removed.has_value()) {
    ++removed_;
    first_seen_.erase(keys_.front());
    deps_.log.Info("an old object was removed", {{"key", key}});
    // operator/{tenant}.{storage-key}.json
    const std::size_t slash = key.find('/');
    const std::size_t dot = key.find('.');
    const std::size_t end = key.rfind('.');
    if (kind_ == Kind::kOperators && dot != std::string::npos && end > dot && slash < dot) {
      const Result<TenantId> tenant = TenantId::Parse(key.substr(slash + 1, dot - slash - 1));
      if (tenant.has_value()) {
        owner_.operator_removed(*tenant, key.substr(dot + 1, end - dot - 1));
      }
    }
  }
  keys_.pop_front();
  NextObject();
}

void ClusterSweep::End() {
  keys_.clear();
  Later();
}

}  // namespace nstance
