#include "admin/shard/instance_goals.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

void AskInstanceHolds(ShardCaller& caller, Instant deadline, const std::string& id,
                      WaitGoal::Held held) {
  const api::ExplainRequest request{.subject = api::ExplainRequest::InstanceId{.text = id}};
  caller.Call(api::kExplain, request, deadline,
              [held = std::move(held)](Result<api::ExplainResponse> explained) mutable {
                if (!explained) return held(Fail(explained.error()));
                held(std::move(explained->holds));
              });
}

bool IsGone(const Result<api::InstanceStatusResponse>& status) {
  if (!status) return status.error().code == Code::kNotFound;
  if (status->instance) return status->instance->phase == api::InstancePhase::kGone;
  return status->status == "deleted";
}

// What is known between the looks of those that are to go.
struct Leaving {
  std::vector<std::string> ids = {};  // Not known to be gone; the one to ask next is in front.
  std::size_t total = 0;
  std::map<std::string, std::string, std::less<>> phases = {};  // As last seen.
};

// Asks for one after the other, each that is not known to be gone: what is gone stays so. Time that
// runs out in the middle is no failure as long as something was heard; the next look begins where
// this one ended.
class GoneLook final : public Running {
 public:
  GoneLook(ShardCaller& caller, Instant deadline, Leaving& leaving, WaitGoal::Looked looked)
      : caller_(caller),
        deadline_(deadline),
        leaving_(leaving),
        left_(leaving.ids.size()),
        looked_(std::move(looked)) {
    Ask();
  }

 private:
  void Ask() {
    caller_.Call(api::kGetInstanceStatus, {.instance_id = leaving_.ids.front()}, deadline_,
                 [this](const Result<api::InstanceStatusResponse>& status) { OnStatus(status); });
  }

  void OnStatus(const Result<api::InstanceStatusResponse>& status) {
    if (!status && !IsGone(status)) {
      return answered_ > 0 ? Tell(Seen()) : Tell(Fail(status.error()));
    }
    ++answered_;
    --left_;
    std::string id = std::move(leaving_.ids.front());
    leaving_.ids.erase(leaving_.ids.begin());
    if (IsGone(status)) {
      leaving_.phases.erase(id);
    } else {
      leaving_.phases[id] =
          status->instance ? std::string(PhaseWord(status->instance->phase)) : status->status;
      leaving_.ids.push_back(std::move(id));
    }
    if (left_ > 0) return Ask();
    Tell(Seen());
  }

  [[nodiscard]] Progress Seen() const {
    const std::size_t gone = leaving_.total - leaving_.ids.size();
    Progress progress{.done = static_cast<int>(gone),
                      .total = static_cast<int>(leaving_.total),
                      .text = fmt::format("{}/{} gone", gone, leaving_.total)};
    if (leaving_.ids.empty()) progress.state = Progress::State::kReached;
    if (!leaving_.phases.empty()) {
      const auto& [id, phase] = *leaving_.phases.begin();
      progress.text += fmt::format("  {} {}", id, phase);
    }
    return progress;
  }

  void Tell(Result<Progress> progress) {
    auto looked = std::move(looked_);
    looked(std::move(progress));
  }

  ShardCaller& caller_;
  Instant deadline_;
  Leaving& leaving_;
  std::size_t left_;  // To be asked in this look.
  WaitGoal::Looked looked_;
  std::size_t answered_ = 0;
};

// Holds of those that are not gone, one after the other: of so many at most.
class HoldsOfMany final : public std::enable_shared_from_this<HoldsOfMany> {
 public:
  static constexpr std::size_t kMost = 8;
  struct Question {
    ShardCaller& caller;
    Instant deadline;
    std::vector<std::string> ids = {};
  };

  static void Ask(Question question, WaitGoal::Held held) {
    if (question.ids.size() > kMost) question.ids.resize(kMost);
    std::make_shared<HoldsOfMany>(std::move(question), std::move(held))->Next();
  }
  HoldsOfMany(Question question, WaitGoal::Held held)
      : question_(std::move(question)), held_(std::move(held)) {}

