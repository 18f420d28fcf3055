#include <utility>

#include <fmt/format.h>

#include "base/fault_point.h"
#include "base/text.h"
#include "core/instance_config/merge.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

const std::string& RequestIdOf(const Instance& instance) {
  static const std::string none;
  if (const InstanceRecord* record = instance.record()) return record->request_id;
  return instance.create ? instance.create->intent.request_id : none;
}

bool WasCancelled(const Instance& instance) {
  return instance.phase() == InstancePhase::kGone && instance.record()->failure &&
         instance.record()->failure->code == "cancelled";
}

}  // namespace

void Fleet::Engine::AnswerWaiters(Entry& entry, const Result<std::string>& answer) {
  std::vector<OrderDone> waiters = std::exchange(entry.waiters, {});
  for (OrderDone& done : waiters) done(answer);
}

// --- CreateInstance ------------------------------------------------------------------------------

void Fleet::Engine::AnswerCreators(Entry& entry, const Status& recorded) {
  std::vector<CreateDone> creators = std::exchange(entry.creators, {});
  for (CreateDone& done : creators) {
    if (!recorded.has_value()) {
      done(Fail(recorded.error()));
      continue;
    }
    done(api::CreateInstanceResponse{.instance_id = entry.instance.id.text(),
                                     .status = std::string(StatusWord(entry.instance))});
  }
}

// By its id or by the instance's.
bool Fleet::Engine::RepeatsOnDemand(const OnDemandRequest& request, CreateDone& done) {
  const auto of_tenant = by_tenant_.find(request.tenant);
  if (of_tenant == by_tenant_.end()) return false;
  for (const InstanceId& id : of_tenant->second) {
    Entry& entry = *entries_.at(id);
    const Instance& instance = entry.instance;
    const bool same_id = request.instance_id && *request.instance_id == id;
    const bool same_request =
        !request.request_id.empty() && RequestIdOf(instance) == request.request_id;
    if (!same_request && !same_id) continue;
    const bool cancelled = WasCancelled(instance);
    if (cancelled && !same_id) continue;  // Nobody was answered for it: made anew.
    const bool same_content = instance.on_demand && instance.group == request.group &&
                              (!entry.overlay || *entry.overlay == request.overlay);
    if (cancelled) {
      done(Fail(FailedPrecondition("creation was cancelled; use a new id")));
    } else if (!same_content) {
      done(Fail(AlreadyExists(same_id ? "the instance id is used by something else"
                                      : "the request id was used with other content")));
    } else {
      entry.creators.push_back(std::move(done));
      if (instance.record() != nullptr) AnswerCreators(entry, {});
    }
    return true;
  }
  return false;
}

void Fleet::Engine::CreateOnDemand(OnDemandRequest request, CreateDone done) {
  AtStep(Step::kC0);
  if (RepeatsOnDemand(request, done)) return;
  if (request.instance_id && Find(*request.instance_id) != nullptr) {
    return done(Fail(AlreadyExists("the instance id is used by something else")));
  }
  const MergedGroup* group = groups_->Find(request.tenant, request.group);
  if (group == nullptr) {
    return done(Fail(NotFound(fmt::format("there is no group {}", Quote(request.group.text())))));
  }
  const config::Config& config = groups_->config->config;
  const ArchOf arch_of = [this](std::string_view type) {
    return deps_.types == nullptr ? std::nullopt : deps_.types->Find(type);
  };
  Result<config::GroupLayer> layer =
      OverlayInstance(config, group->group, request.overlay, arch_of);
  if (!layer.has_value()) return done(Fail(std::move(layer).error()));
  Result<MergedInstanceConfig> merged = MergeInstanceConfig(config, *layer);
  if (!merged.has_value()) return done(Fail(std::move(merged).error()));
  if (request.instance_id && request.instance_id->prefix() != merged->kind) {
    return done(Fail(InvalidArgument(fmt::format(
        "instance_id: the prefix must be {}, the kind of the template", merged->kind))));
  }
  OpenOnDemand(std::move(request), std::move(merged).value(), std::move(done));
}

void Fleet::Engine::OpenOnDemand(OnDemandRequest request, MergedInstanceConfig config,
                                 CreateDone done) {
  const fleet::GroupView view = ViewOf(GroupName{request.tenant, request.group});
  AskAboutSubnets(view);
  const std::optional<std::size_t> subnet = fleet::ChooseSubnet(view.subnets);
  if (!view.subnets.empty() && !subnet) {
    return done(Fail(ResourceExhausted("every subnet of the pool is full")));
  }
  const Timestamp now = deps_.loop.WallNow();
  Puidv7Generator::Entropy entropy{};
  deps_.random.Fill(entropy);
  AtStep(Step::kC1);
  const InstanceId id =
      request.instance_id ? *request.instance_id : ids_.Next(config.kind, now, entropy);
  Instance instance = {
      .id = id, .tenant = request.tenant, .group = request.group, .on_demand = true};
  instance.created_at = deps_.loop.Now();
  if (subnet) instance.subnet = view.subnets[*subnet].id;
  instance.create = OpenIntent{.intent = {.id = {},
                                          .kind = IntentKind::kCreate,
                                          .instance_id = id,
                                          .tenant = request.tenant,
                                          .group = request.group,
                                          .opened_at = now,
                                          .epoch = deps_.leader.epoch,
                                          .reason = "on-demand",
                                          .request_id = request.request_id}};
  JournalChange change = {.intent = instance.create->intent, .step = Step::kC2};
  Entry& entry = Insert(std::move(instance));
  entry.overlay = std::move(request.overlay);
  entry.creators.push_back(std::move(done));
  entry.creation = std::make_unique<CreationRun>(
      *this,
      CreationRun::Plan{.instance = {.id = id,
                                     .tenant = request.tenant,
                                     .group = request.group,
                                     .on_demand = true,
                                     .subnet = subnet ? view.subnets[*subnet].id : std::string(),
                                     .request_id = request.request_id},
                        .config = std::move(config),
                        .recorded =
                            [this, id](const Status& recorded) {
                              if (Entry* at = Find(id)) AnswerCreators(*at, recorded);
                            }},
      CreationMachine({.consistency_window = deps_.provider.capabilities().consistency_window,
                       .t_vis = times_.t_vis,
                       .t_intent = times_.t_intent},
                      CreationMachine::Record::kNone, deps_.loop.Now()));
  SubmitIntent(entry, &Instance::create, std::move(change), [this](Entry& at) {
    NoteIntended(at);
    at.creation->Start();
  });
}

