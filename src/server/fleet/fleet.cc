#include "server/fleet/fleet.h"

#include <utility>

#include "server/fleet/engine.h"

namespace nstance {

Fleet::Fleet(const FleetDeps& deps, FleetOptions options, FleetOwner owner)
    : engine_(std::make_unique<Engine>(deps, std::move(options), std::move(owner))) {}
Fleet::~Fleet() = default;

void Fleet::Load(Loaded done) { engine_->Load(std::move(done)); }
void Fleet::SetServer(ServerFacts facts) { engine_->SetServer(std::move(facts)); }
void Fleet::PauseExpiry(Instant until) { engine_->PauseExpiry(until); }
void Fleet::Raise(const Alarm& alarm) { engine_->Raise(alarm); }

void Fleet::SetGroups(GroupsRef groups) { engine_->SetGroups(std::move(groups)); }

const Instance* Fleet::Find(const InstanceId& id) const {
  const Engine::Entry* entry = std::as_const(*engine_).Find(id);
  return entry == nullptr ? nullptr : &entry->instance;
}

const Instance* Fleet::Find(const TenantId& tenant, const InstanceId& id) const {
  const Instance* instance = Find(id);
  return instance != nullptr && instance->tenant == tenant ? instance : nullptr;
}

std::vector<const Instance*> Fleet::OfTenant(const TenantId& tenant) const {
  return engine_->OfTenant(tenant);
}

const Instance* Fleet::FindByKey(std::string_view spki_sha256) const {
  return engine_->FindByKey(spki_sha256);
}

GroupFigures Fleet::Figures(const TenantId& tenant, const GroupKey& group) const {
  return engine_->Figures({tenant, group});
}

const fleet::Plan* Fleet::LastPlan(const TenantId& tenant, const GroupKey& group) const {
  return engine_->LastPlan({tenant, group});
}

const GroupsRef& Fleet::groups() const { return engine_->groups(); }
bool Fleet::provider_listed() const { return engine_->provider_listed(); }

void Fleet::Measure(metrics::Registry& gauges) const { engine_->Measure(gauges); }

std::string_view Fleet::StatusWord(const Instance& instance) const {
  return engine_->StatusWord(instance);
}

bool Fleet::Drifted(const Instance& instance) const { return engine_->Drifted(instance); }

fleet::HealthState Fleet::Health(const Instance& instance) const {
  return engine_->HealthOf(instance).state;
}

fleet::Plan Fleet::Preview(const TenantId& tenant, const GroupKey& group) const {
  return engine_->Preview({tenant, group}, *engine_->groups());
}

fleet::Plan Fleet::Preview(const TenantId& tenant, const GroupKey& group,
                           const GroupsSnapshot& groups) const {
  return engine_->Preview({tenant, group}, groups);
}

std::string Fleet::Summary(const Instance& instance, const fleet::Plan& plan) const {
  return fleet::Summarize(engine_->StoryOf(instance), plan, engine_->Clock().mono);
}

std::string Fleet::Summary(const TenantId& tenant, const GroupKey& group,
                           const fleet::Plan& plan) const {
  return fleet::Summarize(engine_->StoryOf(Engine::GroupName{tenant, group}), plan,
                          engine_->Clock().mono);
}

bool Fleet::Knows(const TenantId& tenant, const GroupKey& group) const {
  return engine_->Knows({tenant, group});
}

std::vector<GroupKey> Fleet::GroupsOf(const TenantId& tenant) const {
  return engine_->GroupsOf(tenant);
}

const EventRing* Fleet::History(const InstanceId& id) const {
  const Engine::Entry* entry = std::as_const(*engine_).Find(id);
  return entry == nullptr ? nullptr : &entry->history;
}

const EventRing* Fleet::History(const TenantId& tenant, const GroupKey& group) const {
  return engine_->History({tenant, group});
}

const EventRing* Fleet::Events(const TenantId& tenant) const {
  return engine_->events().Of(tenant);
}

const EventLog::Totals& Fleet::event_totals() const { return engine_->events().totals(); }
std::size_t Fleet::size() const { return engine_->size(); }
std::size_t Fleet::steps_per_turn() const { return engine_->options().steps_per_turn; }
const PlannerWork& Fleet::planned() const { return engine_->planned(); }

void Fleet::StreamOpened(const InstanceId& id) { engine_->StreamOpened(id); }
void Fleet::StreamEnded(const InstanceId& id) { engine_->StreamEnded(id); }
void Fleet::Report(const InstanceId& id, const api::HealthReportRequest& report) {
  engine_->Report(id, report);
}

void Fleet::EditRecord(const InstanceId& id, RecordStore::Edit edit, RecordStore::Done done,
                       Step step) {
  engine_->records().Update(id, {.persist = RecordStore::Persist::kOnce, .step = step},
                            std::move(edit), std::move(done));
}

void Fleet::CreateOnDemand(OnDemandRequest request, CreateDone done) {
  engine_->CreateOnDemand(std::move(request), std::move(done));
}

void Fleet::Delete(DeleteOrder order, std::move_only_function<void(Result<std::string>)> done) {
  engine_->Delete(std::move(order), std::move(done));
}

void Fleet::Acknowledge(const DrainAck& ack, std::move_only_function<void(Status)> done) {
  engine_->Acknowledge(ack, std::move(done));
}

}  // namespace nstance
