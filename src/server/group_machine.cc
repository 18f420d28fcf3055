#include "server/group_machine.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/overloaded.h"
#include "core/config/load.h"
#include "core/group/group_merge.h"
#include "crypto/checksum.h"

namespace nstance {
namespace {

using config::DynamicGroup;
using config::DynamicGroups;

// Quicker than the server's usual back-off: a take-over waits for it.
constexpr BackOff::Limits kStoreBackOff = {.first = Duration::Milliseconds(250),
                                           .cap = Duration::Seconds(5)};
constexpr Duration kConflictWait = Duration::Milliseconds(20);
// The reader's limit. A little below it, since the size of a draft is an estimate.
constexpr std::size_t kMaxBytes = config::kMaxConfigBytes - 1'024;

const DynamicGroup* Find(const DynamicGroups& groups, const TenantId& tenant, const GroupKey& key) {
  const auto of_tenant = groups.find(tenant);
  if (of_tenant == groups.end()) return nullptr;
  const auto group = of_tenant->second.find(key);
  return group == of_tenant->second.end() ? nullptr : &group->second;
}

const config::GroupLayer* FindStatic(const config::Config& config, const TenantId& tenant,
                                     const GroupKey& key) {
  const auto of_tenant = config.groups.find(tenant);
  if (of_tenant == config.groups.end()) return nullptr;
  const auto group = of_tenant->second.find(key);
  return group == of_tenant->second.end() ? nullptr : &group->second;
}

// What one group takes in the object, and a little more.
std::size_t BytesOf(const TenantId& tenant, const GroupKey& key, const DynamicGroup* group) {
  if (group == nullptr) return 0;
  DynamicGroups alone;
  alone[tenant].emplace(key, *group);
  return config::EncodeDynamicGroups(alone, {}).size();
}

bool Erase(DynamicGroups& groups, const TenantId& tenant, const GroupKey& key) {
  const auto of_tenant = groups.find(tenant);
  if (of_tenant == groups.end() || of_tenant->second.erase(key) == 0) return false;
  if (of_tenant->second.empty()) groups.erase(of_tenant);
  return true;
}

bool IsRefresh(const GroupChange& change) { return std::holds_alternative<GroupRefresh>(change); }

bool HasGroups(const DynamicGroups& groups) {
  return std::ranges::any_of(groups, [](const auto& tenant) { return !tenant.second.empty(); });
}

Error NotUsable(const std::vector<config::Problem>& problems, const std::string& file) {
  return FailedPrecondition(config::Format(problems.front(), file));
}

}  // namespace

GroupMachine::GroupMachine(Options options, Prng& jitter)
    : options_(std::move(options)), jitter_(jitter), back_off_(kStoreBackOff) {}

// ---- steps --------------------------------------------------------------------------------------

GroupStep GroupMachine::Leave(GroupStep step) const {
  step.wake_at = wake_at_;
  return step;
}

GroupStep GroupMachine::ReadNow(GroupStep step) {
  state_ = State::kReading;
  wake_at_ = Instant::Never();
  step.call = GroupStep::Read{};
  return Leave(std::move(step));
}

GroupStep GroupMachine::WaitFor(Duration length, const Input& input, GroupStep step) {
  state_ = State::kWaiting;
  wake_at_ = input.now + length;
  return Leave(std::move(step));
}

void GroupMachine::FailEach(const std::vector<Ticket>& tickets, const Error& error,
                            GroupStep& step) {
  for (const Ticket& ticket : tickets) {
    step.settled.push_back({.ticket = ticket.number, .answer = Fail(error)});
  }
}

void GroupMachine::FailWaiting(const Error& error, GroupStep& step) {
  for (const Ticket& ticket : waiting_) {
    step.settled.push_back({.ticket = ticket.number, .answer = Fail(error)});
  }
  waiting_.clear();
}

void GroupMachine::TakeOver(GroupStep& step) {
  if (std::exchange(took_over_, true)) return;
  step.news = GroupStep::TookOver{};
}

void GroupMachine::Publish(GroupStep& step) {
  if (config_ == nullptr || !took_over_) return;
  const bool same = published_ != nullptr && published_->config == config_ &&
                    published_->dynamic == base_.groups && published_->dynamic_invalid == broken_;
  if (same) return;
  if (published_ != nullptr && published_->config != config_) AtStep(Step::kK4);
  published_ = BuildGroups({.config = config_, .dynamic = base_.groups, .dynamic_invalid = broken_},
                           published_);
  step.published = published_;
}

// ---- events -------------------------------------------------------------------------------------

GroupStep GroupMachine::Start(const Input& /*input*/) {
  CHECK(state_ == State::kNew, "started twice");
  return ReadNow({});
}

GroupStep GroupMachine::OnTime(const Input& input) {
  if (wake_at_ == Instant::Never() || input.now < wake_at_) return Leave({});
  CHECK(state_ == State::kWaiting || state_ == State::kBroken, "state {}",
        static_cast<int>(state_));
  return ReadNow({});
}

GroupStep GroupMachine::SetConfig(ConfigRef config, const Input& /*input*/) {
  CHECK(config != nullptr, "no configuration");
  config_ = std::move(config);
  GroupStep step;
  Publish(step);
  return Leave(std::move(step));
}

Result<GroupMachine::Ticket> GroupMachine::Admit(std::uint64_t number, GroupChange change) const {
  if (state_ == State::kLost) return Fail(Unavailable("another server leads now"));
  if (!took_over_ || config_ == nullptr) return Fail(Unavailable("take-over is not complete"));
  if (broken_ && !IsRefresh(change)) return Fail(*broken_);
  Ticket ticket{.number = number, .change = std::move(change)};
  if (const auto* upsert = std::get_if<GroupUpsert>(&ticket.change);
      upsert != nullptr && !upsert->request_id.empty()) {
    if (upsert->request_id.size() > kMaxRequestIdBytes) {
      return Fail(InvalidArgument(fmt::format("request_id: {} bytes; at most {}",
                                              upsert->request_id.size(), kMaxRequestIdBytes)));
    }
    ticket.content = ContentOf(upsert->request);
  }
  return ticket;
}

GroupStep GroupMachine::Submit(std::uint64_t ticket, GroupChange change) {
  GroupStep step;
  Result<Ticket> admitted = Admit(ticket, std::move(change));
  if (admitted.has_value() && waiting_.size() >= kMaxWaiting) {
    admitted =
        Fail(ResourceExhausted(fmt::format("{} changes of groups wait already", kMaxWaiting)));
  }
  if (admitted.has_value()) {
    waiting_.push_back(std::move(admitted).value());
  } else {
    step.settled.push_back({.ticket = ticket, .answer = Fail(std::move(admitted).error())});
  }
  return Leave(std::move(step));
}

Result<GroupsRef> GroupMachine::Preview(GroupChange change) const {
  ASSIGN_OR_RETURN(const Ticket ticket, Admit(0, std::move(change)));
  Draft draft{.groups = base_.groups, .config = config_, .bytes = base_.bytes};
  ASSIGN_OR_RETURN(const bool changes, ApplyTo(draft, ticket));
  if (!changes) return published_;
  return BuildGroups(
      {.config = draft.config, .dynamic = std::move(draft.groups), .dynamic_invalid = broken_},
      published_);
}

GroupStep GroupMachine::Commit(const Input& input) {
  CHECK(wants_commit(), "state {}", static_cast<int>(state_));
  return Next(input, {});
}

// What to do with those who wait, now that no call is under way.
GroupStep GroupMachine::Next(const Input& input, GroupStep step) {
  const bool refresh = std::ranges::any_of(waiting_, IsRefresh, &Ticket::change);
  if (refresh) return ReadNow(std::move(step));
  return Begin(input, std::move(step));
}

// ---- reading ------------------------------------------------------------------------------------

GroupStep GroupMachine::OnRead(ReadAnswer answer, const Input& input) {
  CHECK(state_ == State::kReading, "state {}", static_cast<int>(state_));
  if (answer) return Take(*std::move(answer), input);
  GroupStep step;
  FailWaiting(Unavailable(answer.error().message).Under("reading " + options_.file), step);
  if (broken_) return StayBroken(input, std::move(step));
  // Also when the base is as good as before (a refresh): the next write must not be the first to
  // notice that the store is away.
  return WaitFor(back_off_.Next(jitter_), input, std::move(step));
}

GroupStep GroupMachine::Take(std::optional<Found> found, const Input& input) {
  if (!found) {
    if (base_.version && HasGroups(base_.groups)) {
      return Break(FailedPrecondition(fmt::format(
                       "{}: the object has vanished; restore it, or write {{}} to remove all "
                       "dynamic groups",
                       options_.file)),
                   input);
    }
    base_ = Base{};
    must_write_ = true;
  } else {
    config::DynamicGroupsResult decoded = config::DecodeDynamicGroups(found->bytes);
    if (!decoded.groups) return Break(NotUsable(decoded.errors, options_.file), input);
    const bool higher = decoded.stamp && decoded.stamp->epoch > options_.epoch;
    if (higher && !Planted(Plant::kDropsEpochCheck)) {
      GroupStep step;
      state_ = State::kLost;
      wake_at_ = Instant::Never();
      FailWaiting(Unavailable("another server leads now"), step);
      step.news = GroupStep::Lost{.epoch = decoded.stamp->epoch};
      return Leave(std::move(step));
    }
    base_ = Base{.groups = *std::move(decoded.groups),
                 .version = std::move(found->version),
                 .bytes = found->bytes.size()};
  }
  broken_.reset();
  back_off_.Reset();
  return Begin(input, {});
}

// The object stays as it is. What was last good is shown, under a hold.
GroupStep GroupMachine::Break(Error why, const Input& input) {
  GroupStep step;
  FailWaiting(why, step);
  const bool first = !broken_ && !took_over_;
  broken_ = std::move(why);
  must_write_ = true;
  wake_at_ = Instant::Never();
  if (!first) return StayBroken(input, std::move(step));
  state_ = State::kReadingCopy;
  step.call = GroupStep::ReadCopy{};
  return Leave(std::move(step));
}

GroupStep GroupMachine::OnCopy(Result<std::string> bytes, const Input& input) {
  CHECK(state_ == State::kReadingCopy, "state {}", static_cast<int>(state_));
  if (bytes) {
    config::DynamicGroupsResult decoded = config::DecodeDynamicGroups(*bytes);
    if (decoded.groups) base_.groups = *std::move(decoded.groups);
  }
  GroupStep step;
  TakeOver(step);
  return StayBroken(input, std::move(step));
}

GroupStep GroupMachine::StayBroken(const Input& input, GroupStep step) {
  state_ = State::kBroken;
  wake_at_ = input.now + kBrokenInterval;
  Publish(step);
  return Leave(std::move(step));
}

// ---- judging ------------------------------------------------------------------------------------

RequestMemory::Verdict GroupMachine::LookUp(const Draft& draft, const GroupUpsert& upsert,
                                            const std::string& content) const {
  for (const Ticket& ticket : draft.accepted) {
    const auto* other = std::get_if<GroupUpsert>(&ticket.change);
    if (other == nullptr || other->request_id != upsert.request_id ||
        other->tenant != upsert.tenant || other->key != upsert.key) {
      continue;
    }
    return ticket.content == content ? RequestMemory::Verdict::kRepeat
                                     : RequestMemory::Verdict::kOtherContent;
  }
  return memory_.Look(upsert.tenant, upsert.key, upsert.request_id, content);
}

Result<bool> GroupMachine::UpsertIn(Draft& draft, const GroupUpsert& upsert,
                                    const std::string& content) const {
  if (!upsert.request_id.empty()) {
    const RequestMemory::Verdict verdict = LookUp(draft, upsert, content);
    if (verdict == RequestMemory::Verdict::kRepeat) return false;
    if (verdict == RequestMemory::Verdict::kOtherContent) {
      return Fail(AlreadyExists("request_id: used before with other content; use a new one"));
    }
  }
  const config::Config& config = draft.config->config;
  const UpsertWorld world{
      .config = config, .arch_of = options_.arch_of, .is_pool = [&](const GroupKey& key) {
        const auto group = MergeGroup(FindStatic(config, upsert.tenant, key),
                                      Find(draft.groups, upsert.tenant, key));
        return group && group->layer.pool;
      }};
  const DynamicGroup* before = Find(draft.groups, upsert.tenant, upsert.key);
  const GroupLayers layers{.static_layer = FindStatic(config, upsert.tenant, upsert.key),
                           .dynamic = before};
  ASSIGN_OR_RETURN(UpsertResult result, ApplyUpsert(world, layers, upsert.request));
  if (!result.changed) return false;
  const std::size_t bytes = draft.bytes -
                            std::min(draft.bytes, BytesOf(upsert.tenant, upsert.key, before)) +
                            BytesOf(upsert.tenant, upsert.key, &result.dynamic);
  if (bytes > kMaxBytes && bytes > draft.bytes) {
    return Fail(ResourceExhausted(
        fmt::format("the groups of the shard would take {} bytes; at most {}", bytes, kMaxBytes)));
  }
  draft.bytes = bytes;
  draft.groups[upsert.tenant].insert_or_assign(upsert.key, std::move(result.dynamic));
  return true;
}

Result<bool> GroupMachine::ApplyTo(Draft& draft, const Ticket& ticket) const {
  return std::visit(
      Overloaded{
          [&](const GroupUpsert& upsert) { return UpsertIn(draft, upsert, ticket.content); },
          [&](const GroupDelete& group) -> Result<bool> {
            return Erase(draft.groups, group.tenant, group.key);
          },
          [&](const GroupRefresh& refresh) -> Result<bool> {
            draft.groups = DynamicAfterReload(draft.config->config, refresh.config->config,
                                              std::move(draft.groups));
            const bool other = draft.config != refresh.config;
            draft.config = refresh.config;
            draft.config_is_new = draft.config_is_new || other;
            return other;
          },
      },
      ticket.change);
}

void GroupMachine::Judge(Draft& draft, Ticket ticket, GroupStep& step) const {
  if (!IsRefresh(ticket.change)) AtStep(Step::kG2);
  Result<bool> changes = ApplyTo(draft, ticket);
  if (!changes) {
    step.settled.push_back({.ticket = ticket.number, .answer = Fail(std::move(changes).error())});
    return;
  }
  ticket.changes = *changes;
  draft.accepted.push_back(std::move(ticket));
}

// ---- writing ------------------------------------------------------------------------------------

GroupStep GroupMachine::Begin(const Input& input, GroupStep step) {
  if (input.budget == Budget::kSpent) {
    FailWaiting(Unavailable("the lease is about to end; try again"), step);
    Publish(step);
    if (must_write_) return WaitFor(back_off_.Next(jitter_), input, std::move(step));
    state_ = State::kIdle;
    wake_at_ = Instant::Never();
    return Leave(std::move(step));
  }
  Draft draft{.groups = base_.groups, .config = config_, .bytes = base_.bytes};
  // A configuration comes before the changes that may have been made for it.
  std::ranges::stable_partition(waiting_, IsRefresh, &Ticket::change);
  for (Ticket& ticket : std::exchange(waiting_, {})) Judge(draft, std::move(ticket), step);
  if (must_write_ || draft.groups != base_.groups) {
    return Write(std::move(draft), input, std::move(step));
  }
  Succeed(std::move(draft), step);
  state_ = State::kIdle;
  wake_at_ = Instant::Never();
  return Leave(std::move(step));
}

GroupStep GroupMachine::Write(Draft draft, const Input& input, GroupStep step) {
  const config::GroupsStamp stamp{
      .epoch = options_.epoch, .seq = input.seq, .write_id = crypto::WriteIdText(input.entropy)};
  draft_ = std::move(draft);
  if (Planted(Plant::kAnswersBeforeDurable)) {
    for (const Ticket& ticket : std::exchange(draft_.accepted, {})) {
      step.settled.push_back(
          {.ticket = ticket.number, .answer = GroupAnswer{.groups = published_, .changed = true}});
    }
  }
  draft_bytes_ = config::EncodeDynamicGroups(draft_.groups, stamp);
  state_ = State::kWriting;
  wake_at_ = Instant::Never();
  PutCondition condition = IfAbsent{};
  if (base_.version) condition = IfVersion{*base_.version};
  step.call = GroupStep::Write{.bytes = draft_bytes_, .condition = std::move(condition)};
  return Leave(std::move(step));
}

// The draft is what the store holds.
void GroupMachine::Succeed(Draft draft, GroupStep& step) {
  base_.groups = std::move(draft.groups);
  if (draft.config_is_new) config_ = std::move(draft.config);
  Publish(step);
  for (Ticket& ticket : draft.accepted) {
    if (const auto* upsert = std::get_if<GroupUpsert>(&ticket.change);
        upsert != nullptr && !upsert->request_id.empty()) {
      memory_.Note(upsert->tenant, upsert->key, upsert->request_id, std::move(ticket.content));
    }
    if (const auto* gone = std::get_if<GroupDelete>(&ticket.change)) {
      memory_.Forget(gone->tenant, gone->key);
    }
    step.settled.push_back(
        {.ticket = ticket.number,
         .answer = GroupAnswer{.groups = published_, .changed = ticket.changes}});
  }
}

GroupStep GroupMachine::OnWrite(Result<ObjectVersion> answer, const Input& input) {
  CHECK(state_ == State::kWriting, "state {}", static_cast<int>(state_));
  GroupStep step;
  if (answer) {
    base_.version = *std::move(answer);
    base_.bytes = draft_bytes_.size();
    must_write_ = false;
    back_off_.Reset();
    step.keep_copy = std::move(draft_bytes_);
    TakeOver(step);
    Succeed(std::exchange(draft_, {}), step);
    return Next(input, std::move(step));
  }
  if (answer.error().code == Code::kAborted) return Conflict(input, std::move(step));
  Error error = std::move(answer).error();
  FailEach(std::exchange(draft_.accepted, {}), error, step);
  // What may still land is kept out by a write of its own, after a look at what is there.
  if (error.outcome == Outcome::kMaybeDone) must_write_ = true;
  if (must_write_) return WaitFor(back_off_.Next(jitter_), input, std::move(step));
  return Next(input, std::move(step));
}

// Another write stands: a newer leader's, a person's, or one of ours that was given up.
GroupStep GroupMachine::Conflict(const Input& input, GroupStep step) {
  std::vector<Ticket> tickets = std::exchange(draft_.accepted, {});
  std::deque<Ticket> again;
  int most = 1;
  for (Ticket& ticket : tickets) {
    if (++ticket.retries > kMaxRetries) {
      step.settled.push_back(
          {.ticket = ticket.number,
           .answer = Fail(Aborted(fmt::format("{}: somebody else wrote first, {} times",
                                              options_.file, ticket.retries)))});
    } else {
      most = std::max(most, ticket.retries);
      again.push_back(std::move(ticket));
    }
  }
  std::ranges::move(waiting_, std::back_inserter(again));
  waiting_ = std::move(again);
  const Duration longest = kConflictWait * most;
  return WaitFor(longest + jitter_.get().UpTo(longest), input, std::move(step));
}

}  // namespace nstance
