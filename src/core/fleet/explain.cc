#include "core/fleet/explain.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

namespace nstance::fleet {
namespace {

// Lines of a kind that a summary has room for.
constexpr std::size_t kMaxShown = 3;

std::string_view BecauseWord(std::string_view word) {
  const Result<Reason> reason = ParseReason(word);
  return reason.has_value() ? Because(*reason) : std::string_view();
}

// " because its group was deleted (group-deleted)"; empty without a reason.
std::string BecauseOf(std::string_view word) {
  if (word.empty()) return {};
  const std::string_view clause = BecauseWord(word);
  if (clause.empty()) return fmt::format(" because of {}", word);
  return fmt::format(" because {} ({})", clause, word);
}

bool IsRestraint(HoldCode code) {
  return code == HoldCode::kTenantUndefined || code == HoldCode::kConfigInvalid ||
         code == HoldCode::kConfigPending;
}

bool WaitsForReplacement(HoldCode code) {
  return code == HoldCode::kWaitingReplacement || code == HoldCode::kNoReplacement;
}

// What the sentence about the phase has said already.
bool IsSaidByPhase(const InstanceStory& story, HoldCode code) {
  return story.phase == InstancePhase::kDraining && code == HoldCode::kWaitingDrain;
}

// ---- the phases --------------------------------------------------------------------------------

std::string LastReport(const InstanceStory& story) {
  if (!story.last_report) return "no report has come to this leader";
  return fmt::format("its last report came {} ago", ForPeople(*story.last_report));
}

std::string RegisteredSentence(const InstanceStory& story) {
  switch (story.health) {
    case HealthState::kHealthy:
      return fmt::format("Running and healthy, registered since {}; {}.", ForPeople(story.in_phase),
                         LastReport(story));
    case HealthState::kUnknown:
      return fmt::format("Registered since {}, but its health is not known yet: {}.",
                         ForPeople(story.in_phase), LastReport(story));
    case HealthState::kLate:
      return fmt::format(
          "Registered, but its agent is late: {}. The provider is asked about it, and it is "
          "replaced if the silence lasts.",
          LastReport(story));
    case HealthState::kDisconnected:
      return fmt::format(
          "Registered, but its agent is disconnected: {}. The provider is asked about it, and it "
          "is replaced if the agent does not come back.",
          LastReport(story));
    case HealthState::kStale:
      return fmt::format("Registered, but its agent is silent: {}.", LastReport(story));
    case HealthState::kTerminating: break;
  }
  return "Registered, but the provider announced its termination.";
}

std::string DrainingSentence(const InstanceStory& story) {
  std::string out =
      fmt::format("Draining since {}{}; ", ForPeople(story.in_phase), BecauseOf(story.reason));
  if (story.acked) return out + "the operator has acknowledged, and it is deleted now.";
  if (!story.deleted_in || *story.deleted_in <= Duration()) {
    return out + "its time is over, and it is deleted now.";
  }
  return out + fmt::format("it will be deleted in {} or when the operator acknowledges.",
                           ForPeople(*story.deleted_in));
}

std::string ProvisionedSentence(const InstanceStory& story) {
  std::string out = fmt::format("Made by the provider {} ago; its agent has not registered yet.",
                                ForPeople(story.in_phase));
  if (story.register_in) {
    out +=
        fmt::format(" If it does not within {}, the instance is deleted{}.",
                    ForPeople(*story.register_in), story.on_demand ? "" : " and another one made");
  }
  return out;
}

std::string IntendedSentence(const InstanceStory& story) {
  const std::string_view next = !story.durable ? "its creation begins when the decision is durable"
                                : story.in_queue ? "it waits for its turn to be created"
                                                 : "its creation begins";
  return fmt::format("Decided on {} ago{}; {}.", ForPeople(story.in_phase), BecauseOf(story.reason),
                     next);
}

std::string CreatingSentence(const InstanceStory& story) {
  if (story.in_queue) {
    return fmt::format("Recorded {} ago; it waits for its turn to be created.",
                       ForPeople(story.in_phase));
  }
  return fmt::format("Being created since {}; the provider has not answered yet.",
                     ForPeople(story.in_phase));
}

std::string GoneSentence(const InstanceStory& story) {
  if (!story.failure.empty()) {
    return fmt::format("Gone since {}: its creation came to nothing ({}).",
                       ForPeople(story.in_phase), Shortened(story.failure));
  }
  return fmt::format("Deleted {} ago{}.", ForPeople(story.in_phase), BecauseOf(story.reason));
}

std::string FailedSentence(const InstanceStory& story) {
  return fmt::format("Could not be created, {} ago: {}.{}", ForPeople(story.in_phase),
                     story.failure.empty() ? "the provider refused it" : Shortened(story.failure),
                     story.on_demand ? " Ask for a new one when the cause is mended."
                                     : " Another one is made under a new id.");
}

std::string PhaseSentence(const InstanceStory& story) {
  if (story.corrupt) {
    return "Its record does not read; nothing is done with it before a person decides.";
  }
  switch (story.phase) {
    case InstancePhase::kIntended: return IntendedSentence(story);
    case InstancePhase::kCreating: return CreatingSentence(story);
    case InstancePhase::kProvisioned: return ProvisionedSentence(story);
    case InstancePhase::kRegistered: return RegisteredSentence(story);
    case InstancePhase::kDraining: return DrainingSentence(story);
    case InstancePhase::kDeleting:
      return fmt::format("Being deleted since {}{}; it is gone when the provider confirms.",
                         ForPeople(story.in_phase), BecauseOf(story.reason));
    case InstancePhase::kGone: return GoneSentence(story);
    case InstancePhase::kFailed: break;
  }
  return FailedSentence(story);
}

// ---- what comes next ---------------------------------------------------------------------------

bool IsTold(const Action& action) { return action.kind != ActionKind::kLook; }

// "Next: drain knc...: its group was deleted."
void AppendActions(std::string& out, const Plan& plan) {
  std::size_t shown = 0;
  for (const Action& action : plan.actions) {
    if (!IsTold(action) || ++shown > kMaxShown) continue;
    out += fmt::format(" Next: {}.", Describe(action));
  }
  if (shown > kMaxShown) out += fmt::format(" {} more steps follow.", shown - kMaxShown);
}

// "create 2 (scale-up), drain 1 (unhealthy)": a group's actions by kind and reason.
std::string CountedActions(const Plan& plan) {
  std::vector<std::pair<std::pair<ActionKind, Reason>, int>> counts;
  for (const Action& action : plan.actions) {
    if (!IsTold(action)) continue;
    const std::pair what = {action.kind, action.reason};
    const auto at = std::ranges::find(counts, what, &decltype(counts)::value_type::first);
    if (at == counts.end()) {
      counts.emplace_back(what, 1);
    } else {
      ++at->second;
    }
  }
  std::string out;
  for (const auto& [what, count] : counts) {
    out += fmt::format("{}{} {} ({})", out.empty() ? "" : ", ", Word(what.first), count,
                       Word(what.second));
  }
  return out;
}

struct CountedHold {
  const Hold* first = nullptr;
  int instances = 0;
};

// By code, in the order of the plan: those of the whole group stand first.
std::vector<CountedHold> CountedHolds(const Plan& plan) {
  std::vector<CountedHold> out;
  for (const Hold& hold : plan.holds) {
    const auto at = std::ranges::find_if(
        out, [&](const CountedHold& one) { return one.first->code == hold.code; });
    CountedHold& one = at == out.end() ? out.emplace_back(CountedHold{.first = &hold}) : *at;
    if (hold.instance) ++one.instances;
  }
  return out;
}

std::string Numbered(int count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string StateOf(const GroupStory& story) {
  if (story.removed) {
    const int left = story.ready + story.creating + story.draining + story.others;
    return fmt::format("The group is deleted; {} still leaving.",
                       Numbered(left, "instance is", "instances are"));
  }
  std::string out = story.size == 0
                        ? std::string("The group has size 0")
                        : fmt::format("{} of {} ready", story.ready,
                                      Numbered(story.size, "instance is", "instances are"));
  if (story.size == 0 && story.ready > 0) out += fmt::format("; {} still ready", story.ready);
  if (story.creating > 0) out += fmt::format("; {} being created", story.creating);
  if (story.draining > 0) out += fmt::format("; {} draining", story.draining);
  if (story.others > 0) out += fmt::format("; {} not healthy", story.others);
  return out + ".";
}

}  // namespace

std::string Shortened(std::string text) {
  if (text.size() <= kMaxForeignText) return text;
  std::size_t end = 0;
  while (end < kMaxForeignText) {
    const std::size_t length =
        std::max<std::size_t>(1, Utf8SequenceLength(std::string_view(text).substr(end)));
    if (end + length > kMaxForeignText) break;
    end += length;
  }
  text.resize(end);
  return text += "...";
}

std::string ForPeople(Duration length) {
  struct Unit {
    std::int64_t seconds = 1;
    char name = 's';
  };
  constexpr std::array<Unit, 4> kUnits = {Unit{86'400, 'd'}, Unit{3'600, 'h'}, Unit{60, 'm'},
                                          Unit{1, 's'}};
  std::int64_t left = std::max<std::int64_t>(0, length.seconds());
  std::string out;
  int shown = 0;
  for (const Unit& unit : kUnits) {
    const std::int64_t count = left / unit.seconds;
    left %= unit.seconds;
    if (count == 0 && !(shown == 0 && unit.seconds == 1)) {
      if (shown > 0) ++shown;  // "2d" and no minutes after it.
    } else if (shown < 2) {
      out += fmt::format("{}{}", count, unit.name);
      ++shown;
    }
  }
  return out;
}

std::string_view Remedy(HoldCode code) {
  using enum HoldCode;
  switch (code) {
    case kBrake: return "If the deletions are intended, raise server.deletion_brake.";
    case kCreateBackoff: return "Mend what the error names; the next try comes by itself.";
    case kCreateRateLimit: return "If it should go faster, shorten server.create_rate_limit.";
    case kCreateConcurrency: return "If it should go faster, raise server.create_concurrency.";
    case kSurgeLimit: return "If it should go faster, raise the group's surge.";
    case kOneRotation:
    case kWaitingReplacement: return "";
    case kWaitingHealthy: return "Ask why the members that are not healthy are so.";
    case kNoReplacement: return "Mend what keeps the group from making instances.";
    case kWaitingDrain: return "Acknowledge the drain to delete it at once.";
    case kSecondLook:
    case kReconnectGrace: return "";
    case kMassSilence: return "Check the network between the agents and this server.";
    case kLbDeregistering: return "Check the load balancer.";
    case kSubnetFull: return "Add a subnet to the pool, or free addresses.";
    case kImageUnresolved: return "Give the image a fallback, or mend its filters.";
    case kUserdataUnavailable: return "Mend the user data of the template.";
    case kSecretUnavailable: return "Mend the secret or the access to it.";
    case kKeyMissing: return "Check that its agent runs and is connected.";
    case kFileInvalid: return "Mend the file in the template.";
    case kProviderUnavailable: return "Check the provider and our access to it.";
    case kStoreUnavailable: return "Check the object store and our access to it.";
    case kJournalFull: return "";
    case kTenantUndefined: return "Define the tenant in the configuration again.";
    case kRecordCorrupt: return "Restore or remove the record (docs/server-files.md).";
    case kConfigInvalid: return "Mend the configuration in storage and refresh it.";
    case kConfigPending: return "Refresh the configuration to apply it.";
    case kIdentityBlocked: return "Delete the instance if its identity is not to be trusted.";
    case kOnDemand: return "Delete the instance if it is not needed any more.";
    case kClaimed: return "Release or delete the instance if it is not needed any more.";
    case kPoolUnavailable: return "Remove `pool` from the group to have it served.";
  }
  return "";
}

std::string Summarize(const Hold& hold, Instant now) {
  std::string out = fmt::format("Held ({}): {}; ", Word(hold.code), Shortened(Describe(hold)));
  if (!hold.until) {
    out += "it waits until something changes.";
  } else if (*hold.until <= now) {
    out += "it goes on now.";
  } else {
    out += fmt::format("it goes on in {}.", ForPeople(*hold.until - now));
  }
  if (const std::string_view remedy = Remedy(hold.code); !remedy.empty()) {
    out += fmt::format(" {}", remedy);
  }
  return out;
}

std::string Summarize(const InstanceStory& story, const Plan& plan, Instant now) {
  std::string out = PhaseSentence(story);
  if (!story.trouble.empty()) {
    out += fmt::format(" What is in its way: {}.", Shortened(story.trouble));
  }
  if (story.replacement) {
    out += fmt::format(" Replacement: {} ({}).", story.replacement->id.text(),
                       PhaseName(story.replacement->phase));
  }
  if (story.replaces && story.phase < InstancePhase::kDraining) {
    out += fmt::format(" It stands in for {} ({}).", story.replaces->id.text(),
                       PhaseName(story.replaces->phase));
  }
  AppendActions(out, plan);
  std::size_t shown = 0;
  for (const Hold& hold : plan.holds) {
    if (IsSaidByPhase(story, hold.code) || ++shown > kMaxShown) continue;
    out += " " + Summarize(hold, now);
  }
  return out;
}

Plan NarrowTo(const Plan& plan, const InstanceId& id) {
  Plan out;
  out.replan_at = plan.replan_at;
  out.counts = plan.counts;
  for (const Action& action : plan.actions) {
    if (action.instance == id || action.replaces == id) out.actions.push_back(action);
  }
  const bool waits = std::ranges::any_of(plan.holds, [&](const Hold& hold) {
    return hold.instance == id && WaitsForReplacement(hold.code);
  });
  for (const Hold& hold : plan.holds) {
    const bool general = !hold.instance && (IsRestraint(hold.code) || waits);
    if (hold.instance == id || general) out.holds.push_back(hold);
  }
  return out;
}

std::string Summarize(const GroupStory& story, const Plan& plan, Instant now) {
  std::string out = StateOf(story);
  const std::string actions = CountedActions(plan);
  const std::vector<CountedHold> holds = CountedHolds(plan);
  if (!actions.empty()) out += fmt::format(" Next: {}.", actions);
  for (std::size_t i = 0; i < holds.size() && i < kMaxShown; ++i) {
    out += " " + Summarize(*holds[i].first, now);
    if (holds[i].instances > 1) {
      out += fmt::format(" {} instances are held so.", holds[i].instances);
    }
  }
  if (holds.size() > kMaxShown) {
    out += fmt::format(" {} more kinds of holds follow.", holds.size() - kMaxShown);
  }
  if (actions.empty() && holds.empty() && !story.removed) {
    out += story.creating + story.draining > 0 ? " Nothing else is to be done." : " Nothing to do.";
  }
  return out;
}

std::string_view ReasonOf(const InstanceRecord& record) {
  if (record.deletion) return record.deletion->reason;
  if (record.drain) return record.drain->reason;
  if (record.failure) return record.failure->code;
  return {};
}

std::string PhaseNews(InstancePhase before, const InstanceRecord& record) {
  const auto because = [&](std::string_view what) {
    return fmt::format("{}{}", what, BecauseOf(ReasonOf(record)));
  };
  switch (record.phase) {
    case InstancePhase::kIntended: return "decided on";
    case InstancePhase::kCreating: return "the provider is about to be asked for it";
    case InstancePhase::kProvisioned:
      return fmt::format("the provider made it: {}", record.provider_instance_id);
    case InstancePhase::kRegistered:
      return before == InstancePhase::kDraining ? "its drain was cancelled: the group needs it"
                                                : "its agent registered";
    case InstancePhase::kDraining:
      return because("draining") + (record.drain
                                        ? fmt::format("; deleted in {} unless acknowledged before",
                                                      ForPeople(record.drain->length))
                                        : "");
    case InstancePhase::kDeleting: return because("its deletion began");
    case InstancePhase::kGone:
      return record.failure ? "its creation came to nothing: " + Shortened(record.failure->message)
                            : because("it is gone");
    case InstancePhase::kFailed: break;
  }
  return record.failure ? "it could not be created: " + Shortened(record.failure->message)
                        : "it could not be created";
}

}  // namespace nstance::fleet
