// The screen of `watch` as a pure function: sizes, widths, many instances, hostile text, keys.
#include "admin/shard/watch_screen.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin/printable.h"
#include "admin/shard/words.h"
#include "base/prng.h"

namespace nstance::admin {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const Timestamp kNow = Timestamp::FromUnix(1'900'000'000);

std::string WithoutColour(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const std::size_t end = line[i] == '\x1b' ? line.find('m', i) : std::string_view::npos;
    if (end == std::string_view::npos) {
      plain += line[i];  // Whatever else it begins, it is not a colour.
    } else {
      i = end;
    }
  }
  return plain;
}

std::string Text(const Screen& screen) {
  std::string text;
  for (const std::string& line : screen.lines) text += WithoutColour(line) + "\n";
  return text;
}

Screen Draw(const WatchModel& model, ScreenSize size, Paint paint = Paint::kColour) {
  Screen screen = DrawWatch(model, {.size = size, .now = kNow, .paint = paint});
  EXPECT_EQ(screen.lines.size(), static_cast<std::size_t>(size.rows));
  for (const std::string& line : screen.lines) {
    const std::string plain = WithoutColour(line);
    EXPECT_LE(WidthOf(plain), static_cast<std::size_t>(size.columns)) << plain;
    for (const char c : plain) {
      EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) << plain;
    }
  }
  return screen;
}

WatchModel Typical(WatchView view = WatchView::kGroups) {
  WatchModel model({.shards = {"dc1-zone-a", "dc1-zone-b"}, .tenant = "prod", .view = view});
  model.OnUp(0, kNow);
  model.OnUp(1, kNow);
  model.OnGroups(0, {{.key = "ingress", .size = 2, .is_static = true, .ready = 2},
                     {.key = "workers", .size = 20, .draining = 1, .creating = 5, .ready = 14}});
  model.OnGroups(1, {{.key = "workers", .size = 4, .ready = 0}});
  model.OnHolds(0, {{.code = "waiting-drain", .group = "workers"}});
  model.OnEvent(0, {.time = kNow - Duration::Seconds(12),
                    .type = "phase",
                    .group = "workers",
                    .instance_id = "knd06bgm7733st2576nx5jht4ecjw",
                    .phase = api::InstancePhase::kDraining,
                    .reason = "unhealthy"});
  return model;
}

WatchModel Thousand() {
  WatchModel model = Typical(WatchView::kInstances);
  std::vector<api::Instance> instances;
  for (int i = 0; i < 1'000; ++i) {
    instances.push_back({.instance_id = fmt::format("knd{:026}", i),
                         .group = i % 10 == 0 ? "ingress" : "workers",
                         .phase = api::InstancePhase::kRegistered,
                         .private_ipv4 = fmt::format("10.0.{}.{}", i / 256, i % 256),
                         .created_at = kNow - Duration::Seconds(i),
                         .health = "healthy"});
  }
  model.OnInstances(0, std::move(instances));
  return model;
}

TEST(WatchScreenTest, IsReadableAtEightyByTwentyFour) {
  const std::string text = Text(Draw(Typical(), {.columns = 80, .rows = 24}));
  EXPECT_THAT(text, StartsWith("nstance  groups  tenant prod  2 shards"));
  EXPECT_THAT(text, HasSubstr("17:46:40\n"));
  EXPECT_THAT(text, HasSubstr("SHARD       GROUP    READY"));
  EXPECT_THAT(text, HasSubstr("dc1-zone-a  ingress  [#############] 2/2"));
  EXPECT_THAT(text, HasSubstr("dc1-zone-a  workers  [#########+++~] 14/20"));
  EXPECT_THAT(text, HasSubstr("dc1-zone-b  workers  [.............] 0/4"));
  EXPECT_THAT(text, HasSubstr("12s draining"));
  EXPECT_THAT(text, HasSubstr("g groups  i instances  e events  arrows  / filter  q quit"));
}

TEST(WatchScreenTest, ALongEventTakesNothingFromTheNames) {
  WatchModel model = Typical();
  model.OnEvent(0, {.time = kNow,
                    .type = "phase",
                    .group = "workers",
                    .phase = api::InstancePhase::kRegistered,
                    .message = "its agent registered after a good while from 10.0.0.7"});
  const std::string text = Text(Draw(model, {.columns = 80, .rows = 24}));
  EXPECT_THAT(text, AllOf(HasSubstr("dc1-zone-a  workers  [#########+++~] 14/20"),
                          HasSubstr("0s registered: its")));
}

TEST(WatchScreenTest, KeepsWhatCountsAtFortyByTen) {
  const std::string text = Text(Draw(Typical(), {.columns = 40, .rows = 10}));
  EXPECT_THAT(text, AllOf(HasSubstr("workers"), HasSubstr("14/20"), HasSubstr("1-3 of 3")));
  EXPECT_THAT(text, Not(HasSubstr("LAST EVENT")));
}

