#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

constexpr Duration kLookLimit = Duration::Seconds(5);
// More looks than this in one turn are answered by one listing.
constexpr std::size_t kMaxSingleLooks = 32;

}  // namespace

// Looks that become due in one turn go together.
void Fleet::Engine::Look(Entry& entry) {
  entry.instance.looks.OnBegun(deps_.loop.Now());
  const bool first = looks_due_.empty();
  looks_due_.insert(entry.instance.id);
  if (first) look_turn_ = deps_.loop.CallAfter({}, [this] { RunLooks(); });
}

void Fleet::Engine::RunLooks() {
  const std::set<InstanceId> due = std::exchange(looks_due_, {});
  if (due.size() <= kMaxSingleLooks) {
    for (const InstanceId& id : due) {
      if (Entry* entry = Find(id)) LookSingly(*entry);
    }
    return;
  }
  listing_ = std::make_unique<ProviderListing>(
      deps_.provider, [this] { return CallFor(std::nullopt, request_timeout_); },
      [this, due](ProviderResult<std::vector<ProviderInstance>> listing) {
        std::map<InstanceId, const ProviderInstance*> found;
        if (listing.has_value()) {
          for (const ProviderInstance& vm : *listing) {
            if (vm.instance_id) found[*vm.instance_id] = &vm;
          }
        }
        for (const InstanceId& id : due) {
          Entry* entry = Find(id);
          if (entry == nullptr) continue;
          const auto at = found.find(id);
          if (at != found.end()) {
            Found(*entry, *at->second);
          } else if (listing.has_value()) {
            LookSingly(*entry);
          } else {
            OnLook(id, std::unexpected(listing.error()));
          }
        }
      });
  AtStep(Step::kH7);
  listing_->Start();
}

void Fleet::Engine::LookSingly(Entry& entry) {
  const InstanceRecord* record = entry.instance.record();
  const bool ended = !entry.instance.health.stream_open && entry.instance.health.stream_ended_at;
  AtStep(ended ? Step::kH6 : Step::kH7);
  entry.look = deps_.provider.Get(
      CallFor(entry.instance.tenant, kLookLimit),
      {.instance_id = entry.instance.id,
       .provider_instance_id = record != nullptr ? record->provider_instance_id : std::string()},
      [this, id = entry.instance.id](const ProviderResult<ProviderInstance>& answer) {
        OnLook(id, answer);
      });
}

void Fleet::Engine::OnLook(const InstanceId& id, const ProviderResult<ProviderInstance>& answer) {
  Entry* entry = Find(id);
  if (entry == nullptr) return;
  Instance& instance = entry->instance;
  if (answer.has_value()) return Found(*entry, *answer);
  // Its provider id is another VM's by now: its own is not there any more.
  const bool reused =
      answer.error().reason == ProviderReason::kMismatch && !Planted(Plant::kReusedIdIsTrouble);
  if (reused && !instance.looks.missing_first) {
    Raise({.name = "identity_mismatch",
           .detail = "its provider id is another VM's",
           .tenant = instance.tenant,
           .instance_id = id});
  }
  if (reused || answer.error().error.code == Code::kNotFound) {
    instance.looks.OnNotFound(deps_.loop.Now(), instance.vm_since.value_or(instance.created_at),
                              times_);
  } else {
    instance.looks.OnError();
    TellError(*entry, "looking: " + answer.error().error.message);
  }
  AnsweredByName(instance);
  MarkDirty(*entry);
}

void Fleet::Engine::Found(Entry& entry, const ProviderInstance& vm) {
  Instance& instance = entry.instance;
  // What becomes of a duplicate says nothing about the instance.
  const InstanceRecord* record = instance.record();
  if (record != nullptr && !record->provider_instance_id.empty() &&
      record->provider_instance_id != vm.provider_instance_id) {
    return;
  }
  const fleet::ProviderStatus before = instance.looks.status;
  const bool was_looking = instance.looks.in_flight || instance.looks.missing_first.has_value();
  instance.looks.OnFound(fleet::ParseProviderStatus(ProviderStatusName(vm.status)),
                         deps_.loop.Now());
  instance.vm = vm;
  instance.vm_at = deps_.loop.WallNow();
  if (before != instance.looks.status) rows_.Write(instance);
  AnsweredByName(instance);
  if (was_looking || before != instance.looks.status) MarkDirty(entry);
}

// What the provider tells by itself is as good as a look.
void Fleet::Engine::OnProviderNews(const ProviderInstance& vm) {
  if (!vm.instance_id) return;
  if (Entry* entry = Find(*vm.instance_id)) Found(*entry, vm);
}

}  // namespace nstance