// --- DeleteInstance ------------------------------------------------------------------------------

void Fleet::Engine::Delete(DeleteOrder order, OrderDone done) {
  Entry* entry = Find(order.instance_id);
  if (entry == nullptr || entry->instance.tenant != order.tenant) return done("unknown");
  Instance& instance = entry->instance;
  if (instance.phase() == InstancePhase::kGone) return done("deleted");
  if (instance.phase() == InstancePhase::kDeleting ||
      (instance.deletion && instance.deletion->durable)) {
    return done("deleting");
  }
  if (instance.corrupt) {
    return done(
        Fail(FailedPrecondition("the record does not read: an administrator must remove it")));
  }
  Duration length = {};
  if (order.drain_timeout) {
    length = *order.drain_timeout;
  } else if (order.drain) {
    const fleet::GroupView view = ViewOf(GroupName{instance.tenant, instance.group});
    length = view.spec.drain_timeout;
  }
  if (instance.phase() != InstancePhase::kRegistered) length = {};
  if (instance.drain && length > Duration()) {
    const bool early = Planted(Plant::kAnswersDrainEarly);
    if (instance.drain->durable || early) return done("draining");
    entry->waiters.push_back(std::move(done));  // Answered with the intent.
    return;
  }
  if (!instance.deletion) {
    instance.order = fleet::OrderView{.reason = fleet::Reason::kRequested, .drain = length};
  }
  entry->waiters.push_back(std::move(done));
  MarkDirty(*entry);
}

// An order that the plan did not take up is told why; a deletion without a drain is always taken
// up.
void Fleet::Engine::RefuseHeldOrders(const GroupName& group, const fleet::Plan& plan) {
  for (const InstanceId& id : by_group_[group]) {
    Entry& entry = *entries_.at(id);
    if (!entry.instance.order || entry.waiters.empty()) continue;
    if (entry.instance.drain && !entry.instance.drain->durable) continue;
    if (entry.creation != nullptr) continue;
    std::string why = "the order is held";
    for (const fleet::Hold& hold : plan.holds) {
      if (hold.instance == id) why = fleet::Describe(hold);
    }
    entry.instance.order.reset();
    AnswerWaiters(entry, Fail(ResourceExhausted(why)));
  }
}

// --- AcknowledgeDrained --------------------------------------------------------------------------

void Fleet::Engine::Acknowledge(const DrainAck& ack, std::move_only_function<void(Status)> done) {
  Entry* entry = Find(ack.instance_id);
  if (entry == nullptr || entry->instance.tenant != ack.tenant) {
    return done(Fail(NotFound("there is no such instance")));
  }
  Instance& instance = entry->instance;
  if (!instance.live() || instance.phase() == InstancePhase::kDeleting ||
      (instance.deletion && instance.deletion->durable)) {
    return done({});
  }
  if (!ack.drain_id.empty() && !Planted(Plant::kAnyAck) &&
      (!instance.drain || !instance.drain->durable || instance.drain->intent.id != ack.drain_id)) {
    return done(Fail(FailedPrecondition("that drain is not open; it was revoked or replaced")));
  }
  if (!instance.drain || !instance.drain->durable) {
    // The operator is trusted: what is not draining goes as well.
    return Delete({.tenant = ack.tenant, .instance_id = ack.instance_id},
                  [done = std::move(done)](Result<std::string> deleted) mutable {
                    if (!deleted.has_value()) return done(Fail(std::move(deleted).error()));
                    done({});
                  });
  }
  if (instance.drain->intent.acked_at) return done({});
  if (Planted(Plant::kAckInMemory)) {
    instance.drain->intent.acked_at = deps_.loop.WallNow();
    MarkDirty(*entry);
    return done({});
  }
  entry->ackers.push_back(std::move(done));
  if (entry->ackers.size() == 1) WriteAck(*entry);
}

// One write for all who acknowledge until it is durable: a later one must not move the time.
void Fleet::Engine::WriteAck(Entry& entry) {
  Intent intent = entry.instance.drain->intent;
  intent.acked_at = deps_.loop.WallNow();
  deps_.journal.Submit({.id = intent.id,
                        .intent = intent,
                        .identity = JournalChange::Identity::kSame,
                        .step = Step::kD6},
                       JournalMachine::Urgency::kNow,
                       [this, id = entry.instance.id,
                        acked_at = intent.acked_at](const Result<std::string>& written) {
                         Entry* at = Find(id);
                         if (at == nullptr) return;
                         if (written.has_value() && at->instance.drain) {
                           at->instance.drain->intent.acked_at = acked_at;
                         }
                         MarkDirty(*at);
                         for (auto& answer : std::exchange(at->ackers, {})) {
                           if (written.has_value()) {
                             answer({});
                           } else {
                             answer(Fail(Unavailable(written.error().message)));
                           }
                         }
                       });
}

}  // namespace nstance