TEST(WatchScreenTest, UsesTheRoomOfTwoHundredByFifty) {
  const std::string text = Text(Draw(Typical(), {.columns = 200, .rows = 50}));
  EXPECT_THAT(text, AllOf(HasSubstr("LAST EVENT"), HasSubstr("12s draining: unhealthy")));
  const std::string instances = Text(Draw(Thousand(), {.columns = 200, .rows = 50}));
  EXPECT_THAT(instances, AllOf(HasSubstr("IP"), HasSubstr("10.0.0.0"), HasSubstr("1-47 of 1000")));
}

TEST(WatchScreenTest, AThousandInstancesScrollFromEndToEnd) {
  WatchModel model = Thousand();
  const ScreenSize size{.columns = 80, .rows = 24};
  Screen screen = Draw(model, size);
  EXPECT_EQ(screen.page, 21U);
  EXPECT_EQ(screen.rows, 1'000U);
  EXPECT_THAT(Text(screen),
              AllOf(HasSubstr("knd00000000000000000000000000"), HasSubstr("1-21 of 1000")));
  const auto press = [&](KeyKind kind) {
    model.OnKey({.kind = kind}, screen.page, screen.rows);
    screen = Draw(model, size);
  };
  press(KeyKind::kDown);
  EXPECT_THAT(Text(screen), HasSubstr("2-22 of 1000"));
  press(KeyKind::kPageDown);
  EXPECT_THAT(Text(screen), HasSubstr("23-43 of 1000"));
  press(KeyKind::kEnd);
  EXPECT_THAT(Text(screen),
              AllOf(HasSubstr("980-1000 of 1000"), HasSubstr("knd00000000000000000000000999")));
  press(KeyKind::kDown);
  EXPECT_THAT(Text(screen), HasSubstr("980-1000 of 1000"));
  press(KeyKind::kPageUp);
  EXPECT_THAT(Text(screen), HasSubstr("959-979 of 1000"));
  press(KeyKind::kHome);
  press(KeyKind::kUp);
  EXPECT_THAT(Text(screen), HasSubstr("1-21 of 1000"));
}

TEST(WatchScreenTest, WhatShrinksUnderTheScrolledViewIsStillShown) {
  WatchModel model = Thousand();
  const ScreenSize size{.columns = 80, .rows = 24};
  model.OnKey({.kind = KeyKind::kEnd}, 21, 1'000);
  model.OnInstances(0, {{.instance_id = "only"}});
  const std::string text = Text(Draw(model, size));
  EXPECT_THAT(text, AllOf(HasSubstr("only"), HasSubstr("1-1 of 1")));
}

TEST(WatchScreenTest, TheFilterIsTypedAndCleared) {
  WatchModel model = Thousand();
  const ScreenSize size{.columns = 80, .rows = 24};
  const auto press = [&](char c) {
    return model.OnKey({.kind = KeyKind::kCharacter, .character = c}, 21, 1'000);
  };
  press('/');
  for (const char c : std::string("INGQ")) press(c);
  EXPECT_THAT(Text(Draw(model, size)), HasSubstr("filter: INGQ_"));
  model.OnKey({.kind = KeyKind::kBackspace}, 21, 1'000);
  model.OnKey({.kind = KeyKind::kEnter}, 21, 1'000);
  const std::string text = Text(Draw(model, size));
  EXPECT_THAT(text,
              AllOf(HasSubstr("of 100"), HasSubstr("with \"ING\""), Not(HasSubstr("workers"))));
  EXPECT_EQ(press('q'), WatchModel::Reaction::kQuit);
  model.OnKey({.kind = KeyKind::kEscape}, 21, 100);
  EXPECT_THAT(Text(Draw(model, size)), HasSubstr("of 1000"));
}

TEST(WatchScreenTest, KeysChangeTheView) {
  WatchModel model = Thousand();
  const ScreenSize size{.columns = 100, .rows = 24};
  const auto press = [&](char c) {
    return model.OnKey({.kind = KeyKind::kCharacter, .character = c}, 21, 1'000);
  };
  EXPECT_EQ(press('e'), WatchModel::Reaction::kViewChanged);
  EXPECT_THAT(Text(Draw(model, size)), AllOf(HasSubstr("TIME"), HasSubstr("draining: unhealthy")));
  EXPECT_EQ(press('g'), WatchModel::Reaction::kViewChanged);
  EXPECT_THAT(Text(Draw(model, size)), HasSubstr("HOLDS"));
  EXPECT_EQ(press('x'), WatchModel::Reaction::kDraw);
}

TEST(WatchScreenTest, LostShardsAreShownAsSuch) {
  WatchModel model = Typical();
  model.OnLost(1, Unavailable("connection refused"), kNow - Duration::Seconds(9));
  const std::string text = Text(Draw(model, {.columns = 80, .rows = 24}));
  EXPECT_THAT(text, HasSubstr("dc1-zone-b: LOST for 9s: connection refused; trying again"));
  EXPECT_THAT(text, HasSubstr("[.............] 0/4"));  // What was last known.
  model.OnLost(1, Unavailable("no route"), kNow);
  EXPECT_THAT(Text(Draw(model, {.columns = 80, .rows = 24})), HasSubstr("LOST for 9s: no route"));
  model.OnUp(1, kNow);
  EXPECT_THAT(Text(Draw(model, {.columns = 80, .rows = 24})), Not(HasSubstr("LOST")));
}

TEST(WatchScreenTest, ManyLostShardsLeaveRoomForTheRest) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back(fmt::format("shard-{}", i));
  WatchModel model({.shards = names, .tenant = "prod"});
  for (std::size_t i = 0; i < 100; ++i) model.OnLost(i, Unavailable("down"), kNow);
  model.OnGroups(0, {{.key = "workers", .size = 1}});
  const std::string text = Text(Draw(model, {.columns = 80, .rows = 24}));
  EXPECT_THAT(text, AllOf(HasSubstr("and 93 more shards"), HasSubstr("workers")));
}

TEST(WatchScreenTest, GroupsThatAreGoneAfterAFailoverGo) {
  WatchModel model = Typical();
  model.OnGroups(0, {{.key = "ingress", .size = 2, .ready = 2}});
  const std::string text = Text(Draw(model, {.columns = 80, .rows = 24}));
  EXPECT_THAT(text, AllOf(HasSubstr("dc1-zone-a  ingress"), Not(HasSubstr("dc1-zone-a  workers")),
                          HasSubstr("dc1-zone-b  workers")));
}

TEST(WatchScreenTest, EventsAreBoundedAndToldOnce) {
  WatchModel model = Typical(WatchView::kEvents);
  EXPECT_TRUE(model.OnEvent(0, {.type = "leader", .message = "x"}));
  EXPECT_FALSE(model.OnEvent(0, {.type = "leader", .message = "x"}));
  EXPECT_TRUE(model.OnEvent(1, {.type = "leader", .message = "x"}));
  for (int i = 0; i < 3'000; ++i) {
    model.OnEvent(0, {.type = "phase", .message = std::to_string(i)});
  }
  EXPECT_EQ(model.events().size(), WatchModel::kMostEvents);
  EXPECT_EQ(model.events().front().event.message, "2999");
}

TEST(WatchScreenTest, BarsShowEverythingThereIs) {
  EXPECT_EQ(GroupBar({.size = 4, .ready = 4}, 8), "[########] 4/4");
  EXPECT_EQ(GroupBar({.size = 4, .ready = 2}, 8), "[####....] 2/4");
  EXPECT_EQ(GroupBar({.size = 1'000, .draining = 1, .creating = 1, .ready = 998}, 8),
            "[#######+] 998/1000");
  EXPECT_EQ(GroupBar({.size = 0}, 8), "[........] 0/0");
  EXPECT_EQ(GroupBar({.size = 0, .draining = 3}, 8), "[~~~~~~~~] 0/0");
  EXPECT_EQ(GroupBar({.size = -5, .ready = -1}, 8), "[........] -1/-5");
}

TEST(WatchScreenTest, HostileTextStaysText) {
  WatchModel model({.shards = {"a"}, .tenant = "prod"});
  const std::string evil =
      "x\x1b[2J\x1b]0;t\x07\r\n\xC2\x9B"
      "31m\xE2\x80\xAE\xFF\xE4\xB8\xAD";
  model.OnLost(0, Unavailable(evil), kNow);
  model.OnGroups(0, {{.key = evil, .size = 1}});
  model.OnInstances(0, {{.instance_id = evil, .group = evil, .health = evil, .reason = evil}});
  model.OnEvent(0, {.type = evil, .group = evil, .instance_id = evil, .message = evil});
  for (const char view : {'g', 'i', 'e'}) {
    model.OnKey({.kind = KeyKind::kCharacter, .character = view}, 1, 1);
    for (const ScreenSize size :
         {ScreenSize{80, 24}, ScreenSize{40, 10}, ScreenSize{200, 50}, ScreenSize{13, 5}}) {
      const Screen screen = Draw(model, size, Paint::kPlain);
      for (const std::string& line : screen.lines) EXPECT_THAT(line, Not(HasSubstr("\x1b")));
    }
  }
}

TEST(WatchScreenTest, AnySizeAndAnyModelFit) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Prng prng(seed);
    WatchModel model = seed % 3 == 0 ? Thousand() : Typical();
    for (int i = 0; i < 20; ++i) {
      const auto kind = static_cast<KeyKind>(prng.Below(12));
      const Key key{.kind = kind, .character = static_cast<char>(' ' + prng.Below(95))};
      model.OnKey(key, prng.Below(50), prng.Below(1'200));
    }
    const ScreenSize size{.columns = static_cast<int>(prng.Between(1, 250)),
                          .rows = static_cast<int>(prng.Between(1, 60))};
    static_cast<void>(Draw(model, size));
  }
}

}  // namespace
}  // namespace nstance::admin
