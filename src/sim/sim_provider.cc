#include "sim/sim_provider.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "base/check.h"
#include "base/fault_point.h"

namespace nstance::sim {
namespace {

constexpr std::uint64_t kTenThousand = 10'000;

bool IsMutation(SimProviderMethod method) {
  switch (method) {
    case SimProviderMethod::kCreate:
    case SimProviderMethod::kDelete:
    case SimProviderMethod::kStart:
    case SimProviderMethod::kStop:
    case SimProviderMethod::kAssignLeaderNetwork:
    case SimProviderMethod::kReleaseLeaderNetwork: return true;
    default: return false;
  }
}

bool IsLook(SimProviderMethod method) {
  return method == SimProviderMethod::kGet || method == SimProviderMethod::kList;
}

// Nothing of it is left but a memory.
bool IsOver(ProviderStatus status) { return status == ProviderStatus::kDeleted; }

std::unexpected<ProviderError> Refused(Error error,
                                       ProviderReason reason = ProviderReason::kOther) {
  return std::unexpected(ProviderError{.error = std::move(error), .reason = reason});
}

ProviderError ErrorOf(ProviderReason reason) {
  switch (reason) {
    case ProviderReason::kCapacity:
      return {.error = ResourceExhausted("no capacity of this type"), .reason = reason};
    case ProviderReason::kQuota:
      return {.error = ResourceExhausted("the quota is used up"), .reason = reason};
    case ProviderReason::kAuth:
      return {.error = PermissionDenied("the credentials are refused"), .reason = reason};
    case ProviderReason::kInvalid:
      return {.error = InvalidArgument("an argument is refused"), .reason = reason};
    case ProviderReason::kMismatch:
    case ProviderReason::kOther: break;
  }
  return {.error = Unavailable("503: slow down"), .reason = ProviderReason::kOther};
}

std::optional<std::uint64_t> NumberOf(std::string_view provider_id) {
  constexpr std::string_view kPrefix = "sim-";
  if (!provider_id.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : provider_id.substr(kPrefix.size())) {
    if (c < '0' || c > '9' || number > 1'000'000'000'000) return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

}  // namespace

// ---- The cloud --------------------------------------------------------------------------------

SimCloud::SimCloud(SimScheduler& scheduler, Options options)
    : scheduler_(scheduler),
      loop_(scheduler, options.wall_start),
      prng_(scheduler.prng().Fork()),
      options_(std::move(options)) {}

SimCloud::~SimCloud() = default;

bool SimCloud::Chance(std::uint32_t in_ten_thousand) {
  return in_ten_thousand > 0 && prng_.Chance(in_ten_thousand, kTenThousand);
}

Duration SimCloud::Between(Duration low, Duration high) {
  CHECK(low <= high, "a range of durations");
  return low + prng_.UpTo(high - low);
}

void SimCloud::Later(Instant at, Task task) {
  const std::uint64_t number = next_later_++;
  later_[number] = loop_.CallAt(at, [this, number, task = std::move(task)]() mutable {
    const auto self = later_.extract(number);
    task();
  });
}

void SimCloud::LaterInLife(Entry& entry, Duration after, std::function<void(Entry&)> task) {
  const std::optional<std::uint64_t> number = NumberOf(entry.vm.provider_id);
  Later(scheduler_.now() + after,
        [this, number = *number, life = entry.life, task = std::move(task)] {
          const auto at = vms_.find(number);
          if (at != vms_.end() && at->second.life == life) task(at->second);
        });
}

std::vector<const SimVm*> SimCloud::Vms() const {
  std::vector<const SimVm*> found;
  for (const auto& [number, entry] : vms_) {
    const bool there = !entry.revisions.empty() && entry.revisions.back().shown.has_value();
    if (there && !IsOver(entry.vm.shown.status)) found.push_back(&entry.vm);
  }
  return found;
}

std::vector<const SimVm*> SimCloud::VmsOf(const InstanceId& id) const {
  std::vector<const SimVm*> found = Vms();
  std::erase_if(found, [&](const SimVm* vm) { return vm->shown.instance_id != id; });
  return found;
}

const SimVm* SimCloud::Find(std::string_view provider_id) const {
  const auto number = NumberOf(provider_id);
  const auto at = number ? vms_.find(*number) : vms_.end();
  return at == vms_.end() || !at->second.revisions.back().shown ? nullptr : &at->second.vm;
}

std::string SimCloud::LeaderHolder(const std::string& ip) const {
  const auto at = leader_holders_.find(ip);
  return at == leader_holders_.end() ? std::string() : at->second;
}

std::uint64_t SimCloud::Count(SimProviderMethod method) const {
  const auto at = counts_.find(method);
  return at == counts_.end() ? 0 : at->second;
}

const ProviderInstance* SimCloud::AsOf(const Entry& entry, Instant at) const {
  const Revision* found = nullptr;
  for (const Revision& revision : entry.revisions) {
    if (revision.since <= at) found = &revision;
  }
  return found == nullptr || !found->shown ? nullptr : &*found->shown;
}

void SimCloud::Apply(Entry& entry, Change change) {
  const Instant now = scheduler_.now();
  const std::optional<ProviderStatus> before =
      entry.revisions.empty() ? std::nullopt : std::optional(entry.vm.shown.status);
  if (change.to) entry.vm.shown.status = *change.to;
  Revision next{.since = now, .shown = std::nullopt};
  if (change.to) next.shown = entry.vm.shown;
  entry.revisions.push_back(std::move(next));
  // Nobody may be shown what is older than a window.
  const Instant oldest = now - options_.capabilities.consistency_window;
  while (entry.revisions.size() > 1 && entry.revisions[1].since < oldest) {
    entry.revisions.pop_front();
  }
  if (observer_) {
    observer_({.at = now,
               .process = change.by.process,
               .epoch = change.by.epoch,
               .method = change.method,
               .vm = &entry.vm,
               .before = before,
               .after = change.to});
  }
  const bool runs = change.to == ProviderStatus::kRunning;
  const bool ran = std::exchange(entry.running, runs);
  if (runs && !ran && on_started_) on_started_(entry.vm);
  if (!runs && ran && on_gone_) on_gone_(entry.vm);
  if (!options_.capabilities.push_events) return;
  ProviderInstance news = entry.vm.shown;
  if (!change.to) news.status = ProviderStatus::kDeleted;
  for (SimProvider* provider : std::vector(providers_)) provider->Hear(news);
}

void SimCloud::Boot(Entry& entry) {
  ++entry.life;
  LaterInLife(entry, Between(options_.lives.boot_min, options_.lives.boot_max), [this](Entry& vm) {
    Apply(vm, {.by = {}, .to = ProviderStatus::kRunning});
    const SimVmLives& lives = options_.lives;
    if (lives.ends_after_max <= Duration()) return;
    LaterInLife(vm, Between(lives.ends_after_min, lives.ends_after_max),
                [this](Entry& old) { EndByItself(old); });
  });
}

void SimCloud::EndByItself(Entry& entry) {
  ++entry.life;
  switch (prng_.Below(3)) {
    case 0: return Apply(entry, {.by = {}, .to = ProviderStatus::kStopped});
    case 1: return Apply(entry, {.by = {}, .to = ProviderStatus::kFailed});
    default: return Apply(entry, {.by = {}});
  }
}

SimCloud::Entry& SimCloud::TakePlace() {
  // The newest that is free: somebody may still know it.
  for (auto at = vms_.rbegin(); options_.lies.reuses_ids && at != vms_.rend(); ++at) {
    Entry& old = at->second;
    if (old.revisions.back().shown) continue;
    // What was going to happen to the old one does not happen to the new one.
    Entry next;
    next.vm.provider_id = old.vm.provider_id;
    next.vm.users = old.vm.users + 1;
    next.life = old.life + 1;
    old = std::move(next);
    return old;
  }
  const std::uint64_t number = next_vm_++;
  Entry& entry = vms_[number];
  entry.vm.provider_id = fmt::format("sim-{:06}", number);
  return entry;
}

SimCloud::Entry& SimCloud::Make(const Asker& asker, const ProviderCreate& request) {
  Entry& entry = TakePlace();
  const std::uint64_t number = *NumberOf(entry.vm.provider_id);
  entry.vm.request = request;
  entry.vm.process = asker.process;
  entry.vm.epoch = asker.epoch;
  entry.vm.created = scheduler_.now();
  // Addresses are used again after 200 VMs, as real ones are.
  entry.vm.shown = {.instance_id = request.instance_id,
                    .shown_id = request.instance_id.text(),
                    .provider_instance_id = entry.vm.provider_id,
                    .status = ProviderStatus::kPending,
                    .instance_type = request.instance_type,
                    .private_ipv4 = fmt::format("10.0.0.{}", 10 + number % 200),
                    .private_ipv6 = fmt::format("fd00::{:x}", 10 + number % 200),
                    .hostname = fmt::format("vm-{}", number % 200),
                    .region = "sim",
                    .zone = "sim-a",
                    .launched_at = loop_.WallNow(),
                    .managed = true,
                    .cluster_id = asker.cluster,
                    .shard = asker.shard,
                    .tenant = request.tenant.text(),
                    .group = request.group,
                    .template_name = request.template_name,
                    .kind = request.kind,
                    .created_at = request.created_at,
                    .tags = request.tags};
  return entry;
}

std::optional<ProviderError> SimCloud::CheckLimits(const ProviderCreate& request) const {
  if (request.user_data.size() > Provider::kMaxUserDataBytes) {
    return ProviderError{.error = InvalidArgument(
                             fmt::format("user data: {} bytes; at most {} are allowed",
                                         request.user_data.size(), Provider::kMaxUserDataBytes)),
                         .reason = ProviderReason::kInvalid};
  }
  const std::vector<const SimVm*> vms = Vms();
  const Limits& limits = options_.limits;
  if (limits.vms && vms.size() >= *limits.vms) return ErrorOf(ProviderReason::kQuota);
  if (const auto type = limits.types.find(request.instance_type); type != limits.types.end()) {
    const auto used = static_cast<std::size_t>(std::ranges::count_if(
        vms, [&](const SimVm* vm) { return vm->shown.instance_type == request.instance_type; }));
    if (used >= type->second) return ErrorOf(ProviderReason::kCapacity);
  }
  if (const auto free = FreeAddresses(request.subnet); free && *free == 0) {
    return ErrorOf(ProviderReason::kCapacity);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> SimCloud::FreeAddresses(const std::string& subnet) const {
  const auto limit = options_.limits.subnets.find(subnet);
  if (limit == options_.limits.subnets.end()) return std::nullopt;
  const std::vector<const SimVm*> vms = Vms();
  const auto used = static_cast<std::uint64_t>(std::ranges::count_if(
      vms, [&](const SimVm* vm) { return vm->request && vm->request->subnet == subnet; }));
  return limit->second - std::min(used, limit->second);
}

ProviderResult<ProviderInstance> SimCloud::Create(const Asker& asker,
                                                  const ProviderCreate& request) {
  for (const SimVm* vm : VmsOf(request.instance_id)) {
    if (vm->shown.cluster_id != asker.cluster || vm->shown.shard != asker.shard) {
      return Refused(AlreadyExists(fmt::format("{} is another shard's", vm->provider_id)),
                     ProviderReason::kInvalid);
    }
    if (vm->request != request) {
      return Refused(
          Aborted(fmt::format("{} was created with other parameters", request.instance_id.text()))
              .MaybeDone());
    }
    if (Chance(options_.lies.forgets_token)) break;
    return vm->shown;
  }
  if (auto refused = CheckLimits(request)) return std::unexpected(*std::move(refused));
  const auto make = [&]() -> const ProviderInstance& {
    Entry& entry = Make(asker, request);
    Apply(entry,
          {.by = asker, .method = SimProviderMethod::kCreate, .to = ProviderStatus::kPending});
    Boot(entry);
    return entry.vm.shown;
  };
  if (Chance(options_.lies.makes_two)) make();
  return make();
}

ProviderResult<std::vector<SimCloud::Entry*>> SimCloud::Targets(const ProviderTarget& target) {
  std::vector<Entry*> found;
  for (auto& [number, entry] : vms_) {
    const bool there = entry.revisions.back().shown.has_value();
    if (!there || IsOver(entry.vm.shown.status)) continue;
    const bool named = entry.vm.provider_id == target.provider_instance_id;
    const bool matches = entry.vm.shown.instance_id == target.instance_id;
    if (named && !matches && !options_.lies.ignores_instance_id) {
      return Refused(
          FailedPrecondition(fmt::format("{} is {}, not {}", entry.vm.provider_id,
                                         entry.vm.shown.shown_id, target.instance_id.text())),
          ProviderReason::kMismatch);
    }
    if (named || (target.provider_instance_id.empty() && matches)) found.push_back(&entry);
  }
  std::ranges::stable_sort(found, {}, [](const Entry* entry) { return entry->vm.created; });
  return found;
}

void SimCloud::BeginDelete(Entry& entry, const Asker& asker) {
  ++entry.life;
  Apply(entry,
        {.by = asker, .method = SimProviderMethod::kDelete, .to = ProviderStatus::kDeleting});
  LaterInLife(entry, Between(options_.lives.delete_min, options_.lives.delete_max),
              [this](Entry& vm) {
                Apply(vm, {.by = {}, .to = ProviderStatus::kDeleted});
                LaterInLife(vm, options_.lives.shown_deleted,
                            [this](Entry& old) { Apply(old, {.by = {}}); });
              });
}

ProviderResult<ProviderDeleted> SimCloud::Delete(const Asker& asker, const ProviderTarget& target) {
  const auto found = Targets(target);
  if (!found) return std::unexpected(found.error());
  if (found->empty()) return ProviderDeleted::kAlreadyGone;
  // Of several with one id the oldest goes: a provider knows of no duplicates.
  Entry& entry = *found->front();
  if (entry.vm.shown.status != ProviderStatus::kDeleting) BeginDelete(entry, asker);
  return ProviderDeleted::kDone;
}

bool SimCloud::IsShownTo(const Asker& asker, const ProviderInstance& shown) const {
  if (options_.lies.lists_other_shards) return true;
  return shown.managed && shown.cluster_id == asker.cluster && shown.shard == asker.shard;
}

ProviderResult<ProviderInstance> SimCloud::Get(const Asker& asker, const ProviderTarget& target,
                                               Duration staleness) {
  const Instant as_of = scheduler_.now() - staleness;
  std::vector<const ProviderInstance*> found;
  const ProviderInstance* over = nullptr;
  for (const auto& [number, entry] : vms_) {
    const ProviderInstance* shown = AsOf(entry, as_of);
    if (shown == nullptr || options_.lies.finds_nothing) continue;
    if (entry.vm.created + options_.lies.unmarked_for > scheduler_.now()) continue;
    const bool named = entry.vm.provider_id == target.provider_instance_id;
    if (!target.provider_instance_id.empty() && !named) continue;
    if (shown->instance_id != target.instance_id) {
      if (!named) continue;
      return Refused(FailedPrecondition(fmt::format("{} is {}, not {}", entry.vm.provider_id,
                                                    shown->shown_id, target.instance_id.text())),
                     ProviderReason::kMismatch);
    }
    if (shown->cluster_id != asker.cluster || shown->shard != asker.shard) continue;
    if (IsOver(shown->status)) {
      over = shown;
    } else {
      found.push_back(shown);
    }
  }
  // Of several with one id any may be shown.
  if (!found.empty()) return *found[static_cast<std::size_t>(prng_.Below(found.size()))];
  if (over != nullptr) return *over;
  return Refused(NotFound(fmt::format("no VM {}", target.instance_id.text())));
}

ProviderResult<ProviderPage> SimCloud::List(const Asker& asker, const ProviderListRequest& request,
                                            Duration staleness) {
  std::uint64_t after = 0;
  if (!request.page_token.empty()) {
    const auto number = NumberOf(request.page_token);
    if (!number) return Refused(InvalidArgument("no such page"), ProviderReason::kInvalid);
    after = *number;
  }
  ProviderPage page;
  if (options_.lies.lists_nothing) return page;
  const Instant as_of = scheduler_.now() - staleness;
  for (auto at = vms_.upper_bound(after); at != vms_.end(); ++at) {
    const ProviderInstance* shown = AsOf(at->second, as_of);
    if (shown == nullptr || !IsShownTo(asker, *shown)) continue;
    if (at->second.vm.created + options_.lies.unmarked_for > scheduler_.now()) continue;
    if (page.instances.size() >= request.page_size) {
      page.next_page_token = fmt::format("sim-{}", after);
      return page;
    }
    page.instances.push_back(*shown);
    if (Chance(options_.lies.listed_twice)) page.instances.push_back(*shown);
    after = at->first;
  }
  return page;
}

ProviderResult<ProviderPowered> SimCloud::Power(const Asker& asker, const ProviderTarget& target,
                                                bool on) {
  const auto found = Targets(target);
  if (!found) return std::unexpected(found.error());
  if (found->empty()) {
    return Refused(NotFound(fmt::format("no VM {}", target.instance_id.text())));
  }
  Entry& entry = *found->front();
  const ProviderStatus status = entry.vm.shown.status;
  const bool is_on = status == ProviderStatus::kRunning || status == ProviderStatus::kPending;
  const bool is_off = status == ProviderStatus::kStopped || status == ProviderStatus::kStopping;
  if (on ? is_on : is_off) return ProviderPowered::kAlreadySo;
  if (!is_on && !is_off) {
    return Refused(FailedPrecondition(
        fmt::format("{} is {}", entry.vm.provider_id, ProviderStatusName(status))));
  }
  const auto method = on ? SimProviderMethod::kStart : SimProviderMethod::kStop;
  if (on) {
    Apply(entry, {.by = asker, .method = method, .to = ProviderStatus::kPending});
    Boot(entry);
    return ProviderPowered::kAccepted;
  }
  ++entry.life;
  Apply(entry, {.by = asker, .method = method, .to = ProviderStatus::kStopping});
  LaterInLife(entry, Between(options_.lives.delete_min, options_.lives.delete_max),
              [this](Entry& vm) { Apply(vm, {.by = {}, .to = ProviderStatus::kStopped}); });
  return ProviderPowered::kAccepted;
}

bool SimCloud::SetStatusByHand(std::string_view provider_id, ProviderStatus status) {
  if (Find(provider_id) == nullptr) return false;
  Entry& entry = vms_.at(*NumberOf(provider_id));
  ++entry.life;
  Apply(entry, {.by = {}, .method = SimProviderMethod::kByHand, .to = status});
  return true;
}

bool SimCloud::VanishByHand(std::string_view provider_id) {
  if (Find(provider_id) == nullptr) return false;
  Entry& entry = vms_.at(*NumberOf(provider_id));
  ++entry.life;
  Apply(entry, {.by = {}, .method = SimProviderMethod::kByHand});
  return true;
}

std::string SimCloud::AddByHand(ProviderInstance vm) {
  const std::uint64_t number = next_vm_++;
  Entry entry;
  entry.vm.provider_id = fmt::format("sim-{:06}", number);
  entry.vm.created = scheduler_.now();
  vm.provider_instance_id = entry.vm.provider_id;
  if (vm.shown_id.empty()) {
    vm.shown_id = vm.instance_id ? vm.instance_id->text() : "dangling-" + entry.vm.provider_id;
  }
  entry.vm.shown = std::move(vm);
  const ProviderStatus status = entry.vm.shown.status;
  Entry& kept = vms_.emplace(number, std::move(entry)).first->second;
  Apply(kept, {.by = {}, .method = SimProviderMethod::kByHand, .to = status});
  return kept.vm.provider_id;
}

// ---- A process's way to it --------------------------------------------------------------------

struct SimProvider::Wire {
  Loop* loop = nullptr;  // Null: the process is gone.
  SimLink link;
  std::map<std::uint64_t, std::shared_ptr<OnChange>> watchers;
  std::map<std::uint64_t, Pending> news;  // On its way.
  std::uint64_t next_id = 0;
};

template <class T>
struct SimProvider::Call {
  Done<T> done;
  Instant deadline;
  Pending timer = {};

  void Finish(ProviderResult<T> result) {
    if (Done<T> now = std::exchange(done, nullptr)) now(std::move(result));
  }

  // Sends the answer on its way back, if anybody still waits for it.
  static void Answer(const std::shared_ptr<Call>& call, Wire& wire, Duration back,
                     ProviderResult<T> result) {
    if (wire.loop == nullptr || wire.link.answers_lost || !call->done) return;
    if (wire.loop->Now() + back >= call->deadline) return;  // The deadline passes first.
    call->timer = wire.loop->CallAfter(
        back, [call, result = std::move(result)]() mutable { call->Finish(std::move(result)); });
  }
};

SimProvider::SimProvider(SimCloud& cloud, Loop& loop, Options options)
    : cloud_(cloud),
      loop_(loop),
      options_(std::move(options)),
      prng_(cloud.scheduler_.prng().Fork()),
      wire_(std::make_shared<Wire>()) {
  wire_->loop = &loop;
  cloud_.providers_.push_back(this);
}

SimProvider::~SimProvider() {
  std::erase(cloud_.providers_, this);
  wire_->loop = nullptr;
  wire_->watchers.clear();
  wire_->news.clear();
}

const ProviderCapabilities& SimProvider::capabilities() const {
  return cloud_.options_.capabilities;
}

SimLink& SimProvider::link() { return wire_->link; }

bool SimProvider::Chance(std::uint32_t in_ten_thousand) {
  // Nothing is drawn for what is switched off: a run without faults costs no chance.
  return in_ten_thousand > 0 && prng_.Chance(in_ten_thousand, kTenThousand);
}

SimFate SimProvider::DrawKind(SimProviderMethod method, ProviderReason& reason) {
  const SimProviderFaults& faults = options_.faults;
  if (wire_->link.requests_lost || Chance(faults.request_lost)) return SimFate::kRequestLost;
  if (Chance(faults.error_not_done)) return SimFate::kErrorNotDone;
  if (method == SimProviderMethod::kList && Chance(faults.page_failed))
    return SimFate::kErrorNotDone;
  if (Chance(faults.answer_lost)) return SimFate::kAnswerLost;
  if (IsLook(method) && Chance(faults.stale_look)) return SimFate::kStale;
  if (!IsMutation(method)) return SimFate::kNormal;
  if (Chance(faults.error_maybe_done)) return SimFate::kErrorMaybeDone;
  if (Chance(faults.applied_late)) return SimFate::kLate;
  if (Chance(faults.delivered_twice)) return SimFate::kTwice;
  if (method != SimProviderMethod::kCreate) return SimFate::kNormal;
  const std::array<std::pair<std::uint32_t, ProviderReason>, 4> refusals = {
      {{faults.refused_capacity, ProviderReason::kCapacity},
       {faults.refused_quota, ProviderReason::kQuota},
       {faults.refused_auth, ProviderReason::kAuth},
       {faults.refused_invalid, ProviderReason::kInvalid}}};
  for (const auto& [chance, why] : refusals) {
    if (!Chance(chance)) continue;
    reason = why;
    return SimFate::kRefused;
  }
  return SimFate::kNormal;
}

SimProvider::Fate SimProvider::Draw(SimProviderMethod method) {
  const SimProviderFaults& faults = options_.faults;
  CHECK(faults.latency_min <= faults.latency_max, "latency range");
  Fate fate;
  std::optional<Duration> late;
  fate.kind = DrawKind(method, fate.reason);
  if (options_.decide) {
    SimVerdict verdict = options_.decide(method, fate.kind);
    if (verdict.fate == SimFate::kRefused && fate.kind != SimFate::kRefused) {
      fate.reason = ProviderReason::kCapacity;
    }
    fate.kind = verdict.fate;
    fate.at_answer = std::move(verdict.at_answer);
    late = verdict.late;
    if (wire_->link.requests_lost) fate.kind = SimFate::kRequestLost;
  }
  const Duration latency = faults.latency_min + prng_.UpTo(faults.latency_max - faults.latency_min);
  fate.out = prng_.UpTo(latency);
  fate.back = latency - fate.out;
  if (fate.kind == SimFate::kLate) {
    fate.out = faults.late_min + prng_.UpTo(faults.late_max - faults.late_min);
    if (late) fate.out = *late;
  }
  if (fate.kind == SimFate::kErrorMaybeDone) fate.applied = prng_.Chance(1, 2);
  if (fate.kind == SimFate::kStale) {
    fate.staleness = prng_.UpTo(capabilities().consistency_window);
  }
  return fate;
}

std::optional<ProviderError> SimProvider::Check(const ProviderCall& call,
                                                SimProviderMethod method) {
  if (IsMutation(method) && call.epoch < epoch_) {
    return ProviderError{.error = FailedPrecondition(fmt::format(
                             "epoch {} is over: epoch {} was seen", call.epoch, epoch_))};
  }
  const bool power = method == SimProviderMethod::kStart || method == SimProviderMethod::kStop;
  const bool leader = method == SimProviderMethod::kAssignLeaderNetwork ||
                      method == SimProviderMethod::kReleaseLeaderNetwork;
  if ((power && !capabilities().power) || (leader && !capabilities().leader_network)) {
    return ProviderError{.error = {.code = Code::kUnimplemented,
                                   .outcome = Outcome::kNotDone,
                                   .message = "not offered by this provider"},
                         .reason = ProviderReason::kInvalid};
  }
  if (IsMutation(method)) epoch_ = call.epoch;
  if (call.deadline <= loop_.Now()) {
    return ProviderError{.error = DeadlineExceeded("the deadline is over")};
  }
  return std::nullopt;
}

SimCloud::Asker SimProvider::AskerOf(const ProviderCall& call) const {
  return {.process = options_.process,
          .epoch = call.epoch,
          .cluster = options_.cluster.text(),
          .shard = options_.shard.text()};
}

template <class T>
Pending SimProvider::Refuse(Done<T> done, ProviderError error) {
  return loop_.CallAfter(Duration(), [done = std::move(done), error = std::move(error)]() mutable {
    done(std::unexpected(std::move(error)));
  });
}

template <class T>
Pending SimProvider::Send(const ProviderCall& call, Done<T> done, Request<T> request) {
  if (auto refused = Check(call, request.method)) {
    return Refuse<T>(std::move(done), *std::move(refused));
  }
  const bool mutation = IsMutation(request.method);
  cloud_.Count(request.method, 1);
  Fate fate = Draw(request.method);
  if (fate.at_answer) {
    done = [instead = std::move(fate.at_answer)](const ProviderResult<T>& /*answer*/) {
      instead();
    };
  }
  auto waiting = std::make_shared<Call<T>>(std::move(done), call.deadline);
  waiting->timer = loop_.CallAt(call.deadline, [waiting, mutation] {
    Error late = DeadlineExceeded("the provider did not answer in time");
    waiting->Finish(Refused(mutation ? std::move(late).MaybeDone() : std::move(late)));
  });
  Pending pending([waiting] {
    const Done<T> dropped = std::exchange(waiting->done, nullptr);
    waiting->timer.Cancel();
  });
  if (fate.kind == SimFate::kRequestLost) return pending;
  const Instant arrives = cloud_.scheduler_.now() + fate.out;
  cloud_.Later(arrives,
               [waiting, fate = std::move(fate), wire = wire_, judge = std::move(request.judge)] {
                 const auto answer = [&](ProviderResult<T> result) {
                   Call<T>::Answer(waiting, *wire, fate.back, std::move(result));
                 };
                 switch (fate.kind) {
                   case SimFate::kErrorNotDone:
                     return answer(Refused(Unavailable("503: slow down")));
                   case SimFate::kRefused: return answer(std::unexpected(ErrorOf(fate.reason)));
                   case SimFate::kErrorMaybeDone:
                     if (fate.applied) (void)judge({});
                     return answer(Refused(Unavailable("500: internal error").MaybeDone()));
                   case SimFate::kAnswerLost:
                   case SimFate::kLate: return (void)judge({});
                   case SimFate::kTwice: (void)judge({}); break;
                   default: break;
                 }
                 answer(judge(fate.staleness));
               });
  return pending;
}

Pending SimProvider::Create(ProviderCall call, ProviderCreate request,
                            Done<ProviderInstance> done) {
  Done<ProviderInstance> told =
      [&cloud = cloud_, process = options_.process, id = request.instance_id,
       done = std::move(done)](ProviderResult<ProviderInstance> answer) mutable {
        cloud.Tell({.process = process,
                    .method = SimProviderMethod::kCreate,
                    .instance_id = id,
                    .maybe_done = !answer && answer.error().error.outcome == Outcome::kMaybeDone});
        done(std::move(answer));
      };
  return Send<ProviderInstance>(
      call, std::move(told),
      {SimProviderMethod::kCreate,
       [&cloud = cloud_, asker = AskerOf(call), request = std::move(request)](Duration) {
         return cloud.Create(asker, request);
       }});
}

Pending SimProvider::Delete(ProviderCall call, ProviderTarget target, Done<ProviderDeleted> done) {
  return Send<ProviderDeleted>(call, std::move(done),
                               {SimProviderMethod::kDelete, [&cloud = cloud_, asker = AskerOf(call),
                                                             target = std::move(target)](Duration) {
                                  return cloud.Delete(asker, target);
                                }});
}

Pending SimProvider::Get(ProviderCall call, ProviderTarget target, Done<ProviderInstance> done) {
  cloud_.Tell({.process = options_.process,
               .method = SimProviderMethod::kGet,
               .instance_id = target.instance_id});
  return Send<ProviderInstance>(
      call, std::move(done),
      {SimProviderMethod::kGet,
       [&cloud = cloud_, asker = AskerOf(call), target = std::move(target)](Duration staleness) {
         return cloud.Get(asker, target, staleness);
       }});
}

Pending SimProvider::List(ProviderCall call, ProviderListRequest request, Done<ProviderPage> done) {
  request.page_size = std::max<std::size_t>(request.page_size, 1);
  if (Chance(options_.faults.short_page)) {
    request.page_size = static_cast<std::size_t>(prng_.Below(request.page_size));
  }
  return Send<ProviderPage>(
      call, std::move(done),
      {SimProviderMethod::kList,
       [&cloud = cloud_, asker = AskerOf(call), request = std::move(request)](Duration staleness) {
         return cloud.List(asker, request, staleness);
       }});
}

Pending SimProvider::Start(ProviderCall call, ProviderTarget target, Done<ProviderPowered> done) {
  return Send<ProviderPowered>(call, std::move(done),
                               {SimProviderMethod::kStart, [&cloud = cloud_, asker = AskerOf(call),
                                                            target = std::move(target)](Duration) {
                                  return cloud.Power(asker, target, true);
                                }});
}

Pending SimProvider::Stop(ProviderCall call, ProviderTarget target, Done<ProviderPowered> done) {
  return Send<ProviderPowered>(call, std::move(done),
                               {SimProviderMethod::kStop, [&cloud = cloud_, asker = AskerOf(call),
                                                           target = std::move(target)](Duration) {
                                  return cloud.Power(asker, target, false);
                                }});
}

Pending SimProvider::InstanceTypeArch(ProviderCall call, std::string instance_type,
                                      Done<std::optional<config::Arch>> done) {
  using Answer = std::optional<config::Arch>;
  return Send<Answer>(
      call, std::move(done),
      {SimProviderMethod::kTypeArch,
       [&cloud = cloud_, type = std::move(instance_type)](Duration) -> ProviderResult<Answer> {
         const auto& known = cloud.options_.limits.type_architectures;
         const auto at = known.find(type);
         return at == known.end() ? std::nullopt : Answer(at->second);
       }});
}

Pending SimProvider::SubnetCapacity(ProviderCall call, std::string subnet,
                                    Done<std::optional<std::uint64_t>> done) {
  using Answer = std::optional<std::uint64_t>;
  return Send<Answer>(
      call, std::move(done),
      {SimProviderMethod::kSubnetCapacity,
       [&cloud = cloud_, subnet = std::move(subnet)](Duration) -> ProviderResult<Answer> {
         return cloud.FreeAddresses(subnet);
       }});
}

Pending SimProvider::AssignLeaderNetwork(ProviderCall call, config::LeaderNetwork network,
                                         Done<void> done) {
  return Send<void>(call, std::move(done),
                    {SimProviderMethod::kAssignLeaderNetwork,
                     [&cloud = cloud_, process = options_.process,
                      ip = std::move(network.ip)](Duration) -> ProviderResult<void> {
                       cloud.leader_holders_[ip] = process;
                       return {};
                     }});
}

Pending SimProvider::ReleaseLeaderNetwork(ProviderCall call, config::LeaderNetwork network,
                                          Done<void> done) {
  return Send<void>(call, std::move(done),
                    {SimProviderMethod::kReleaseLeaderNetwork,
                     [&cloud = cloud_, process = options_.process,
                      ip = std::move(network.ip)](Duration) -> ProviderResult<void> {
                       if (cloud.LeaderHolder(ip) == process) cloud.leader_holders_.erase(ip);
                       return {};
                     }});
}

Pending SimProvider::Watch(OnChange on_change) {
  const std::uint64_t id = wire_->next_id++;
  wire_->watchers.emplace(id, std::make_shared<OnChange>(std::move(on_change)));
  return Pending([wire = wire_, id] { const auto dropped = wire->watchers.extract(id); });
}

void SimProvider::Hear(const ProviderInstance& instance) {
  if (instance.cluster_id != options_.cluster.text() || instance.shard != options_.shard.text()) {
    return;
  }
  if (wire_->link.answers_lost || Chance(options_.faults.event_lost)) return;
  const int copies = Chance(options_.faults.event_twice) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    for (const auto& [watcher, callback] : wire_->watchers) {
      const std::uint64_t id = wire_->next_id++;
      wire_->news[id] = loop_.CallAfter(prng_.UpTo(options_.faults.event_delay),
                                        [wire = wire_.get(), id, watcher = watcher, instance] {
                                          const auto self = wire->news.extract(id);
                                          const auto at = wire->watchers.find(watcher);
                                          if (at == wire->watchers.end()) return;
                                          const std::shared_ptr<OnChange> listener = at->second;
                                          (*listener)(instance);
                                        });
    }
  }
}

}  // namespace nstance::sim
