#include "sim/world/shrink.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"

namespace nstance::sim {
namespace {

constexpr Duration kSecond = Duration::Seconds(1);
constexpr int kMostRounds = 4;

Duration UpToSeconds(Duration time) { return Duration::Seconds(time.seconds() + 1); }

class Shrinker final {
 public:
  Shrinker(const Scenario& drawn, const RunOptions& run, const ShrinkOptions& options)
      : drawn_(drawn), run_(run), options_(options) {
    best_.scenario = drawn;
    best_.report = RunScenario(drawn, run);
    best_.runs = 1;
  }

  Shrunk Run() && {
    if (!best_.report.violation) return std::move(best_);
    invariant_ = best_.report.violation->invariant;
    best_.cut.keep.emplace(drawn_.events.size());
    std::iota(best_.cut.keep->begin(), best_.cut.keep->end(), std::size_t{0});
    CutAfterViolation();
    for (int round = 0; round < kMostRounds; ++round) {
      const Cut before = best_.cut;
      LeaveOutEvents();
      LeaveOutServers();
      LeaveOutInstances();
      MakeSettingPlain();
      ShortenEvents();
      ShortenHostile();
      if (best_.cut == before) break;
    }
    return std::move(best_);
  }

 private:
  // Whether the same invariant is violated with this cut, which then stands.
  bool Try(Cut cut) {
    if (best_.runs >= options_.most_runs || cut == best_.cut) return false;
    Result<Scenario> smaller = Apply(cut, drawn_);
    CHECK(smaller.has_value(), "{}", smaller.error().message);
    RunReport report = RunScenario(*smaller, run_);
    ++best_.runs;
    if (!report.violation || report.violation->invariant != invariant_) return false;
    best_ = {.cut = std::move(cut),
             .scenario = *std::move(smaller),
             .report = std::move(report),
             .runs = best_.runs};
    if (options_.told) options_.told(best_);
    return true;
  }

  // A setting that can be told by one member of the cut.
  template <class Value>
  bool TrySetting(std::optional<Value> Cut::* member, Value now, Value wanted) {
    if (now == wanted) return false;
    Cut cut = best_.cut;
    cut.*member = wanted;
    return Try(std::move(cut));
  }

  // A violation during the hostile phase ends the run: nothing after it was of any weight.
  void CutAfterViolation() {
    const Duration end = UpToSeconds(best_.report.violation->at);
    if (end >= best_.scenario.hostile) return;
    Cut cut = best_.cut;
    cut.hostile = end;
    std::erase_if(*cut.keep, [&](std::size_t event) { return drawn_.events[event].at > end; });
    (void)Try(std::move(cut));
  }

  // Parts of half the length, then of a quarter, ..., as long as leaving one out still fails.
  void LeaveOutEvents() {
    for (std::size_t part = std::max<std::size_t>(best_.cut.keep->size() / 2, 1); part > 0;
         part /= 2) {
      for (std::size_t from = 0; from < best_.cut.keep->size();) {
        Cut cut = best_.cut;
        const std::size_t to = std::min(from + part, cut.keep->size());
        for (std::size_t i = from; i < to; ++i) cut.lengths.erase((*cut.keep)[i]);
        cut.keep->erase(cut.keep->begin() + static_cast<std::ptrdiff_t>(from),
                        cut.keep->begin() + static_cast<std::ptrdiff_t>(to));
        if (!Try(std::move(cut))) from += part;
        if (best_.runs >= options_.most_runs) return;
      }
    }
  }

  // The fewest first.
  void LeaveOutServers() {
    const auto& events = best_.scenario.events;
    if (std::ranges::count(events, EventKind::kLoseServer, &Event::kind) > 0) return;
    for (int servers = 0; servers < best_.scenario.setting.servers_b; ++servers) {
      if (TrySetting(&Cut::servers_b, best_.scenario.setting.servers_b, servers)) break;
    }
    for (int servers = 1; servers < best_.scenario.setting.servers_a; ++servers) {
      if (TrySetting(&Cut::servers_a, best_.scenario.setting.servers_a, servers)) break;
    }
  }

  void LeaveOutInstances() {
    struct Size {
      std::optional<int> Cut::* cut;
      int Setting::* drawn;
    };
    for (const Size& size : {Size{&Cut::edge, &Setting::edge}, Size{&Cut::api, &Setting::api},
                             Size{&Cut::workers, &Setting::workers}}) {
      const int now = best_.scenario.setting.*size.drawn;
      for (const int wanted : {0, 1, 2, now / 2}) {
        if (wanted < now && TrySetting(size.cut, now, wanted)) break;
      }
    }
  }

  void MakeSettingPlain() {
    const Setting& now = best_.scenario.setting;
    if (now.database_seed > 0) {
      Cut cut = best_.cut;
      cut.no_disks = true;
      (void)Try(std::move(cut));
    }
    const Setting plain;
    (void)TrySetting(&Cut::steps_per_turn, static_cast<int>(now.steps_per_turn),
                     static_cast<int>(plain.steps_per_turn));
    (void)TrySetting(&Cut::consistency_window, now.consistency_window, plain.consistency_window);
    (void)TrySetting(&Cut::eligible_age, now.eligible_age, plain.eligible_age);
    (void)TrySetting(&Cut::drain_timeout, now.drain_timeout, plain.drain_timeout);
    (void)TrySetting(&Cut::agent_life, now.agent_life, plain.agent_life);
  }

  // To whole seconds: one, or a quarter of what they are.
  void ShortenEvents() {
    const std::vector<std::size_t> kept = *best_.cut.keep;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const Duration now = best_.scenario.events.at(i).length;
      for (const Duration wanted : {kSecond, UpToSeconds(now / 4)}) {
        if (wanted >= now) continue;
        Cut cut = best_.cut;
        cut.lengths[kept[i]] = wanted;
        if (Try(std::move(cut))) break;
      }
    }
  }

  // A violation in calm time: faults went on for no longer than the last of them needs.
  void ShortenHostile() {
    Duration last;
    Duration last_end;
    for (const Event& event : best_.scenario.events) {
      if (event.kind == EventKind::kAtStep) continue;
      last = std::max(last, event.at);
      last_end = std::max(last_end, event.at + event.length);
    }
    const Duration now = best_.scenario.hostile;
    const std::array wanted = {UpToSeconds(last), UpToSeconds(last_end),
                               UpToSeconds(best_.report.violation->at), UpToSeconds(now / 2)};
    for (const Duration hostile : wanted) {
      if (hostile < now && TrySetting(&Cut::hostile, now, hostile)) break;
    }
  }

  const Scenario& drawn_;
  const RunOptions& run_;
  const ShrinkOptions& options_;
  Shrunk best_;
  std::string invariant_;
};

}  // namespace

Shrunk Shrink(const Scenario& scenario, const RunOptions& run, const ShrinkOptions& options) {
  return Shrinker(scenario, run, options).Run();
}

}  // namespace nstance::sim