 private:
  // The call under way keeps it alive.
  void Next() {
    AskInstanceHolds(question_.caller, question_.deadline, question_.ids[asked_],
                     [self = shared_from_this()](Result<std::vector<api::Hold>> holds) {
                       self->OnHolds(std::move(holds));
                     });
  }

  void OnHolds(Result<std::vector<api::Hold>> holds) {
    // It went meanwhile: then nothing holds it. Another error is told if it is all there is.
    if (holds) {
      found_.insert(found_.end(), holds->begin(), holds->end());
    } else if (holds.error().code != Code::kNotFound) {
      failed_ = holds.error();
    }
    if (!failed_ && ++asked_ < question_.ids.size()) return Next();
    if (failed_ && found_.empty()) return held_(Fail(*failed_));
    held_(std::move(found_));
  }

  Question question_;
  WaitGoal::Held held_;
  std::size_t asked_ = 0;
  std::vector<api::Hold> found_;
  std::optional<Error> failed_;
};

}  // namespace

Result<Progress> RegistrationOf(const Result<api::InstanceStatusResponse>& status) {
  if (!status) {
    if (status.error().code != Code::kNotFound) return Fail(status.error());
    return Progress{.state = Progress::State::kFailed, .total = 1, .why = "it is gone"};
  }
  if (!status->instance) return Progress{.total = 1, .text = status->status};
  const api::Instance& instance = *status->instance;
  Progress progress{.total = 1, .text = std::string(PhaseWord(instance.phase))};
  switch (instance.phase) {
    case api::InstancePhase::kRegistered:
      progress.state = Progress::State::kReached;
      progress.done = 1;
      break;
    case api::InstancePhase::kDraining:
    case api::InstancePhase::kDeleting:
    case api::InstancePhase::kGone:
    case api::InstancePhase::kFailed:
      progress.state = Progress::State::kFailed;
      progress.why = fmt::format("it is {}{}{}", progress.text, instance.reason.empty() ? "" : ": ",
                                 instance.reason);
      break;
    default: break;
  }
  return progress;
}

WaitGoal RegisteredGoal(const Session& session, std::size_t server, const std::string& id) {
  return {.server = server,
          .title = fmt::format("{}@{}", id, session.name(server)),
          .events = {.instance_id = id},
          .look =
              [id](ShardCaller& caller, Instant deadline, WaitGoal::Looked looked) {
                caller.Call(api::kGetInstanceStatus, {.instance_id = id}, deadline,
                            [looked = std::move(looked)](
                                const Result<api::InstanceStatusResponse>& status) mutable {
                              looked(RegistrationOf(status));
                            });
                return std::shared_ptr<Running>();
              },
          .holds =
              [id](ShardCaller& caller, Instant deadline, WaitGoal::Held held) {
                AskInstanceHolds(caller, deadline, id, std::move(held));
              }};
}

WaitGoal InstancesGoneGoal(const Session& session, std::size_t server,
                           const std::vector<std::string>& ids) {
  const std::string title = ids.size() == 1 ? ids.front() : Count(ids.size(), "instance");
  WaitGoal goal{.server = server, .title = fmt::format("{}@{}", title, session.name(server))};
  if (ids.size() == 1) goal.events.instance_id = ids.front();
  const auto leaving = std::make_shared<Leaving>(Leaving{.ids = ids, .total = ids.size()});
  goal.look = [leaving](ShardCaller& caller, Instant deadline, WaitGoal::Looked looked) {
    return std::make_shared<GoneLook>(caller, deadline, *leaving, std::move(looked));
  };
  goal.holds = [leaving](ShardCaller& caller, Instant deadline, WaitGoal::Held held) {
    HoldsOfMany::Ask({.caller = caller, .deadline = deadline, .ids = leaving->ids},
                     std::move(held));
  };
  return goal;
}

}  // namespace nstance::admin
