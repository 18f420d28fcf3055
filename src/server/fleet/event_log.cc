#include "server/fleet/event_log.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/fleet/explain.h"

namespace nstance {
namespace {

std::size_t HeapOf(const std::string& text) {
  return text.capacity() < sizeof(std::string) / 2 ? 0 : text.capacity() + 1;
}

std::size_t BytesOf(const api::Event& event) {
  std::size_t bytes = 0;
  for (const std::string* text :
       {&event.type, &event.group, &event.instance_id, &event.reason, &event.message}) {
    bytes += HeapOf(*text);
  }
  return bytes;
}

// Counts itself for as long as somebody keeps it.
class Counted {
 public:
  Counted(api::Event made, std::shared_ptr<EventLog::Totals> totals)
      : event(std::move(made)),
        totals_(std::move(totals)),
        bytes_(sizeof(Counted) + BytesOf(event)) {
    ++totals_->events;
    totals_->bytes += bytes_;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    --totals_->events;
    totals_->bytes -= bytes_;
  }

  const api::Event event;

 private:
  std::shared_ptr<EventLog::Totals> totals_;
  std::size_t bytes_;
};

}  // namespace

api::InstancePhase ApiPhase(InstancePhase phase) {
  switch (phase) {
    case InstancePhase::kIntended: return api::InstancePhase::kIntended;
    case InstancePhase::kCreating: return api::InstancePhase::kCreating;
    case InstancePhase::kProvisioned: return api::InstancePhase::kProvisioned;
    case InstancePhase::kRegistered: return api::InstancePhase::kRegistered;
    case InstancePhase::kDraining: return api::InstancePhase::kDraining;
    case InstancePhase::kDeleting: return api::InstancePhase::kDeleting;
    case InstancePhase::kGone: return api::InstancePhase::kGone;
    case InstancePhase::kFailed: break;
  }
  return api::InstancePhase::kFailed;
}

void EventRing::Add(EventRef event) {
  if (events_.size() < capacity_) {
    events_.push_back(std::move(event));
    return;
  }
  events_[first_] = std::move(event);
  first_ = (first_ + 1) % capacity_;
}

EventRef EventLog::Add(const TenantId& tenant, api::Event event) {
  event.reason = fleet::Shortened(std::move(event.reason));
  event.message = fleet::Shortened(std::move(event.message));
  const auto counted = std::make_shared<const Counted>(std::move(event), totals_);
  EventRef ref(counted, &counted->event);
  tenants_.try_emplace(tenant, kOfTenant).first->second.Add(ref);
  return ref;
}

const EventRing* EventLog::Of(const TenantId& tenant) const {
  const auto at = tenants_.find(tenant);
  return at == tenants_.end() ? nullptr : &at->second;
}

}  // namespace nstance
