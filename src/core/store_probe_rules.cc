#include "core/store_probe_rules.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"

namespace nstance::probe {
namespace {

using What = Sight::What;

// With fewer that took part there was no race.
constexpr int kLeastRivals = 8;

constexpr std::array<std::string_view, kChecks> kRules = {
    "of concurrent creates of one key exactly one wins, and its bytes are what is read",
    "of concurrent updates from one version exactly one wins",
    "an update from a stale version is refused",
    "an update of a missing key is refused",
    "after a delete a create succeeds once",
    "a read after a write shows what was written",
    "a listing shows writes and deletes at once",
    "the store's clock agrees with ours",
    "a delete of a stale version is refused",
};

// --- Scripts ------------------------------------------------------------------------------------

Line Create(int key, int content) {
  return {.method = Method::kCreate, .key = key, .content = content};
}
Line Update(int key, int content, int version_of) {
  return {.method = Method::kUpdate, .key = key, .content = content, .version_of = version_of};
}
Line Get(int key, std::size_t endpoint = 0) {
  return {.method = Method::kGet, .key = key, .endpoint = endpoint};
}
Line Delete(int key) { return {.method = Method::kDelete, .key = key}; }
Line DeleteVersion(int key, int version_of) {
  return {.method = Method::kDeleteVersion, .key = key, .version_of = version_of};
}
Line List(int key, bool until_listed) {
  return {.method = Method::kList, .key = key, .until_listed = until_listed};
}

Batch GetFromEach(const Extent& extent) {
  Batch batch;
  for (std::size_t i = 0; i < extent.endpoints; ++i) batch.push_back(Get(0, i));
  return batch;
}

Batch Spread(Batch rivals, const Extent& extent) {
  for (std::size_t i = 0; i < rivals.size(); ++i) rivals[i].endpoint = i % extent.endpoints;
  return rivals;
}

std::vector<Batch> CreateRace(const Extent& extent) {
  Batch rivals;
  for (int i = 0; i < extent.writers; ++i) rivals.push_back(Create(0, i));
  return {Spread(std::move(rivals), extent), {Get(0)}, GetFromEach(extent)};
}

std::vector<Batch> UpdateRace(const Extent& extent) {
  Batch rivals;
  for (int i = 1; i <= extent.writers; ++i) rivals.push_back(Update(0, i, 1));
  return {
      {Create(0, 0)}, {Get(0)}, Spread(std::move(rivals), extent), {Get(0)}, GetFromEach(extent)};
}

// Each write goes through the next endpoint and is read from all.
std::vector<Batch> ReadAfterWrite(const Extent& extent) {
  std::vector<Batch> batches;
  int lines = 0;
  int last_get = -1;
  const int writes = std::max(3, static_cast<int>(extent.endpoints));
  for (int write = 0; write < writes; ++write) {
    Line line = write == 0 ? Create(0, 0) : Update(0, write, last_get);
    line.endpoint = static_cast<std::size_t>(write) % extent.endpoints;
    batches.push_back({line});
    batches.push_back(GetFromEach(extent));
    last_get = ++lines;
    lines += static_cast<int>(extent.endpoints);
  }
  return batches;
}

// --- Judgements ---------------------------------------------------------------------------------

Finding Holds() { return {}; }
Finding Broken(std::string detail) {
  return {.what = Finding::What::kBroken, .detail = std::move(detail)};
}
Finding Inconclusive(std::string detail) {
  return {.what = Finding::What::kInconclusive, .detail = std::move(detail)};
}
Finding Stubborn(std::string detail) {
  return {.what = Finding::What::kStubborn, .detail = std::move(detail)};
}

class Round final {
 public:
  Round(const Script& script, const Sights& sights) : sights_(sights) {
    for (const Batch& batch : script.batches) {
      lines_.insert(lines_.end(), batch.begin(), batch.end());
    }
    CHECK(lines_.size() == sights_.size(), "{} lines, {} sights", lines_.size(), sights_.size());
  }

  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  [[nodiscard]] const Line& line(int number) const {
    return lines_.at(static_cast<std::size_t>(number));
  }
  // What was never asked failed for the reason of whatever failed before.
  [[nodiscard]] Sight sight(int number) const {
    for (int i = number; i >= 0; --i) {
      const auto& seen = sights_.at(static_cast<std::size_t>(i));
      if (seen && (i == number || seen->what == What::kFailed || !seen->message.empty())) {
        return i == number ? *seen : Sight{.what = What::kFailed, .message = seen->message};
      }
    }
    return {.what = What::kFailed, .message = "not asked"};
  }
  [[nodiscard]] bool Shows(int get, int content) const {
    const Sight seen = sight(get);
    return seen.what == What::kContent && seen.content == content;
  }

