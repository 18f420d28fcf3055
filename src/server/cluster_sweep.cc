#include "server/cluster_sweep.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "core/object_layout.h"
#include "core/operator_record.h"
#include "core/stored_object.h"

namespace nstance {
namespace {

constexpr Duration kIdleInterval = Duration::Hours(1);
constexpr Duration kUnreadable = Duration::Hours(1);  // Until it is looked at again.
constexpr std::size_t kPage = 200;
constexpr std::size_t kMaxKnown = 20'000;

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
  for (ListedObject& object : page->objects) {
    if (!Stays(object)) keys_.push_back(std::move(object.key));
  }
  NextObject();
}

bool ClusterSweep::Stays(const ListedObject& object) const {
  const Timestamp now = deps_.loop.WallNow();
  // No certificate expires before it was issued.
  if (kind_ == Kind::kLogs && IsLoggedSince(object.key, now - owner_.terms().certlog_retention)) {
    return true;
  }
  const auto known = known_.find(object.key);
  if (known == known_.end() || known->second.due <= now) return false;
  return object.version.text.empty() || object.version == known->second.version;
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
    const Result<Timestamp> due = DueOf(*object);
    if (!due.has_value()) {
      deps_.log.Warning("an object does not read and stays",
                        {{"key", keys_.front().text()}, {"error", due.error()}});
      Remember(object->version, deps_.loop.WallNow() + kUnreadable);
    } else if (*due <= deps_.loop.WallNow()) {
      return Remove(object->version);
    } else {
      Remember(object->version, *due);
    }
  }
  keys_.pop_front();
  NextObject();
}

Result<Timestamp> ClusterSweep::DueOf(const Object& object) const {
  if (kind_ == Kind::kOperators) {
    ASSIGN_OR_RETURN(const OperatorRecord record, DecodeOperatorRecord(object.bytes));
    return record.expires_at + kOperatorRetention;
  }
  if (kind_ == Kind::kLogs) {
    ASSIGN_OR_RETURN(const Timestamp last, LastExpiry(object.bytes));
    return last + owner_.terms().certlog_retention;
  }
  if (object.modified_at) return *object.modified_at + kNonceLife;
  const auto known = known_.find(keys_.front());
  return known != known_.end() ? known->second.due : deps_.loop.WallNow() + kNonceLife;
}

void ClusterSweep::Remember(const ObjectVersion& version, Timestamp due) {
  if (known_.size() >= kMaxKnown && !known_.contains(keys_.front())) known_.clear();
  known_.insert_or_assign(keys_.front(), Known{.version = version, .due = due});
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
    known_.erase(keys_.front());
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
