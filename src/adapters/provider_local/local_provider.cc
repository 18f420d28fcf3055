#include "adapters/provider_local/local_provider.h"

#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "adapters/provider_local/keeper.h"
#include "adapters/provider_local/keeper_start.h"

namespace nstance {
namespace {

using provider_local::JobPool;
using provider_local::Leaving;
using provider_local::LeavingReport;
using provider_local::LocalHost;
using provider_local::Seen;
using provider_local::Urge;

constexpr auto kFirstPause = Duration::Milliseconds(20);
constexpr auto kLongestPause = Duration::Seconds(1);

ProviderError NotOffered(std::string_view what) {
  return {.error = {.code = Code::kUnimplemented,
                    .outcome = Outcome::kNotDone,
                    .message = fmt::format("the provider local offers no {}", what)},
          .reason = ProviderReason::kInvalid};
}

ProviderError Late(Outcome outcome) {
  Error error = DeadlineExceeded("the local provider did not answer by the deadline");
  error.outcome = outcome;
  return {.error = std::move(error)};
}

std::optional<config::Arch> HostArch() {
  utsname name{};
  if (::uname(&name) != 0) return std::nullopt;
  const std::string_view machine = name.machine;
  if (machine == "x86_64") return config::Arch::kAmd64;
  if (machine == "aarch64") return config::Arch::kArm64;
  return std::nullopt;
}

std::string ProgramFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace

struct LocalProvider::Desk {
  struct Waiting {
    Waiting() = default;
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    virtual ~Waiting() = default;
  };

  std::map<std::uint64_t, std::unique_ptr<Waiting>> waiting;
  std::map<std::uint64_t, std::shared_ptr<OnChange>> watchers;
  std::uint64_t next_id = 1;
  LocalProvider* provider = nullptr;  // Null: it is gone.

  // Taken out before it is destroyed or called: a callback may own other Pendings of ours.
  std::unique_ptr<Waiting> Take(std::uint64_t id) {
    auto node = waiting.extract(id);
    return node.empty() ? nullptr : std::move(node.mapped());
  }
};

template <class T>
struct LocalProvider::Caller final : Desk::Waiting {
  explicit Caller(Done<T> callback) : done(std::move(callback)) {}
  Done<T> done;
  Pending deadline;

