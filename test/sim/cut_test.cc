// Cuts: what is left of a scenario, and that the flags that tell a cut are read as the same one.
// The runs of cut scenarios are in shrink_test.cc.
#include "sim/world/cut.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace nstance::sim {
namespace {

Cut Whole() {
  return {.keep = std::vector<std::size_t>{2, 0},
          .lengths = {{0, Duration::Seconds(2)}, {2, Duration()}},
          .servers_a = 1,
          .servers_b = 0,
          .workers = 3,
          .api = 0,
          .edge = 2,
          .steps_per_turn = 7,
          .hostile = Duration::Milliseconds(61'500),
          .consistency_window = Duration(),
          .eligible_age = Duration::Minutes(3),
          .drain_timeout = Duration::Seconds(60),
          .agent_life = Duration::Hours(2),
          .no_disks = true};
}

// As the program does with the words after its name.
Result<Cut> FromFlags(const std::string& flags) {
  Cut cut;
  for (std::size_t at = 0; at < flags.size();) {
    const std::size_t name_end = flags.find(' ', at + 1);
    const std::size_t end = std::min(flags.find(' ', name_end + 1), flags.size());
    const std::string value = flags.substr(name_end + 1, end - name_end - 1);
    if (flags.substr(at, name_end - at) == " --keep") {
      ASSIGN_OR_RETURN(cut.keep, ParseKeep(value));
    } else {
      RETURN_IF_ERROR(ParseCut(value, cut));
    }
    at = end;
  }
  return cut;
}

TEST(CutTest, ItsFlagsAreReadAsTheSameCut) {
  EXPECT_EQ(
      FormatCut(Whole()),
      " --keep 2,0 --cut a=1,b=0,workers=3,api=0,edge=2,steps=7,hostile=1m1.5s,window=0s,age=3m0s,"
      "drain=1m0s,life=2h0m0s,disks=0,0=2s,2=0s");
  EXPECT_EQ(FromFlags(FormatCut(Whole())).value(), Whole());
  EXPECT_EQ(FormatCut({}), "");
  EXPECT_EQ(FormatCut({.keep = std::vector<std::size_t>()}), " --keep none");
  EXPECT_EQ(FromFlags(" --keep none").value(), Cut{.keep = std::vector<std::size_t>()});
  EXPECT_EQ(FromFlags(" --cut edge=1").value(), Cut{.edge = 1});
}

TEST(CutTest, NothingIsLeftOutThatItDoesNotName) {
  const Scenario drawn = DrawScenario({.seed = 12});
  const Scenario left = Apply({}, drawn).value();
  EXPECT_EQ(left.events.size(), drawn.events.size());
  EXPECT_EQ(left.hostile, drawn.hostile);
  EXPECT_EQ(left.setting.workers, drawn.setting.workers);
  EXPECT_EQ(left.setting.agent_life, drawn.setting.agent_life);
}

TEST(CutTest, WhatItNamesIsCut) {
  Scenario drawn = DrawScenario({.seed = 12});
  drawn.setting.database_seed = 7;
  ASSERT_GE(drawn.events.size(), 3U);
  const Scenario left = Apply(Whole(), drawn).value();
  EXPECT_EQ(left.seed, drawn.seed);
  ASSERT_EQ(left.events.size(), 2U);
  EXPECT_EQ(left.events[0].draw, drawn.events[2].draw);
  EXPECT_EQ(left.events[0].length, Duration());
  EXPECT_EQ(left.events[1].draw, drawn.events[0].draw);
  EXPECT_EQ(left.events[1].length, Duration::Seconds(2));
  EXPECT_EQ(left.hostile, Duration::Milliseconds(61'500));
  EXPECT_EQ(left.setting.servers_a, 1);
  EXPECT_EQ(left.setting.servers_b, 0);
  EXPECT_EQ(left.setting.workers, 3);
  EXPECT_EQ(left.setting.api, 0);
  EXPECT_EQ(left.setting.edge, 2);
  EXPECT_EQ(left.setting.steps_per_turn, 7U);
  EXPECT_EQ(left.setting.consistency_window, Duration());
  EXPECT_EQ(left.setting.eligible_age, Duration::Minutes(3));
  EXPECT_EQ(left.setting.drain_timeout, Duration::Seconds(60));
  EXPECT_EQ(left.setting.agent_life, Duration::Hours(2));
  EXPECT_EQ(left.setting.database_seed, 0U);
}

TEST(CutTest, AnEventThatWasNotDrawnIsNamed) {
  Scenario drawn = DrawScenario({.seed = 12});
  drawn.events.resize(2);
  const auto kept = Apply({.keep = std::vector<std::size_t>{0, 2}}, drawn);
  ASSERT_FALSE(kept.has_value());
  EXPECT_EQ(kept.error().message, "--keep: seed 12 has 2 events, from 0; there is no 2");
  const auto shorter = Apply({.lengths = {{9, Duration::Seconds(1)}}}, drawn);
  ASSERT_FALSE(shorter.has_value());
  EXPECT_EQ(shorter.error().message, "--cut: seed 12 has 2 events, from 0; there is no 9");
}

TEST(CutTest, AMistakeIsToldByItsPart) {
  struct Row {
    std::string flags;
    std::string error;
  };
  const std::string names =
      "names none of a, b, workers, api, edge, steps, hostile, window, age, drain, life, disks, "
      "nor the "
      "number of an event";
  const std::vector<Row> rows = {
      {" --keep 1,x", "--keep: \"x\" is no number; it takes numbers with commas, or \"none\""},
      {" --keep 1,", "--keep: \"\" is no number; it takes numbers with commas, or \"none\""},
      {" --cut a=0", "--cut: \"a=0\": takes a number from 1 to 9"},
      {" --cut b=1,a=10", "--cut: \"a=10\": takes a number from 1 to 9"},
      {" --cut workers=-1", "--cut: \"workers=-1\": takes a number from 0 to 10000"},
      {" --cut hostile=0s",
       "--cut: \"hostile=0s\": takes a length of time, above 0s, such as 1m30s"},
      {" --cut window=-1s",
       "--cut: \"window=-1s\": takes a length of time, 0s or more, such as 1m30s"},
      {" --cut disks=1", "--cut: \"disks=1\": takes 0 only"},
      {" --cut servers=1", "--cut: \"servers=1\": " + names},
      {" --cut a", "--cut: \"a\": is no name=value"},
      {" --cut a=1,", "--cut: \"\": is no name=value"},
  };
  for (const Row& row : rows) {
    const Result<Cut> cut = FromFlags(row.flags);
    ASSERT_FALSE(cut.has_value()) << row.flags;
    EXPECT_EQ(cut.error().message, row.error);
  }
}

}  // namespace
}  // namespace nstance::sim
