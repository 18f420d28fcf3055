// Lines of /proc as kernels and hostile program names write them; and real processes: who belongs
// to an instance, and that a signal never reaches a process that only has the same number.
#include "adapters/provider_local/processes.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include <gtest/gtest.h>

namespace nstance::provider_local {
namespace {

constexpr std::string_view kRest =
    " S 1 4711 4710 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 123456 1000 200 18446744073709551615";

// A process that waits for a signal, with one variable.
class Sleeper final {
 public:
  explicit Sleeper(std::string variable) {
    std::string program = "/bin/sleep";
    std::string length = "600";
    const std::array<char*, 3> arguments = {program.data(), length.data(), nullptr};
    const std::array<char*, 2> environment = {variable.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, arguments.data(),
                            environment.data()),
              0);
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  [[nodiscard]] ProcessName name() const { return FindProcess(pid_).value_or(Process{}).name; }

 private:
  pid_t pid_ = -1;
};

bool Contains(const Tree& tree, const ProcessName& name) {
  return std::ranges::any_of(tree.members,
                             [&](const Process& process) { return process.name == name; });
}

TEST(ProcessesTest, StatIsReadWhateverTheProgramIsCalled) {
  for (const std::string name : {"sleep", "a b", ") S 1 2 3", "(((", "x\ny", ""}) {
    const auto process = ParseStat("4711 (" + name + ")" + std::string(kRest));
    ASSERT_TRUE(process) << name;
    EXPECT_EQ(process->name, (ProcessName{.pid = 4'711, .start_time = 123'456}));
    EXPECT_EQ(process->parent, 1);
    EXPECT_EQ(process->session, 4'710);
    EXPECT_FALSE(process->is_dead());
  }
}

TEST(ProcessesTest, WhatIsNoStatIsNothing) {
  for (const std::string text :
       {"", "4711", "4711 (x", "x (y) S 1 2 3", "4711 (x) S 1 2", "4711 (x) ST 1 2 3 4", ") (",
        "4711 (x) S a 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"}) {
    EXPECT_FALSE(ParseStat(text)) << text;
  }
}

TEST(ProcessesTest, WeAreAliveAndSomebodyWithOurNumberIsNot) {
  const auto self = FindProcess(::getpid());
  ASSERT_TRUE(self);
  EXPECT_EQ(self->parent, ::getppid());
  EXPECT_TRUE(IsAlive(self->name));
  EXPECT_FALSE(IsAlive({.pid = self->name.pid, .start_time = self->name.start_time + 1}));
  EXPECT_FALSE(OpenProcess({.pid = self->name.pid, .start_time = 1}).is_open());
  EXPECT_FALSE(OpenProcess({.pid = 0, .start_time = 0}).is_open());
  EXPECT_FALSE(OpenProcess({.pid = -1, .start_time = 0}).is_open());
}

TEST(ProcessesTest, ASignalNeedsTheRightStartTime) {
  const Sleeper sleeper("A=b");
  const ProcessName name = sleeper.name();
  EXPECT_FALSE(SendSignal({.pid = name.pid, .start_time = name.start_time + 1}, SIGKILL));
  EXPECT_TRUE(IsAlive(name));
  EXPECT_TRUE(SendSignal(name, SIGKILL));
}

TEST(ProcessesTest, TheMarkDecidesAndOnlyTheWholeMark) {
  const Sleeper ours("NSTANCE_LOCAL_ID=test-mark-1");
  const Sleeper longer("NSTANCE_LOCAL_ID=test-mark-12");
  const Sleeper other("XNSTANCE_LOCAL_ID=test-mark-1");
  const auto tree = FindTree("test-mark-1", std::nullopt);
  ASSERT_TRUE(tree) << tree.error().ToString();
  EXPECT_TRUE(Contains(*tree, ours.name()));
  EXPECT_EQ(tree->members.size(), 1U);
  EXPECT_FALSE(tree->keeper_alive);
}

TEST(ProcessesTest, AKeeperIsNotItsOwnMemberAndADeadOneHasNoFamily) {
  const Sleeper keeper("NSTANCE_LOCAL_ID=test-mark-3");
  const ProcessName name = keeper.name();
  const auto alive = FindTree("test-mark-3", name);
  ASSERT_TRUE(alive);
  EXPECT_TRUE(alive->keeper_alive);
  EXPECT_TRUE(alive->members.empty());
  // Somebody who only has its number: neither its family nor its session is ours.
  const auto self = FindProcess(::getpid());
  const auto reused = FindTree("test-mark-4", ProcessName{.pid = self->session, .start_time = 1});
  ASSERT_TRUE(reused);
  EXPECT_FALSE(reused->keeper_alive);
  EXPECT_TRUE(reused->members.empty());
}

TEST(ProcessesTest, ThisBootHasAnId) {
  EXPECT_EQ(BootId().size(), 36U);
  EXPECT_TRUE(PidNamespace().starts_with("pid:["));
}

}  // namespace
}  // namespace nstance::provider_local
