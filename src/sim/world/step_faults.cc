#include "sim/world/step_faults.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace nstance::sim {
namespace {

bool IsWrite(SimMethod method) {
  return method == SimMethod::kPut || method == SimMethod::kPutUnconditionally ||
         method == SimMethod::kDelete;
}

bool IsMutation(SimProviderMethod method) {
  return method == SimProviderMethod::kCreate || method == SimProviderMethod::kDelete ||
         method == SimProviderMethod::kAssignLeaderNetwork ||
         method == SimProviderMethod::kReleaseLeaderNetwork;
}

// What a fate of the store is called in faults.md; kNone: nothing happened.
Fault FaultOfStore(SimFate fate) {
  switch (fate) {
    case SimFate::kErrorNotDone: return Fault::kF3;
    case SimFate::kErrorMaybeDone:
    case SimFate::kRequestLost:
    case SimFate::kAnswerLost:
    case SimFate::kLate: return Fault::kF4;
    case SimFate::kTwice: return Fault::kF5;
    case SimFate::kStale: return Fault::kF6;
    default: return Fault::kNone;
  }
}

Fault FaultOfProvider(SimFate fate) {
  switch (fate) {
    case SimFate::kErrorNotDone:
    case SimFate::kRefused: return Fault::kF7;
    case SimFate::kErrorMaybeDone:
    case SimFate::kRequestLost:
    case SimFate::kAnswerLost:
    case SimFate::kLate: return Fault::kF8;
    case SimFate::kStale: return Fault::kF9;
    case SimFate::kTwice: return Fault::kF10;
    default: return Fault::kNone;
  }
}

// One of the ways in which a write is applied, or may be, without its caller knowing.
SimFate DrawDoubt(Prng& prng) {
  constexpr std::array kDoubts = {SimFate::kAnswerLost, SimFate::kLate, SimFate::kErrorMaybeDone};
  return kDoubts.at(prng.Below(kDoubts.size()));
}

bool AboutACall(Fault fault) { return fault >= Fault::kF2 && fault <= Fault::kF10; }

}  // namespace

Duration DrawJumpAtStep(Prng& prng) {
  constexpr std::array<std::int64_t, 6> kSeconds = {1, 45, 90, 3'600, 86'400, 315'360'000};
  const Duration length = Duration::Seconds(kSeconds.at(prng.Below(kSeconds.size())));
  return prng.Chance(1, 2) ? length : Duration() - length;
}

StepFaults::StepFaults(const std::vector<Event>& events, Looks looks, Acts acts)
    : looks_(looks), acts_(std::move(acts)) {
  events_.reserve(events.size());
  for (const Event& event : events) events_.push_back({.event = event});
}

void StepFaults::Hit(Step step, Fault fault) {
  ++cells_.at(static_cast<std::size_t>(step)).at(static_cast<std::size_t>(fault));
}

void StepFaults::HitAll(Fault fault) {
  if (fault == Fault::kNone) return;
  for (const Step step : steps_) Hit(step, fault);
}

std::vector<std::size_t> StepFaults::Pass(Step step) {
  const std::uint64_t passing = ++passings_.at(static_cast<std::size_t>(step));
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const Event& event = events_[i].event;
    if (event.step != step || events_[i].over) continue;
    if (event.insists ? event.passing <= passing : event.passing == passing) due.push_back(i);
  }
  return due;
}

void StepFaults::OnStep(ServerNode& node, Step step) {
  steps_.push_back(step);
  for (const std::size_t number : Pass(step)) {
    if (AboutACall(events_[number].event.fault)) {
      Arm(node, number);
    } else {
      Strike(node, number);
    }
  }
}

void StepFaults::OnAgentStep(AgentMachine& agent, Step step) {
  for (const std::size_t number : Pass(step)) {
    const Event& event = events_[number].event;
    if (AboutACall(event.fault)) continue;
    events_[number].over = true;
    acts_.note(agent.name(), "fault " + Describe(event));
    Hit(step, event.fault);
    acts_.strike_agent(agent, event);
  }
}

void StepFaults::Arm(ServerNode& node, std::size_t number) {
  if (std::ranges::find(armed_, number, &Armed::number) != armed_.end()) return;
  armed_.push_back({.event = events_[number].event, .node = &node, .number = number});
}

void StepFaults::Strike(ServerNode& node, std::size_t number) {
  events_[number].over = true;
  const Event& event = events_[number].event;
  Prng prng(event.draw);
  acts_.note(node.standing().name, "fault " + Describe(event));
  Hit(event.step, event.fault);
  switch (event.fault) {
    case Fault::kF1: return acts_.die_now(node);
    case Fault::kF11: return acts_.jump_wall(node, DrawJumpAtStep(prng));
    case Fault::kF12:
      // What it sends in this turn has left the process but not the machine: it arrives when the
      // machine runs again.
      Arm(node, number);
      return acts_.pause(node, event.length);
    case Fault::kF13: return acts_.cut(node, event);
    default: return;
  }
}

