// EventLog: what happened to groups and instances of a shard under this leadership, for `why` and
// for watchers (wire.md 7.6 Event). Kept in memory only: a new leader begins with an empty log and
// one event that says so.
//
// An event is made once and shared by whoever keeps it: the log of its tenant (the last 1,000), the
// ring of its group and the ring of its instance (the last 32 each). The rings live in the table
// and go with their rows, so all memory is bounded by the size of the table; totals() counts it.
//
//   EventRef event = log.Add(tenant, {.type = "hold", .group = "web", .message = "..."});
//   group.history.Add(event);
//
// Guarantees, each held by a test:
//   - a ring holds the latest events, oldest first, never more than its capacity
//   - totals() is what is really kept, whoever keeps it
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/name.h"
#include "core/instance_phase.h"
#include "ports/api/events.h"

namespace nstance {

using EventRef = std::shared_ptr<const api::Event>;

// Of the wire.
[[nodiscard]] api::InstancePhase ApiPhase(InstancePhase phase);

class EventRing {
 public:
  static constexpr std::size_t kOfSubject = 32;

  explicit EventRing(std::size_t capacity = kOfSubject) : capacity_(capacity) {}

  void Add(EventRef event);
  [[nodiscard]] std::size_t size() const { return events_.size(); }
  // 0 is the oldest. REQUIRES: index < size().
  [[nodiscard]] const EventRef& at(std::size_t index) const {
    return events_[(first_ + index) % events_.size()];
  }

 private:
  std::size_t capacity_;
  std::size_t first_ = 0;  // The oldest, once the ring is full.
  std::vector<EventRef> events_;
};

class EventLog {
 public:
  static constexpr std::size_t kOfTenant = 1'000;
  struct Totals {
    std::size_t events = 0;
    std::size_t bytes = 0;  // Of the events themselves, texts included.
  };

  // Puts it into the tenant's log. Long texts are cut.
  EventRef Add(const TenantId& tenant, api::Event event);
  // Null: nothing has happened.
  [[nodiscard]] const EventRing* Of(const TenantId& tenant) const;
  // Of all events that somebody keeps.
  [[nodiscard]] const Totals& totals() const { return *totals_; }

 private:
  std::map<TenantId, EventRing> tenants_;
  std::shared_ptr<Totals> totals_ = std::make_shared<Totals>();
};

}  // namespace nstance