  static void Answer(Desk& desk, std::uint64_t id, ProviderResult<T> result) {
    const auto waiting = desk.Take(id);
    if (waiting == nullptr) return;  // Cancelled, or answered by the deadline.
    auto& caller = static_cast<Caller&>(*waiting);
    caller.deadline.Cancel();
    caller.done(std::move(result));
  }
};

Result<std::unique_ptr<LocalProvider>> LocalProvider::Open(RealLoop& loop, Options options) {
  ASSIGN_OR_RETURN(auto host, LocalHost::Open({.options = std::move(options.local),
                                               .cluster = std::move(options.cluster),
                                               .shard = std::move(options.shard),
                                               .region = std::move(options.region),
                                               .zone = std::move(options.zone),
                                               .keeper_command = std::move(options.keeper_command),
                                               .program_folder = options.program_folder.empty()
                                                                     ? ProgramFolder()
                                                                     : options.program_folder,
                                               .step = std::move(options.step)}));
  std::unique_ptr<LocalProvider> provider(new LocalProvider(loop, std::move(host), options.pool));
  // What runs already is watched from the start.
  ProviderListRequest request{.page_size = 10'000};
  do {
    auto page = provider->host_->List(request);
    if (!page) return Fail(std::move(page).error().error);
    for (const Seen& seen : page->instances) provider->Guard(seen);
    request.page_token = page->next_page_token;
  } while (!request.page_token.empty());
  return provider;
}

LocalProvider::LocalProvider(RealLoop& loop, std::unique_ptr<LocalHost> host, JobPool::Options pool)
    : loop_(loop),
      host_(std::move(host)),
      capabilities_{.kind = config::ProviderKind::kLocal,
                    .max_create_time = Duration::Seconds(5),
                    .consistency_window = Duration(),
                    .push_events = true},
      desk_(std::make_shared<Desk>()),
      pool_(std::make_unique<JobPool>(pool)) {
  desk_->provider = this;
}

LocalProvider::~LocalProvider() {
  pool_.reset();
  // What is posted already finds nobody.
  desk_->provider = nullptr;
  const auto dropped = std::exchange(desk_->waiting, {});
  const auto unwatched = std::exchange(desk_->watchers, {});
}

template <class T>
Pending LocalProvider::Answer(Done<T> done, ProviderResult<T> result) {
  const std::uint64_t id = desk_->next_id++;
  desk_->waiting.emplace(id, std::make_unique<Caller<T>>(std::move(done)));
  loop_.Post([desk = desk_, id, result = std::move(result)]() mutable {
    Caller<T>::Answer(*desk, id, std::move(result));
  });
  return Pending([desk = desk_, id] { const auto dropped = desk->Take(id); });
}

// A mutation planned by a leader of the past is not carried out.
std::optional<ProviderError> LocalProvider::RefuseOld(const ProviderCall& call) {
  if (call.epoch < epoch_) {
    return ProviderError{.error = FailedPrecondition(fmt::format(
                             "epoch {} is over: epoch {} was seen", call.epoch, epoch_))};
  }
  epoch_ = call.epoch;
  return std::nullopt;
}

template <class T>
std::uint64_t LocalProvider::Enter(const ProviderCall& call, Effect effect, Done<T> done) {
  const std::uint64_t id = desk_->next_id++;
  auto caller = std::make_unique<Caller<T>>(std::move(done));
  caller->deadline = loop_.CallAt(call.deadline, [this, id, effect] {
    const bool begun = !pool_->Withdraw(id);
    Caller<T>::Answer(*desk_, id,
                      std::unexpected(Late(begun && effect == Effect::kWrite ? Outcome::kMaybeDone
                                                                             : Outcome::kNotDone)));
  });
  desk_->waiting.emplace(id, std::move(caller));
  return id;
}

// `work` runs on a thread and gives R; `then` turns it into the answer, on the loop.
template <class T, class Work, class Then>
Pending LocalProvider::Ask(Question question, Done<T> done, Work work, Then then) {
  const ProviderCall& call = question.call;
  if (call.deadline <= loop_.Now()) {
    return Answer<T>(std::move(done), std::unexpected(Late(Outcome::kNotDone)));
  }
  const std::uint64_t id = Enter<T>(call, question.effect, std::move(done));
  const bool queued = pool_->Add(
      {.id = id,
       .tenant = call.tenant ? call.tenant->text() : std::string(),
       .key = std::move(question.key),
       .work = [host = host_.get(), &loop = loop_, desk = desk_, id, work = std::move(work),
                then = std::move(then)](const std::stop_token& stop) mutable {
         auto result = work(*host, stop);
         loop.Post([desk = std::move(desk), id, then = std::move(then),
                    result = std::move(result)]() mutable {
           // Also when nobody waits any more: what was seen is watched.
           if (desk->provider == nullptr) return;
           ProviderResult<T> answer = then(*desk->provider, std::move(result));
           Caller<T>::Answer(*desk, id, std::move(answer));
         });
       }});
  if (!queued) {
    loop_.Post([desk = desk_, id] {
      Caller<T>::Answer(*desk, id,
                        std::unexpected(ProviderError{
                            .error = Unavailable("too many calls of this tenant wait already")}));
    });
  }
  return Pending([desk = desk_, id] { const auto dropped = desk->Take(id); });
}

Pending LocalProvider::Create(ProviderCall call, ProviderCreate request,
                              Done<ProviderInstance> done) {
  if (auto old = RefuseOld(call))
    return Answer<ProviderInstance>(std::move(done), std::unexpected(*old));
  std::string key = request.instance_id.text();
  return Ask<ProviderInstance>(
      {call, Effect::kWrite, std::move(key)}, std::move(done),
      [request = std::move(request)](LocalHost& host, const std::stop_token& stop) {
        return host.Create(request, stop);
      },
      [](LocalProvider& self, ProviderResult<Seen> seen) -> ProviderResult<ProviderInstance> {
        if (!seen) return std::unexpected(std::move(seen).error());
        self.Guard(*seen);
        return std::move(seen->instance);
      });
}

Pending LocalProvider::Get(ProviderCall call, ProviderTarget target, Done<ProviderInstance> done) {
  return Ask<ProviderInstance>(
      {call, Effect::kRead, {}}, std::move(done),
      [target = std::move(target)](const LocalHost& host, const std::stop_token&) {
        return host.Look(target);
      },
      [](LocalProvider& self, ProviderResult<Seen> seen) -> ProviderResult<ProviderInstance> {
        if (!seen) return std::unexpected(std::move(seen).error());
        self.Guard(*seen);
        return std::move(seen->instance);
      });
}

Pending LocalProvider::List(ProviderCall call, ProviderListRequest request,
                            Done<ProviderPage> done) {
  return Ask<ProviderPage>(
      {call, Effect::kRead, {}}, std::move(done),
      [request = std::move(request)](const LocalHost& host, const std::stop_token&) {
        return host.List(request);
      },
      [](LocalProvider& self,
         ProviderResult<LocalHost::Page> page) -> ProviderResult<ProviderPage> {
        if (!page) return std::unexpected(std::move(page).error());
        ProviderPage answer{.next_page_token = std::move(page->next_page_token)};
        for (Seen& seen : page->instances) {
          self.Guard(seen);
          answer.instances.push_back(std::move(seen.instance));
        }
        return answer;
      });
}

Pending LocalProvider::Start(ProviderCall /*call*/, ProviderTarget /*target*/,
                             Done<ProviderPowered> done) {
  return Answer<ProviderPowered>(std::move(done), std::unexpected(NotOffered("power")));
}

Pending LocalProvider::Stop(ProviderCall /*call*/, ProviderTarget /*target*/,
                            Done<ProviderPowered> done) {
  return Answer<ProviderPowered>(std::move(done), std::unexpected(NotOffered("power")));
}

Pending LocalProvider::InstanceTypeArch(ProviderCall /*call*/, std::string /*instance_type*/,
                                        Done<std::optional<config::Arch>> done) {
  return Answer<std::optional<config::Arch>>(std::move(done), HostArch());
}

Pending LocalProvider::SubnetCapacity(ProviderCall /*call*/, std::string /*subnet*/,
                                      Done<std::optional<std::uint64_t>> done) {
  return Answer<std::optional<std::uint64_t>>(std::move(done), std::nullopt);
}

Pending LocalProvider::AssignLeaderNetwork(ProviderCall /*call*/, config::LeaderNetwork /*network*/,
                                           Done<void> done) {
  return Answer<void>(std::move(done), std::unexpected(NotOffered("leader network")));
}

Pending LocalProvider::ReleaseLeaderNetwork(ProviderCall /*call*/,
                                            config::LeaderNetwork /*network*/, Done<void> done) {
  return Answer<void>(std::move(done), std::unexpected(NotOffered("leader network")));
}

Pending LocalProvider::Watch(OnChange on_change) {
  const std::uint64_t id = desk_->next_id++;
  desk_->watchers.emplace(id, std::make_shared<OnChange>(std::move(on_change)));
  return Pending([desk = desk_, id] { const auto dropped = desk->watchers.extract(id); });
}

// ---- The end of an instance -------------------------------------------------------------------

void LocalProvider::Guard(const Seen& seen) {
  if (!seen.keeper || !seen.instance.instance_id) return;
  const InstanceId& id = *seen.instance.instance_id;
  if (const auto known = guarded_.find(id);
      known != guarded_.end() && known->second.keeper == *seen.keeper) {
    return;
  }
  Guarded guarded{.handle = provider_local::OpenProcess(*seen.keeper),
                  .watch = nullptr,
                  .keeper = *seen.keeper};
  if (!guarded.handle.is_open()) {
    // It has ended since it was seen, or there is no descriptor left: a look tells.
    provider_local::Reap(seen.keeper->pid);
    return LookAfterExit(id);
  }
  guarded.watch = loop_.Watch(guarded.handle.number(), {.readable = true},
                              [this, id](Readiness) { OnKeeperExit(InstanceId(id)); });
  guarded_.insert_or_assign(id, std::move(guarded));
}

void LocalProvider::OnKeeperExit(const InstanceId& id) {
  auto node = guarded_.extract(id);
  if (node.empty()) return;
  provider_local::Reap(node.mapped().keeper.pid);
  if (departures_.contains(id)) return StepDeparture(id);
  LookAfterExit(id);
}

void LocalProvider::LookAfterExit(const InstanceId& id) {
  (void)pool_->Add(
      {.work =
           [host = host_.get(), &loop = loop_, desk = desk_, id](const std::stop_token&) mutable {
             auto seen = host->Look({.instance_id = id});
             loop.Post([desk = std::move(desk), id, seen = std::move(seen)]() mutable {
               if (desk->provider == nullptr || desk->provider->departures_.contains(id)) return;
               if (seen) return desk->provider->Tell(seen->instance);
               if (seen.error().error.code != Code::kNotFound) return;
               desk->provider->Tell({.instance_id = id,
                                     .shown_id = id.text(),
                                     .provider_instance_id = desk->provider->host_->ProviderId(id),
                                     .status = ProviderStatus::kDeleted});
             });
           }},
      JobPool::Bound::kIgnored);
}

void LocalProvider::Tell(const ProviderInstance& instance) {
  // A callback may end its own or another watch.
  std::vector<std::uint64_t> ids;
  ids.reserve(desk_->watchers.size());
  for (const auto& [id, watcher] : desk_->watchers) ids.push_back(id);
  const std::shared_ptr<Desk> desk = desk_;
  for (const std::uint64_t id : ids) {
    const auto at = desk->watchers.find(id);
    if (at == desk->watchers.end()) continue;
    const std::shared_ptr<OnChange> watcher = at->second;
    (*watcher)(instance);
  }
}

// ---- Deletion ---------------------------------------------------------------------------------

Pending LocalProvider::Delete(ProviderCall call, ProviderTarget target,
                              Done<ProviderDeleted> done) {
  if (auto old = RefuseOld(call))
    return Answer<ProviderDeleted>(std::move(done), std::unexpected(*old));
  if (call.deadline <= loop_.Now()) {
    return Answer<ProviderDeleted>(std::move(done), std::unexpected(Late(Outcome::kNotDone)));
  }
  const InstanceId id = target.instance_id;
  const auto known = departures_.find(id);
  if (known != departures_.end() &&
      known->second.target.provider_instance_id != target.provider_instance_id &&
      !target.provider_instance_id.empty() &&
      target.provider_instance_id != host_->ProviderId(id)) {
    // Not what is being deleted; the host finds the words.
    auto refused = host_->Remove(target, Urge::kWait);
    if (!refused) return Answer<ProviderDeleted>(std::move(done), std::unexpected(refused.error()));
  }
  const std::uint64_t caller = Enter<ProviderDeleted>(call, Effect::kWrite, std::move(done));
  if (known != departures_.end()) {
    known->second.callers.push_back(caller);
  } else {
    departures_.emplace(
        id, Departure{.target = std::move(target), .callers = {caller}, .pause = kFirstPause});
    StepDeparture(id);
  }
  return Pending([desk = desk_, caller] { const auto dropped = desk->Take(caller); });
}

void LocalProvider::StepDeparture(const InstanceId& id) {
  Departure& departure = departures_.at(id);
  if (departure.stepping) {
    departure.again = true;
    return;
  }
  departure.stepping = true;
  departure.timer.Cancel();
  const Urge urge = !departure.asked                  ? Urge::kAsk
                    : loop_.Now() < departure.kill_at ? Urge::kWait
                                                      : Urge::kKill;
  (void)pool_->Add(
      {.key = id.text(),
       .work =
           [host = host_.get(), &loop = loop_, desk = desk_, id, urge,
            target = departure.target](const std::stop_token&) mutable {
             auto result = host->Remove(target, urge);
             loop.Post([desk = std::move(desk), id, result = std::move(result)]() mutable {
               if (desk->provider == nullptr) return;
               desk->provider->OnDepartureStep(id, std::move(result));
             });
           }},
      JobPool::Bound::kIgnored);
}

void LocalProvider::OnDepartureStep(const InstanceId& id, ProviderResult<LeavingReport> result) {
  Departure& departure = departures_.at(id);
  departure.stepping = false;
  if (!result) return FinishDeparture(id, std::unexpected(std::move(result).error()));
  if (result->state != Leaving::kAlive) {
    const bool ours = result->state == Leaving::kGone || departure.asked;
    return FinishDeparture(id, ours ? ProviderDeleted::kDone : ProviderDeleted::kAlreadyGone);
  }
  if (!departure.asked) {
    departure.asked = true;
    departure.kill_at = loop_.Now() + host_->options().options.kill_grace;
  }
  if (result->keeper) {
    Guard({.instance = {.instance_id = id}, .keeper = result->keeper});
  }
  if (std::exchange(departure.again, false)) return StepDeparture(id);
  // The keeper's end wakes us; without one, and in case of doubt, a look now and then does.
  const Duration until_kill = departure.kill_at - loop_.Now();
  Duration pause = departure.pause;
  if (until_kill > Duration()) pause = std::min(pause, until_kill);
  departure.pause = std::min(departure.pause * 2, kLongestPause);
  departure.timer = loop_.CallAfter(pause, [this, id = InstanceId(id)] { StepDeparture(id); });
}

void LocalProvider::FinishDeparture(const InstanceId& finished,
                                    ProviderResult<ProviderDeleted> result) {
  const auto node = departures_.extract(finished);
  const InstanceId& id = node.key();  // `finished` may be a part of what the callers drop.
  const std::shared_ptr<Desk> desk = desk_;
  for (const std::uint64_t caller : node.mapped().callers) {
    Caller<ProviderDeleted>::Answer(*desk, caller, result);
  }
  if (desk->provider == nullptr || !result || *result != ProviderDeleted::kDone) return;
  Tell({.instance_id = id,
        .shown_id = id.text(),
        .provider_instance_id = host_->ProviderId(id),
        .status = ProviderStatus::kDeleted});
}

int RunLocalKeeper(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) return 2;
  return provider_local::RunKeeper({.folder = arguments.front()});
}

}  // namespace nstance
