// Words, tables and progress lines: tables of rows.
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin/printable.h"
#include "admin/shard/progress.h"
#include "admin/shard/views.h"
#include "admin/shard/words.h"
#include "admin/table.h"

namespace nstance::admin {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ShardPrintTest, AgesAreShort) {
  const std::vector<std::pair<std::int64_t, std::string>> rows = {
      {-5, "0s"},      {0, "0s"},        {42, "42s"},    {60, "1m"},
      {190, "3m10s"},  {3599, "59m59s"}, {3600, "1h"},   {18'000, "5h"},
      {86'399, "23h"}, {86'400, "1d"},   {300'000, "3d"}};
  for (const auto& [seconds, text] : rows) EXPECT_EQ(Age(Duration::Seconds(seconds)), text);
  EXPECT_EQ(Stopwatch(Duration::Seconds(42)), "00:42");
  EXPECT_EQ(Stopwatch(Duration::Seconds(3'723)), "1:02:03");
}

TEST(ShardPrintTest, PhasesHaveWordsBothWays) {
  for (const std::string_view word : PhaseWords()) EXPECT_EQ(PhaseWord(*PhaseOf(word)), word);
  EXPECT_EQ(PhaseWord(api::InstancePhase::kUnknown), "unknown");
  EXPECT_EQ(PhaseWord(api::InstancePhase::kUnspecified), "unknown");
  EXPECT_FALSE(PhaseOf("unknown"));
}

TEST(ShardPrintTest, PrintableTextHasNoControlsAndAKnownWidth) {
  EXPECT_EQ(Printable("plain \"quoted\" back\\slash"), "plain \"quoted\" back\\slash");
  EXPECT_EQ(Printable("a\x1b[31mb\n\t\x7f"), "a\\x1b[31mb\\n\\t\\x7f");
  EXPECT_EQ(Printable("\xC2\x9B"), "\\u009b");  // One-character CSI.
  EXPECT_EQ(Printable("\xE2\x80\xAE"), "?");    // Right-to-left override.
  EXPECT_EQ(Printable("\xE4\xB8\xAD"), "?");    // Two columns wide.
  EXPECT_EQ(Printable("e\xCC\x81"), "e?");      // Combining.
  EXPECT_EQ(Printable("\xFF"), "\\xff");
  EXPECT_EQ(Printable("caf\xC3\xA9"), "caf\xC3\xA9");
  EXPECT_EQ(WidthOf("caf\xC3\xA9"), 4U);
  EXPECT_EQ(Cut("caf\xC3\xA9s", 5), "caf\xC3\xA9s");
  EXPECT_EQ(Cut("caf\xC3\xA9s", 4), "caf>");
  EXPECT_EQ(Cut("abc", 0), "");
  EXPECT_EQ(Cut("abc", 1), ">");
}

TEST(ShardPrintTest, TablesAlignAndShowEmptyCells) {
  Table table({{"NAME"}, {"SIZE", Align::kRight}, {"NOTE"}});
  table.Add({std::string("a"), std::string("5"), std::string("x")});
  table.Add({std::string("long-name"), std::string("12345"), std::string()});
  EXPECT_EQ(table.Text(Paint::kPlain),
            "NAME        SIZE  NOTE\n"
            "a              5  x\n"
            "long-name  12345  -\n");
  EXPECT_THAT(table.Text(Paint::kColour), HasSubstr("\x1b[1mNAME\x1b[0m"));
}

TEST(ShardPrintTest, ProgressIsReachedWhenAllAreReadyAndNothingMoves) {
  using State = Progress::State;
  EXPECT_EQ(ProgressOf({.size = 2, .ready = 2}).state, State::kReached);
  EXPECT_EQ(ProgressOf({.size = 0}).state, State::kReached);
  EXPECT_EQ(ProgressOf({.size = 2, .ready = 1}).state, State::kGoing);
  EXPECT_EQ(ProgressOf({.size = 2, .creating = 1, .ready = 2}).state, State::kGoing);
  EXPECT_EQ(ProgressOf({.size = 2, .draining = 1, .ready = 2}).state, State::kGoing);
  EXPECT_EQ(ProgressOf({.size = 2, .ready = 3}).state, State::kGoing);
}

TEST(ShardPrintTest, TheProgressLineFitsTheScreen) {
  const Progress progress = ProgressOf({.size = 20, .draining = 1, .creating = 5, .ready = 14});
  ProgressLook look{
      .title = "workers@dc1-zone-a", .elapsed = Duration::Seconds(42), .columns = 120};
  EXPECT_EQ(ProgressLine(progress, look),
            "workers@dc1-zone-a  [##############------]  14/20 ready  5 creating  1 draining  "
            "00:42");
  look.columns = 79;
  EXPECT_EQ(ProgressLine(progress, look),
            "workers@dc1-zone-a  [#########----]  14/20 ready  5 creating  1 draining  00:42");
  for (look.columns = 1; look.columns < 120; ++look.columns) {
    EXPECT_LE(WidthOf(ProgressLine(progress, look)), look.columns);
  }
}

TEST(ShardPrintTest, EventsAreOneLineWhateverTheyHold) {
  const Timestamp now = Timestamp::FromUnix(1'900'000'000);
  const api::Event event{.time = now,
                         .type = "phase",
                         .group = "workers",
                         .instance_id = "i",
                         .phase = api::InstancePhase::kDraining,
                         .reason = "unhealthy",
                         .message = "line one\nline two\x1b[2J"};
  const std::string line = EventLine("a", event, {.now = now});
  EXPECT_EQ(line,
            "17:46:40  a  phase  workers  i  draining: unhealthy: line one\\nline two\\x1b[2J");
  EXPECT_EQ(EventLine("a", {.type = "leader"}, {.now = now}), "-  a  leader");
}

}  // namespace
}  // namespace nstance::admin
