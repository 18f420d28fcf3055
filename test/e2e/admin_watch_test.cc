// `nstance-admin watch` in a real terminal of 80 x 24 (tmux), while an instance is killed and
// healed, and while the leader is killed and the standby takes over; and what it leaves behind when
// it ends.
#include <signal.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/e2e/shard_fixture.h"
#include "test/e2e/tmux.h"

namespace nstance::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AdminWatchTest : public ShardTest {
 public:
  // The shell notes the terminal's modes before and after, and how the program ended.
  [[nodiscard]] std::string Script() const {
    const std::string at = folder.path().string();
    return fmt::format(
        "echo before-the-watch\n"
        "stty -g > {0}/before\n"
        "sh -c 'echo $$ > {0}/pid; exec {1} watch --servers {2}={3} --identity-dir {0}/identity'\n"
        "echo $? > {0}/code\n"
        "stty -g > {0}/after\n"
        "echo after-the-watch\n"
        "exec cat\n",
        at, NSTANCE_ADMIN_PROGRAM, cluster->config().shard,
        cluster->forwarder().Address(LeaderForwarder::kOperator));
  }
  [[nodiscard]] std::string Read(const std::string& name) const {
    std::ifstream file(folder.path() / name);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void BeginWatch(std::size_t servers) {
    ASSERT_NO_FATAL_FAILURE(BeginWithOperator({.servers = servers, .size = 3}));
    ASSERT_TRUE(AllReady(3)) << Story();
    ASSERT_TRUE(client->WriteIdentity((folder.path() / "identity").string()).has_value());
    tmux = std::make_unique<Tmux>(folder.path().string(), Tmux::Options{.script = Script()});
    const Status started = tmux->Start();
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    ASSERT_TRUE(Until([&] { return tmux->Screen().contains("3/3"); })) << tmux->Screen();
    EXPECT_EQ(tmux->Ask("#{alternate_on} #{cursor_flag}"), "1 0\n");
  }
  // The shell goes on where it was: modes, screen, cursor.
  void ExpectRestored(const std::string& code) {
    ASSERT_TRUE(Until([&] { return tmux->Screen().contains("after-the-watch"); }))
        << tmux->Screen();
    EXPECT_EQ(Read("code"), code + "\n");
    EXPECT_EQ(Read("after"), Read("before"));
    EXPECT_NE(Read("after"), "");
    EXPECT_EQ(tmux->Ask("#{alternate_on} #{cursor_flag} #{wrap_flag}"), "0 1 1\n");
    EXPECT_THAT(tmux->Screen(), HasSubstr("before-the-watch\nafter-the-watch\n"));
  }

  TempDir folder;
  std::unique_ptr<Tmux> tmux;
};

TEST_F(AdminWatchTest, ShowsAnInstanceThatDiesAndIsHealedAndLeavesTheTerminalAsItWas) {
  ASSERT_NO_FATAL_FAILURE(BeginWatch(1));
  EXPECT_THAT(tmux->Screen(),
              AllOf(HasSubstr("nstance  groups  tenant default  1 shard"),
                    HasSubstr("local-a  workers  [#############] 3/3"), HasSubstr("q quit")));
  const std::string victim = *Registered().begin();
  // The replacement cannot join before we have looked: healing is quicker than a look.
  cluster->forwarder().Shut(LeaderForwarder::kRegistration);
  KillTree(victim);
  EXPECT_TRUE(Until([&] { return tmux->Screen().contains("2/3"); })) << tmux->Screen();
  cluster->forwarder().Open(LeaderForwarder::kRegistration);
  EXPECT_TRUE(Until([&] { return tmux->Screen().contains("3/3"); })) << tmux->Screen();
  tmux->Press("i");
  EXPECT_TRUE(Until([&] {
    const std::string screen = tmux->Screen();
    return screen.contains("1-3 of 3") && screen.contains(*Registered().begin());
  })) << tmux->Screen();
  tmux->Press("e");
  EXPECT_TRUE(Until([&] { return tmux->Screen().contains("registered: "); })) << tmux->Screen();
  tmux->Press("q");
  ASSERT_NO_FATAL_FAILURE(ExpectRestored("0"));
}

TEST_F(AdminWatchTest, ShowsThatTheLeaderDiedAndThenTheStandbyWithTheSameInstances) {
  ASSERT_NO_FATAL_FAILURE(BeginWatch(2));
  const std::set<std::string> before = Registered();
  ASSERT_NO_FATAL_FAILURE(KillLeader());
  EXPECT_TRUE(Until([&] { return tmux->Screen().contains("local-a: LOST for "); }))
      << tmux->Screen();
  ASSERT_TRUE(AllReady(3)) << Story();
  EXPECT_EQ(Registered(), before);
  EXPECT_TRUE(Until([&] {
    const std::string screen = tmux->Screen();
    return !screen.contains("LOST") && screen.contains("local-a  workers  [#############] 3/3");
  })) << tmux->Screen();
  tmux->Press("q");
  ASSERT_NO_FATAL_FAILURE(ExpectRestored("0"));
}

TEST_F(AdminWatchTest, ASignalLeavesTheTerminalAsItWas) {
  ASSERT_NO_FATAL_FAILURE(BeginWatch(1));
  const pid_t program = std::stoi(Read("pid"));
  ASSERT_EQ(::kill(program, SIGTERM), 0);
  ASSERT_NO_FATAL_FAILURE(ExpectRestored("143"));
}

}  // namespace
}  // namespace nstance::test