 private:
  const Sights& sights_;
  std::vector<Line> lines_;
};

std::string InWords(const Sight& sight) {
  switch (sight.what) {
    case What::kAbsent: return "no object";
    case What::kContent:
      return sight.content < 0 ? "bytes that nobody wrote" : fmt::format("write {}", sight.content);
    default: return sight.message;
  }
}

// A write that nothing stands against, settled by the read that follows it.
Finding Accepted(const Round& round, int write, int get) {
  const Sight answer = round.sight(write);
  const Sight read = round.sight(get);
  if (answer.what == What::kUnsupported) {
    return Broken(fmt::format("the store does not support conditional writes: {}", answer.message));
  }
  if (read.what != What::kContent && read.what != What::kAbsent) return Inconclusive(read.message);
  if (round.Shows(get, round.line(write).content)) return Holds();
  if (answer.what == What::kApplied) {
    return Broken(
        fmt::format("a write was acknowledged, but a read after it shows {}", InWords(read)));
  }
  if (answer.what == What::kRefused) {
    return Stubborn(fmt::format("{} was refused although nothing stood against it: {}",
                                round.line(write).method == Method::kCreate
                                    ? "a create of a missing key"
                                    : "an update from the current version",
                                answer.message));
  }
  return Inconclusive(answer.message);
}

// A write that must not be done; `stands` is the content that has to stay, -1 for none.
Finding Refused(const Round& round, int write, int get, int stands) {
  const Sight answer = round.sight(write);
  const Sight read = round.sight(get);
  if (answer.what == What::kApplied) return Broken("the write was acknowledged");
  if (read.what != What::kContent && read.what != What::kAbsent) return Inconclusive(read.message);
  const bool unchanged = stands < 0 ? read.what == What::kAbsent : round.Shows(get, stands);
  if (!unchanged) {
    return Broken(
        fmt::format("the write was not acknowledged, but a read after it shows {}", InWords(read)));
  }
  // An error for a write that has no effect is as good as a refusal; one that was never judged is
  // not.
  if (answer.what == What::kFailed) return Inconclusive(answer.message);
  return Holds();
}

Finding Gone(const Round& round, int removal, int get) {
  const Sight read = round.sight(get);
  if (read.what == What::kAbsent) return Holds();
  if (read.what == What::kContent && round.sight(removal).what == What::kApplied) {
    return Broken(
        fmt::format("a delete was acknowledged, but a read after it shows {}", InWords(read)));
  }
  return Inconclusive(read.what == What::kContent ? round.sight(removal).message : read.message);
}

// The first that does not hold.
Finding All(std::initializer_list<Finding> findings) {
  for (const Finding& finding : findings) {
    if (finding.what != Finding::What::kHolds) return finding;
  }
  return Holds();
}

struct Race {
  int first = 0;  // Line of the first rival.
  int rivals = 0;
  int stands = -1;  // The content before the race.
};

// The line after the rivals reads who won, those after it whether that stays so.
Finding JudgeRace(const Round& round, const Race& race) {
  int winners = 0;
  int winner = -1;
  int judged = 0;
  Sight failure;
  for (int i = race.first; i < race.first + race.rivals; ++i) {
    const Sight answer = round.sight(i);
    if (answer.what == What::kUnsupported) return Accepted(round, i, race.first + race.rivals);
    if (answer.what == What::kApplied) {
      ++winners;
      winner = i;
    }
    if (answer.what == What::kFailed) failure = answer;
    if (answer.what != What::kFailed) ++judged;
    if (answer.what == What::kMaybeDone && failure.message.empty()) failure = answer;
  }
  if (winners > 1) {
    return Broken(fmt::format("{} of {} were told that they won", winners, race.rivals));
  }
  if (judged < std::min(kLeastRivals, race.rivals)) return Inconclusive(failure.message);
  const int get = race.first + race.rivals;
  const Sight read = round.sight(get);
  if (read.what != What::kContent && read.what != What::kAbsent) return Inconclusive(read.message);
  if (winners == 1 && !round.Shows(get, round.line(winner).content)) {
    return Broken(fmt::format("write {} was told that it won, but a read after it shows {}",
                              round.line(winner).content, InWords(read)));
  }
  if (read.what == What::kContent && read.content < 0) {
    return Broken("a read shows bytes that nobody wrote");
  }
  const bool unchanged =
      race.stands < 0 ? read.what == What::kAbsent : round.Shows(get, race.stands);
  if (unchanged) {
    if (!failure.message.empty()) return Inconclusive(failure.message);
    return Stubborn(fmt::format("all of {} were refused", race.rivals));
  }
  for (int again = get + 1; again < static_cast<int>(round.size()); ++again) {
    const Sight later = round.sight(again);
    if (later.what != What::kContent && later.what != What::kAbsent) {
      return Inconclusive(later.message);
    }
    if (!round.Shows(again, read.content)) {
      return Broken(
          fmt::format("a read shows {}, and one after it {}", InWords(read), InWords(later)));
    }
  }
  return Holds();
}

// Only an acknowledged write must be shown by all endpoints: one whose answer was lost may land
// while they are asked.
Finding JudgeReadAfterWrite(const Round& round) {
  int write = 0;
  for (int number = 0; number < static_cast<int>(round.size()); ++number) {
    const Line& line = round.line(number);
    if (line.method != Method::kGet) {
      write = number;
      continue;
    }
    Finding finding = Accepted(round, write, number);
    if (finding.what == Finding::What::kBroken && round.sight(write).what == What::kApplied) {
      finding.detail =
          fmt::format("endpoint {} shows {} after write {} was acknowledged", line.endpoint + 1,
                      InWords(round.sight(number)), round.line(write).content);
    }
    if (finding.what != Finding::What::kHolds) return finding;
  }
  return Holds();
}

// Check 9 knows two answers, both lawful: whatever goes wrong before is inconclusive.
Finding JudgeStaleDelete(const Round& round) {
  Finding ready = All({Accepted(round, 0, 1), Accepted(round, 2, 3)});
  if (ready.what != Finding::What::kHolds) return Inconclusive(std::move(ready.detail));
  const Sight answer = round.sight(4);
  const Sight read = round.sight(5);
  if (read.what == What::kAbsent) return Broken("the object is gone");
  if (answer.what == What::kApplied) return Broken("the delete was acknowledged");
  if (answer.what == What::kFailed || read.what == What::kFailed) {
    return Inconclusive(answer.message + read.message);
  }
  const Finding removed = Gone(round, 6, 7);
  if (removed.what == Finding::What::kHolds) return Holds();
  return Broken("a delete of the current version is refused as well");
}

}  // namespace

std::string_view RuleInWords(int check) {
  CHECK(check >= 1 && check <= kChecks, "check {}", check);
  return kRules.at(static_cast<std::size_t>(check - 1));
}

Script MakeScript(int check, const Extent& extent) {
  const Batch create = {Create(0, 0)};
  const Batch get = {Get(0)};
  switch (check) {
    case 1: return {.check = 1, .batches = CreateRace(extent)};
    case 2: return {.check = 2, .batches = UpdateRace(extent)};
    case 3:
      return {.check = 3, .batches = {create, get, {Update(0, 1, 1)}, get, {Update(0, 2, 1)}, get}};
    case 4:
      return {
          .check = 4,
          .batches = {
              create, get, {Delete(0)}, get, {Update(0, 1, 1), Update(1, 2, 1)}, {Get(0), Get(1)}}};
    case 5:
      return {.check = 5,
              .batches = {create, get, {Delete(0)}, get, {Create(0, 1)}, get, {Create(0, 2)}, get}};
    case 6: return {.check = 6, .batches = ReadAfterWrite(extent)};
    case 7:
      return {.check = 7,
              .batches = {create, get, {List(0, true)}, {Delete(0)}, get, {List(0, false)}}};
    case 9:
      return {.check = 9,
              .batches = {create,
                          get,
                          {Update(0, 1, 1)},
                          get,
                          {DeleteVersion(0, 1)},
                          get,
                          {DeleteVersion(0, 3)},
                          get}};
    default: CHECK(false, "check {} has no script", check);
  }
}

Finding Judge(const Script& script, const Sights& sights) {
  const Round round(script, sights);
  switch (script.check) {
    case 1: {
      const int rivals = static_cast<int>(script.batches.front().size());
      return JudgeRace(round, {.first = 0, .rivals = rivals, .stands = -1});
    }
    case 2: {
      Finding ready = Accepted(round, 0, 1);
      if (ready.what != Finding::What::kHolds) return ready;
      const int rivals = static_cast<int>(script.batches.at(2).size());
      return JudgeRace(round, {.first = 2, .rivals = rivals, .stands = 0});
    }
    case 3: return All({Accepted(round, 0, 1), Accepted(round, 2, 3), Refused(round, 4, 5, 1)});
    case 4:
      return All({Accepted(round, 0, 1), Gone(round, 2, 3), Refused(round, 4, 6, -1),
                  Refused(round, 5, 7, -1)});
    case 5:
      return All({Accepted(round, 0, 1), Gone(round, 2, 3), Accepted(round, 4, 5),
                  Refused(round, 6, 7, 1)});
    case 6: return JudgeReadAfterWrite(round);
    case 7: {
      for (const int list : {2, 5}) {
        if (round.sight(list).what == What::kFailed) return Inconclusive(round.sight(list).message);
      }
      return Holds();
    }
    case 9: return JudgeStaleDelete(round);
    default: CHECK(false, "check {} has no script", script.check);
  }
}

}  // namespace nstance::probe
