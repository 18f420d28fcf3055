// The tools that other tests lean on, tried with the programs that every system has.
#include "test/support/process.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "test/support/peers.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

TEST(RunProcessTest, GivesInputAndCollectsOutputOfAnySize) {
  const std::string input(3'000'000, 'x');
  const auto answer = RunProcess({.argv = {"cat"}, .input = input});
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->exit_code, 0);
  EXPECT_TRUE(answer->out == input) << answer->out.size() << " bytes came back";
  EXPECT_EQ(answer->err, "");
}

TEST(RunProcessTest, TellsExitCodeAndStandardErrorApart) {
  const auto answer = RunProcess({.argv = {"sh", "-c", "echo out; echo err >&2; exit 3"}});
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->exit_code, 3);
  EXPECT_EQ(answer->out, "out\n");
  EXPECT_EQ(answer->err, "err\n");
  EXPECT_EQ(answer->ToString(), "exit code 3: err\n");
}

TEST(RunProcessTest, TellsTheSignalThatEndedTheProgram) {
  const auto answer = RunProcess({.argv = {"sh", "-c", "kill -TERM $$"}});
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->exit_code, 128 + 15);
}

TEST(RunProcessTest, PassesEnvironmentAndDirectory) {
  const TempDir folder;
  const auto answer = RunProcess({.argv = {"sh", "-c", "echo $HOME $NSTANCE_TRIAL; pwd -P"},
                                  .environment = {"HOME=/nowhere", "NSTANCE_TRIAL=1"},
                                  .directory = folder.path().string()});
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->out,
            "/nowhere 1\n" + std::filesystem::canonical(folder.path()).string() + "\n");
}

TEST(RunProcessTest, RefusesAProgramThatIsNotThere) {
  const auto answer = RunProcess({.argv = {"nstance-no-such-program"}});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kNotFound);
}

TEST(RunProcessTest, KillsWhatOutlivesTheDeadlineWithItsChildren) {
  // The child would hold the pipe open for a minute if it were left alive.
  const auto answer =
      RunProcess({.argv = {"sh", "-c", "sleep 60; true"}, .deadline = Duration::Milliseconds(50)});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kDeadlineExceeded);
}

TEST(RunProcessTest, DoesNotWaitForADaemonThatKeepsThePipe) {
  const auto answer =
      RunProcess({.argv = {"sh", "-c", "sleep 2 & echo done"}, .deadline = Duration::Seconds(30)});
  ASSERT_TRUE(answer) << answer.error().ToString();
  EXPECT_EQ(answer->out, "done\n");
}

TEST(FindProgramTest, LooksInPath) {
  const auto shell = FindProgram("sh");
  ASSERT_TRUE(shell);
  EXPECT_TRUE(shell->ends_with("/sh"));
  EXPECT_FALSE(FindProgram("nstance-no-such-program"));
}

TEST(TempDirTest, HoldsFilesAndGoesWithThem) {
  std::filesystem::path kept;
  {
    const TempDir folder;
    kept = folder.path();
    const std::string file = folder.Write("a/b.txt", "text");
    EXPECT_EQ(std::filesystem::file_size(file), 4U);
  }
  EXPECT_FALSE(std::filesystem::exists(kept));
}

TEST(FindGoTest, GivesAProgramOrAReason) {
  const auto go = FindGo();
  if (go) {
    EXPECT_TRUE(std::filesystem::exists(*go));
  } else {
    EXPECT_EQ(go.error().code, Code::kNotFound);
    EXPECT_NE(go.error().message, "");
  }
}

}  // namespace
}  // namespace nstance::test