std::optional<Event> StepFaults::Take(const std::function<bool(const Event&)>& fits) {
  const auto at = std::ranges::find_if(armed_, [&](const Armed& armed) {
    // Whoever insists waits for a call of its own step.
    const bool own = !armed.event.insists || std::ranges::count(steps_, armed.event.step) > 0;
    return own && fits(armed.event);
  });
  if (at == armed_.end()) return std::nullopt;
  const Event event = at->event;
  events_.at(at->number).over = true;
  armed_.erase(at);
  return event;
}

void StepFaults::EndOfTask() {
  steps_.clear();
  for (const Armed& armed : std::exchange(armed_, {})) {
    if (armed.event.fault != Fault::kF2) continue;
    // A step without a call of its own: the process dies when it is done.
    events_.at(armed.number).over = true;
    Hit(armed.event.step, Fault::kF2);
    acts_.note(armed.node->standing().name, "fault " + Describe(armed.event));
    acts_.die_after_task(*armed.node);
  }
}

SimVerdict StepFaults::OfStore(ServerNode& node, SimMethod method, const std::string& key,
                               SimFate drawn) {
  SimVerdict verdict{.fate = drawn};
  const bool writes = IsWrite(method);
  const std::optional<Event> event = Take([&](const Event& armed) {
    const Fault fault = armed.fault;
    return fault == Fault::kF2 || fault == Fault::kF3 || fault == Fault::kF4 ||
           (writes && (fault == Fault::kF5 || fault == Fault::kF12)) ||
           (!writes && fault == Fault::kF6);
  });
  if (event) {
    Prng prng(event->draw);
    if (event->insists) verdict.late = event->length;
    acts_.note(node.standing().name, fmt::format("fault {} on {}", Describe(*event), key));
    switch (event->fault) {
      case Fault::kF2:
        verdict.at_answer = [this, &node] { acts_.die_after_task(node); };
        Hit(event->step, Fault::kF2);
        break;
      case Fault::kF3: verdict.fate = SimFate::kErrorNotDone; break;
      case Fault::kF4: verdict.fate = writes ? DrawDoubt(prng) : SimFate::kRequestLost; break;
      case Fault::kF5:
        acts_.rival_touches(key);
        verdict.fate = prng.Chance(1, 2) ? SimFate::kNormal : SimFate::kTwice;
        Hit(event->step, Fault::kF5);
        break;
      case Fault::kF6: verdict.fate = SimFate::kStale; break;
      case Fault::kF12: verdict.fate = SimFate::kLate; break;
      default: break;
    }
  }
  HitAll(FaultOfStore(verdict.fate));
  steps_.clear();
  return verdict;
}

SimVerdict StepFaults::OfProvider(ServerNode& node, SimProviderMethod method, SimFate drawn) {
  SimVerdict verdict{.fate = drawn};
  const bool mutates = IsMutation(method);
  const bool lags = looks_ == Looks::kLag;
  const std::optional<Event> event = Take([&](const Event& armed) {
    const Fault fault = armed.fault;
    return fault == Fault::kF2 || fault == Fault::kF7 || fault == Fault::kF8 ||
           (mutates && (fault == Fault::kF10 || fault == Fault::kF12)) ||
           (!mutates && fault == Fault::kF9) ||
           (armed.insists && (mutates ? fault == Fault::kF9 && lags : fault == Fault::kF10));
  });
  if (event) {
    Prng prng(event->draw);
    if (event->insists) verdict.late = event->length;
    acts_.note(node.standing().name, "fault " + Describe(*event) + " on the provider");
    switch (event->fault) {
      case Fault::kF2:
        verdict.at_answer = [this, &node] { acts_.die_after_task(node); };
        Hit(event->step, Fault::kF2);
        break;
      case Fault::kF7:
        verdict.fate = method == SimProviderMethod::kCreate && prng.Chance(1, 2)
                           ? SimFate::kRefused
                           : SimFate::kErrorNotDone;
        break;
      case Fault::kF8: verdict.fate = mutates ? DrawDoubt(prng) : SimFate::kRequestLost; break;
      case Fault::kF9:
        if (!mutates) {
          verdict.fate = SimFate::kStale;
          break;
        }
        acts_.lag(node, event->length);
        Hit(event->step, Fault::kF9);
        break;
      case Fault::kF10:
        if (mutates) {
          verdict.fate = SimFate::kTwice;
          break;
        }
        (method == SimProviderMethod::kGet ? acts_.reuse_ids : acts_.list_twice)(event->length);
        Hit(event->step, Fault::kF10);
        break;
      case Fault::kF12: verdict.fate = SimFate::kLate; break;
      default: break;
    }
  }
  // Where looks do not lag, what was there a while ago is what is there.
  if (verdict.fate != SimFate::kStale || lags) HitAll(FaultOfProvider(verdict.fate));
  steps_.clear();
  return verdict;
}

}  // namespace nstance::sim
