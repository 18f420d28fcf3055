// Servers and keepers are killed with SIGKILL: once at every step that they name, and many times at
// random while several of them work on the same instances. Servers are stopped with SIGSTOP at
// every step, too, and go on when another one has done their work. Afterwards a new server must
// find nothing but whole instances, no user data may have run twice in one life of an instance, and
// a Delete must leave nothing behind.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/provider_local/files.h"
#include "base/check.h"
#include "base/prng.h"
#include "test/adapters/provider_local/kill_request.h"
#include "test/adapters/provider_local/local_world.h"
#include "test/support/loop_runner.h"
#include "test/support/process.h"
#include "test/support/process_entropy.h"

namespace nstance::test {
namespace {

namespace fs = std::filesystem;

constexpr int kKills = 60;
constexpr std::size_t kProcesses = 3;
constexpr int kPatienceMilliseconds = 60'000;

// A server of its own process, and what it has said.
class Child final {
 public:
  explicit Child(std::vector<std::string> words) {
    std::array<int, 2> ends{};
    CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, "errno {}", errno);
    out_ = provider_local::Descriptor(ends[0]);
    const provider_local::Descriptor theirs(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, theirs.number(), STDOUT_FILENO);
    words.insert(words.begin(), NSTANCE_LOCAL_SERVER);
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    CHECK(::posix_spawn(&pid_, pointers[0], &actions, nullptr, pointers.data(), environ) == 0,
          "cannot start {}", words[0]);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { Kill(); }

  // False at the end, or when nothing comes.
  bool Read() {
    pollfd waiting{.fd = out_.number(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kPatienceMilliseconds) <= 0) return false;
    std::array<char, 4'096> buffer{};
    const ssize_t count = ::read(out_.number(), buffer.data(), buffer.size());
    if (count <= 0) return false;
    said_.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
  }
  [[nodiscard]] const std::string& said() const { return said_; }

  // False when it has ended instead.
  bool WaitUntilItStandsStill() {
    int status = 0;
    while (::waitpid(pid_, &status, WUNTRACED) < 0) CHECK(errno == EINTR, "errno {}", errno);
    if (!WIFSTOPPED(status)) pid_ = -1;
    return WIFSTOPPED(status);
  }
  void GoOn() const { ::kill(pid_, SIGCONT); }

