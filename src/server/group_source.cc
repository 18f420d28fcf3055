#include "server/group_source.h"

#include <variant>

#include "base/fault_point.h"
#include "base/overloaded.h"

namespace nstance {
namespace {

GroupMachine::ReadAnswer ToAnswer(Result<Object> object) {
  if (object) {
    return GroupMachine::Found{.bytes = std::move(object->bytes),
                               .version = std::move(object->version)};
  }
  if (object.error().code == Code::kNotFound) return std::nullopt;
  return Fail(std::move(object).error());
}

}  // namespace

GroupSource::GroupSource(Deps deps, Options options, Owner owner)
    : deps_(std::move(deps)),
      options_(std::move(options)),
      owner_(std::move(owner)),
      machine_({.epoch = options_.epoch,
                .file = options_.key.text(),
                .arch_of = std::move(options_.arch_of)},
               deps_.jitter) {}

GroupMachine::Input GroupSource::Input() {
  const bool open = owner_.may_start(options_.store_timeout);
  return {.now = deps_.loop.Now(),
          .entropy = deps_.random.Array<std::tuple_size_v<GroupMachine::Entropy>>(),
          .seq = owner_.seq(),
          .budget = open ? GroupMachine::Budget::kOpen : GroupMachine::Budget::kSpent};
}

void GroupSource::SetConfig(ConfigRef config) {
  Do(machine_.SetConfig(std::move(config), Input()));
}

void GroupSource::Submit(GroupChange change, Done done) {
  const std::uint64_t ticket = next_ticket_++;
  done_.emplace(ticket, std::move(done));
  GroupStep step = machine_.Submit(ticket, std::move(change));
  // Nobody is answered from inside the call.
  for (GroupStep::Settled& settled : step.settled) refused_.push_back(std::move(settled));
  step.settled.clear();
  Do(std::move(step));
}

void GroupSource::Do(GroupStep step) {
  timer_ = Pending();
  if (step.wake_at != Instant::Never()) {
    timer_ = deps_.loop.CallAt(step.wake_at, [this] { Do(machine_.OnTime(Input())); });
  }
  Call(step);
  if (step.keep_copy) {
    copy_waits_ = std::move(step.keep_copy);
    KeepCopy();
  }
  if (!turn_armed_ && (machine_.wants_commit() || !refused_.empty())) {
    turn_armed_ = true;
    turn_ = deps_.loop.CallAfter(Duration(), [this] { Turn(); });
  }
  Tell(step);
}

// Everything that was submitted in one turn is looked at in the next.
void GroupSource::Turn() {
  turn_armed_ = false;
  for (GroupStep::Settled& settled : std::exchange(refused_, {})) Answer(settled);
  if (machine_.wants_commit()) Do(machine_.Commit(Input()));
}

void GroupSource::Call(GroupStep& step) {
  std::visit(
      Overloaded{
          [](GroupStep::Nothing) {},
          [this](GroupStep::Read) {
            AtStep(machine_.took_over() ? Step::kG3 : Step::kL4);
            call_ = deps_.store.Get(options_.key, [this](Result<Object> object) {
              if (Planted(Plant::kGroupsFromCache) && object && !machine_.took_over()) {
                return TakeCopyInstead(*std::move(object));
              }
              Do(machine_.OnRead(ToAnswer(std::move(object)), Input()));
            });
          },
          [this](GroupStep::ReadCopy) {
            call_ = deps_.cache.Read(kGroupsCacheName, [this](Result<std::string> bytes) {
              Do(machine_.OnCopy(std::move(bytes), Input()));
            });
          },
          [this](GroupStep::Write& write) {
            put_.emplace(
                SettledPut::Deps{.loop = deps_.loop, .store = deps_.store, .jitter = deps_.jitter},
                SettledPut::Request{.put = {.key = options_.key,
                                            .bytes = std::move(write.bytes),
                                            .condition = std::move(write.condition)},
                                    .deadline = deps_.loop.Now() + options_.settle_limit},
                [this](Result<ObjectVersion> answer) {
                  Do(machine_.OnWrite(std::move(answer), Input()));
                });
            AtStep(machine_.took_over() ? Step::kG4 : Step::kL4);
            put_->Start();
          },
      },
      step.call);
}

// A planted bug, and nothing else.
void GroupSource::TakeCopyInstead(Object object) {
  copy_ = deps_.cache.Read(kGroupsCacheName, [this, object](Result<std::string> bytes) mutable {
    if (bytes) object.bytes = *std::move(bytes);
    Do(machine_.OnRead(ToAnswer(std::move(object)), Input()));
  });
}

void GroupSource::Answer(GroupStep::Settled& settled) {
  auto done = done_.extract(settled.ticket);
  if (!done.empty()) done.mapped()(std::move(settled.answer));
}

// The owner's word on leadership is the last thing, since it may destroy us.
void GroupSource::Tell(GroupStep& step) {
  const bool took_over = std::holds_alternative<GroupStep::TookOver>(step.news);
  if (took_over) owner_.took_over();
  if (step.published != nullptr) {
    if (step.published->dynamic_invalid) {
      deps_.log.Error("groups object cannot be used; dynamic groups are held",
                      {{"error", *step.published->dynamic_invalid}});
    }
    AtStep(Step::kG5);
    owner_.published(step.published);
  }
  for (GroupStep::Settled& settled : step.settled) Answer(settled);
  if (const auto* lost = std::get_if<GroupStep::Lost>(&step.news)) {
    auto tell = std::move(owner_.lost);
    tell(lost->epoch);
  }
}

void GroupSource::KeepCopy() {
  if (copy_under_way_ || !copy_waits_) return;
  copy_under_way_ = true;
  std::string bytes = *std::exchange(copy_waits_, std::nullopt);
  copy_ = deps_.cache.Write(kGroupsCacheName, std::move(bytes), [this](const Status& status) {
    copy_under_way_ = false;
    if (!status) {
      deps_.log.Warning("groups not kept in the cache folder", {{"error", status.error()}});
    }
    KeepCopy();
  });
}

}  // namespace nstance