  void Kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0) CHECK(errno == EINTR, "errno {}", errno);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  provider_local::Descriptor out_;
  std::string said_;
};

class LocalKillTest : public testing::Test {
 public:
  InstanceId NewId() {
    return ids_.Next("wrk", Timestamp::FromUnix(1'760'000'000), ProcessEntropy(++made_));
  }
  [[nodiscard]] std::string starts() const { return (world_.path() / "starts").string(); }
  [[nodiscard]] std::string root() const { return world_.root().string(); }

  void Open(std::vector<std::string> keeper = {NSTANCE_LOCAL_KEEPER}) {
    LocalProvider::Options options = KillOptions(root());
    options.keeper_command = std::move(keeper);
    provider_ = world_.Open(std::move(options));
    ASSERT_NE(provider_, nullptr);
  }
  template <class T, class F>
  ProviderResult<T> Await(F ask) {
    std::optional<ProviderResult<T>> answer;
    const Pending pending = ask([&](ProviderResult<T> result) { answer = std::move(result); });
    if (!RunUntil(world_.loop(), [&] { return answer.has_value(); }, Duration::Seconds(60))) {
      return std::unexpected(ProviderError{.error = Internal("no answer")});
    }
    return *std::move(answer);
  }
  ProviderCall Call() {
    return {.epoch = 1, .deadline = world_.loop().Now() + Duration::Seconds(60)};
  }
  ProviderResult<ProviderInstance> Create(const InstanceId& id) {
    return Await<ProviderInstance>([&](auto done) {
      return provider_->Create(Call(), KillRequest(id, starts()), std::move(done));
    });
  }
  ProviderResult<ProviderInstance> Get(const InstanceId& id) {
    return Await<ProviderInstance>(
        [&](auto done) { return provider_->Get(Call(), {.instance_id = id}, std::move(done)); });
  }
  ProviderResult<ProviderDeleted> Delete(const InstanceId& id) {
    return Await<ProviderDeleted>(
        [&](auto done) { return provider_->Delete(Call(), {.instance_id = id}, std::move(done)); });
  }
  bool BecomesStarted(const InstanceId& id, std::size_t times) {
    return RunUntil(
               world_.loop(), [&] { return world_.Starts(id) >= times; }, Duration::Seconds(60)) &&
           world_.Starts(id) == times;
  }

  // Does one thing in a server that dies at `step`. False when it never came to that step.
  bool DiesAt(const std::string& step, const std::string& verb, const InstanceId& id) {
    const auto run =
        RunProcess({.argv = {NSTANCE_LOCAL_SERVER, root(), starts(), "at", step, verb, id.text()}});
    EXPECT_TRUE(run) << run.error().ToString();
    return run && run->exit_code == 128 + SIGKILL;
  }
  // Deletes, and nothing is left of it.
  void DeleteWhole(const InstanceId& id, const std::string& where) {
    const auto deleted = Delete(id);
    ASSERT_TRUE(deleted) << where << ": " << deleted.error().error.ToString();
    EXPECT_TRUE(world_.TreeOf(id).members.empty()) << where;
    EXPECT_TRUE(fs::is_empty(world_.root())) << where;
    const auto gone = Get(id);
    ASSERT_FALSE(gone) << where;
    EXPECT_EQ(gone.error().error.code, Code::kNotFound) << where;
  }

  LocalWorld world_;
  std::unique_ptr<LocalProvider> provider_;
  Puidv7Generator ids_;
  std::uint8_t made_ = 0;
};

TEST_F(LocalKillTest, AServerThatDiesAtAnyStepOfCreateLeavesOneInstanceOrNone) {
  for (const std::string step : {"create-folder", "create-locked", "create-meta", "create-filled",
                                 "create-placed", "create-synced", "create-started"}) {
    const InstanceId id = NewId();
    ASSERT_TRUE(DiesAt(step, "create", id)) << step;
    Open();  // Sweeps.
    const auto seen = Get(id);
    const bool placed =
        step == "create-placed" || step == "create-synced" || step == "create-started";
    EXPECT_EQ(seen.has_value(), placed) << step;
    if (!seen) {
      EXPECT_EQ(seen.error().error.code, Code::kNotFound) << step;
      EXPECT_TRUE(fs::is_empty(world_.root())) << step;
    } else {
      EXPECT_EQ(seen->status,
                step == "create-started" ? ProviderStatus::kRunning : ProviderStatus::kStopped)
          << step;
    }
    const auto created = Create(id);
    ASSERT_TRUE(created) << step << ": " << created.error().error.ToString();
    EXPECT_EQ(created->status, ProviderStatus::kRunning) << step;
    EXPECT_TRUE(BecomesStarted(id, 1)) << step;
    DeleteWhole(id, step);
  }
}

TEST_F(LocalKillTest, AServerThatDiesAtAnyStepOfDeleteLeavesItToTheNext) {
  for (const std::string step :
       {"remove-found", "remove-signalled", "remove-locked", "remove-renamed", "remove-synced",
        "remove-kept", "remove-removed"}) {
    const InstanceId id = NewId();
    Open();
    ASSERT_TRUE(Create(id));
    ASSERT_TRUE(BecomesStarted(id, 1));
    ASSERT_TRUE(DiesAt(step, "delete", id)) << step;
    Open();
    const auto seen = Get(id);
    if (!seen) {
      EXPECT_EQ(seen.error().error.code, Code::kNotFound) << step;
    }
    DeleteWhole(id, step);
    EXPECT_EQ(world_.Starts(id), 1U) << step;
  }
}

TEST_F(LocalKillTest, AServerThatStandsStillInACreateKeepsNobodyFromRemovingTheInstance) {
  for (const std::string step : {"create-folder", "create-locked", "create-meta", "create-filled",
                                 "create-placed", "create-synced", "create-started"}) {
    const InstanceId id = NewId();
    Child still({root(), starts(), "stop", step, "create", id.text()});
    ASSERT_TRUE(still.WaitUntilItStandsStill()) << step;
    Open();
    const auto created = Create(id);
    ASSERT_TRUE(created) << step << ": " << created.error().error.ToString();
    const bool started_by_nobody = step == "create-placed" || step == "create-synced";
    if (!started_by_nobody) {
      EXPECT_TRUE(BecomesStarted(id, 1)) << step;
    }
    const auto deleted = Delete(id);
    ASSERT_TRUE(deleted) << step << ": " << deleted.error().error.ToString();
    EXPECT_EQ(Get(id).error().error.code, Code::kNotFound) << step;

    still.GoOn();
    while (still.said().find('\n') == std::string::npos) ASSERT_TRUE(still.Read()) << step;
    // What was in its place has ended for good; what was not may still come, late.
    const auto late = Get(id);
    EXPECT_EQ(late.has_value(), !started_by_nobody && step != "create-started")
        << step << ": " << still.said();
    DeleteWhole(id, step);
    EXPECT_EQ(world_.Starts(id) == 0, started_by_nobody) << step;
  }
  EXPECT_FALSE(fs::exists(starts() + "/overlaps")) << "two trees of one instance ran side by side";
}

TEST_F(LocalKillTest, AServerThatGoesOnInTheMiddleOfARemovalStartsNothing) {
  for (const std::string step : {"remove-called-off", "remove-locked", "remove-renamed"}) {
    const InstanceId id = NewId();
    Child still({root(), starts(), "stop", "create-placed", "create", id.text()});
    ASSERT_TRUE(still.WaitUntilItStandsStill()) << step;
    LocalProvider::Options options = KillOptions(root());
    options.step = [&](std::string_view at) {
      if (at != step || !still.said().empty()) return;
      still.GoOn();
      while (still.said().find('\n') == std::string::npos && still.Read()) continue;
    };
    provider_ = world_.Open(std::move(options));
    const auto deleted = Delete(id);
    ASSERT_TRUE(deleted) << step << ": " << deleted.error().error.ToString();
    EXPECT_NE(still.said().find("maybe done"), std::string::npos) << step << ": " << still.said();
    EXPECT_EQ(world_.Starts(id), 0U) << step;
    DeleteWhole(id, step);
    provider_.reset();
  }
}

TEST_F(LocalKillTest, AServerThatStandsStillInADeleteKeepsNobodyFromRemovingTheInstance) {
  for (const std::string step : {"remove-found", "remove-signalled", "remove-locked",
                                 "remove-renamed", "remove-synced", "remove-removed"}) {
    const InstanceId id = NewId();
    Open();
    ASSERT_TRUE(Create(id));
    ASSERT_TRUE(BecomesStarted(id, 1));
    Child still({root(), starts(), "stop", step, "delete", id.text()});
    ASSERT_TRUE(still.WaitUntilItStandsStill()) << step;
    const auto deleted = Delete(id);
    ASSERT_TRUE(deleted) << step << ": " << deleted.error().error.ToString();
    EXPECT_EQ(Get(id).error().error.code, Code::kNotFound) << step;
    still.GoOn();
    while (still.said().find('\n') == std::string::npos) ASSERT_TRUE(still.Read()) << step;
    EXPECT_EQ(still.said(), "ok\n") << step;
    DeleteWhole(id, step);
    EXPECT_EQ(world_.Starts(id), 1U) << step;
  }
}

TEST_F(LocalKillTest, AKeeperThatDiesAtAnyStepNeverLetsUserDataRunTwice) {
  for (const std::string step : {"keeper-locked", "keeper-forked", "keeper-recorded",
                                 "keeper-released", "keeper-ended", "keeper-noted"}) {
    const InstanceId id = NewId();
    Open({NSTANCE_LOCAL_KEEPER, "--die-at", step});
    const bool before_record = step == "keeper-locked" || step == "keeper-forked";
    const auto first = Create(id);
    if (step == "keeper-ended" || step == "keeper-noted") {
      ASSERT_TRUE(first) << first.error().error.ToString();
      ASSERT_TRUE(BecomesStarted(id, 1));
      // Again and again: the user data may be about to fork.
      ASSERT_TRUE(RunUntil(world_.loop(), [&] {
        world_.EndVm(id);
        return !world_.TreeOf(id).keeper_alive;
      }));
    } else {
      ASSERT_FALSE(first) << step;
      EXPECT_EQ(first.error().error.outcome, Outcome::kMaybeDone) << step;
    }
    const auto seen = Get(id);
    ASSERT_TRUE(seen) << step;
    EXPECT_EQ(seen->status, ProviderStatus::kStopped) << step;
    EXPECT_EQ(seen->tags.contains("exit_code"), step == "keeper-noted") << step;
    Open();
    const auto second = Create(id);
    ASSERT_TRUE(second) << step << ": " << second.error().error.ToString();
    EXPECT_EQ(second->status, before_record ? ProviderStatus::kRunning : ProviderStatus::kStopped)
        << step;
    if (before_record) {
      EXPECT_TRUE(BecomesStarted(id, 1)) << step;
    }
    DeleteWhole(id, step);
    EXPECT_LE(world_.Starts(id), 1U) << step;
    // What was just released is killed with its keeper, before or after its first line.
    if (step != "keeper-released") {
      EXPECT_EQ(world_.Starts(id), step == "keeper-recorded" ? 0U : 1U) << step;
    }
  }
}

TEST_F(LocalKillTest, ManyServersKilledAtRandomLeaveWholeInstances) {
  std::vector<InstanceId> ids;
  std::vector<std::string> words = {root(), starts(), "loop", ""};
  for (int i = 0; i < 4; ++i) {
    ids.push_back(NewId());
    words.push_back(ids.back().text());
  }
  Prng prng(20'260'101);
  int spawned = 0;
  int answers = 0;
  const auto spawn = [&] {
    words[3] = std::to_string(++spawned);
    return std::make_unique<Child>(words);
  };
  std::vector<std::unique_ptr<Child>> children;
  for (std::size_t i = 0; i < kProcesses; ++i) children.push_back(spawn());
  for (int kills = 0; kills < kKills && !HasFailure(); ++kills) {
    auto& victim = children[static_cast<std::size_t>(prng.Below(children.size()))];
    const std::size_t enough = victim->said().size() + 1 + prng.Below(120);
    while (victim->said().size() < enough) {
      ASSERT_TRUE(victim->Read()) << "nothing is said any more: " << victim->said();
    }
    // A little into the next thing.
    ::poll(nullptr, 0, static_cast<int>(prng.Below(30)));
    victim->Kill();
    for (const char c : victim->said()) answers += c == '\n' ? 1 : 0;
    EXPECT_EQ(victim->said().find("DATA_LOSS"), std::string::npos) << victim->said();
    EXPECT_EQ(victim->said().find("ABORTED"), std::string::npos) << victim->said();
    victim = spawn();
  }
  children.clear();
  Open();
  std::size_t starts_seen = 0;
  for (const InstanceId& id : ids) {
    const auto seen = Get(id);
    EXPECT_TRUE(seen || seen.error().error.code == Code::kNotFound)
        << seen.error().error.ToString();
    starts_seen += world_.Starts(id);
  }
  for (const InstanceId& id : ids) ASSERT_TRUE(Delete(id));
  for (const InstanceId& id : ids) EXPECT_TRUE(world_.TreeOf(id).members.empty());
  std::string left;
  for (const auto& entry : fs::recursive_directory_iterator(world_.root())) {
    left += entry.path().lexically_relative(world_.root()).string() + "\n";
  }
  EXPECT_EQ(left, "");
  EXPECT_FALSE(fs::exists(starts() + "/overlaps")) << "two trees of one instance ran side by side";
  EXPECT_GT(starts_seen, 10U);
  RecordProperty("kills", kKills);
  fmt::print("{} kills, {} answers, {} starts\n", kKills, answers, starts_seen);
}

}  // namespace
}  // namespace nstance::test
