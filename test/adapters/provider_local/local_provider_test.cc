// What the local provider adds to the contract of all providers: what is on disk, what an instance
// finds, how its whole tree ends, and what damage, foreign folders and reused pids do to it. Real
// processes throughout; nothing waits for a time, only for a state.
#include "adapters/provider_local/local_provider.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/provider_local/local_host.h"
#include "base/text.h"
#include "test/adapters/provider_local/local_world.h"
#include "test/support/loop_runner.h"
#include "test/support/process_entropy.h"

namespace nstance::test {
namespace {

namespace fs = std::filesystem;
using provider_local::HostMark;
using provider_local::IsAlive;
using provider_local::SendSignal;

std::string Slurp(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

unsigned Mode(const fs::path& path) {
  struct stat about{};
  EXPECT_EQ(::lstat(path.c_str(), &about), 0) << path;
  return about.st_mode & 07777U;
}

class LocalProviderTest : public testing::Test {
 public:
  void SetUp() override { provider_ = world_.Open(); }

  InstanceId NewId() {
    return ids_.Next("wrk", Timestamp::FromUnix(1'760'000'000), ProcessEntropy(++made_));
  }
  ProviderCall Call(Duration patience = Duration::Seconds(60)) {
    return {.epoch = 1, .deadline = world_.loop().Now() + patience};
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
  ProviderResult<ProviderInstance> Create(const ProviderCreate& request) {
    return Await<ProviderInstance>(
        [&](auto done) { return provider_->Create(Call(), request, std::move(done)); });
  }
  // Runs `script` in a new instance.
  InstanceId RunScript(const std::string& script) {
    const InstanceId id = NewId();
    ProviderCreate request = world_.Request(id);
    request.user_data = script;
    const auto created = Create(request);
    EXPECT_TRUE(created) << created.error().error.ToString();
    return id;
  }
  ProviderResult<ProviderInstance> Get(const InstanceId& id, std::string provider_id = {}) {
    return Await<ProviderInstance>([&](auto done) {
      return provider_->Get(Call(),
                            {.instance_id = id, .provider_instance_id = std::move(provider_id)},
                            std::move(done));
    });
  }
  ProviderResult<ProviderDeleted> Delete(const InstanceId& id, std::string provider_id = {}) {
    return Await<ProviderDeleted>([&](auto done) {
      return provider_->Delete(Call(),
                               {.instance_id = id, .provider_instance_id = std::move(provider_id)},
                               std::move(done));
    });
  }
  std::vector<std::string> Listed() {
    const auto page = Await<ProviderPage>(
        [&](auto done) { return provider_->List(Call(), {}, std::move(done)); });
    if (!page) return {page.error().error.ToString()};
    std::vector<std::string> ids;
    for (const ProviderInstance& vm : page->instances) ids.push_back(vm.shown_id);
    return ids;
  }
  bool Becomes(const std::function<bool()>& state) {
    return RunUntil(world_.loop(), state, Duration::Seconds(60));
  }
  bool BecomesStatus(const InstanceId& id, ProviderStatus status) {
    for (int looks = 0; looks < 3'000; ++looks) {
      const auto seen = Get(id);
      if (seen && seen->status == status) return true;
      (void)RunUntil(world_.loop(), [] { return false; }, Duration::Milliseconds(5));
    }
    return false;
  }
  std::vector<std::string> RootNames() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(world_.root())) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  std::string Out(const InstanceId& id) { return Slurp(world_.Folder(id) / "console.log"); }

  LocalWorld world_;
  std::unique_ptr<LocalProvider> provider_;
  Puidv7Generator ids_;
  std::uint8_t made_ = 0;
};

TEST_F(LocalProviderTest, AnInstanceIsAFolderThatOnlyItsUserMayRead) {
  const InstanceId id = RunScript("echo out; echo err >&2; exec sleep 600");
  const fs::path folder = world_.Folder(id);
  EXPECT_EQ(Mode(world_.root()), 0700U);
  EXPECT_EQ(Mode(folder), 0700U);
  EXPECT_EQ(Mode(folder / "meta.json"), 0600U);
  EXPECT_EQ(Mode(folder / "run.json"), 0600U);
  EXPECT_EQ(Mode(folder / "userdata"), 0700U);
  EXPECT_EQ(Mode(folder / "work"), 0700U);
  EXPECT_EQ(Mode(folder / "lock"), 0600U);
  EXPECT_EQ(Slurp(folder / "userdata"), "echo out; echo err >&2; exec sleep 600");
  EXPECT_TRUE(Becomes([&] { return Out(id) == "out\nerr\n"; })) << Out(id);
  EXPECT_EQ(Mode(folder / "console.log"), 0600U);
  const auto seen = Get(id);
  ASSERT_TRUE(seen) << seen.error().error.ToString();
  EXPECT_EQ(seen->status, ProviderStatus::kRunning);
  EXPECT_EQ(seen->private_ipv4, "127.0.0.1");
  EXPECT_EQ(seen->private_ipv6, "::1");
  EXPECT_EQ(seen->hostname, id.text());
  EXPECT_EQ(seen->region, "local");
  EXPECT_TRUE(seen->launched_at);
  EXPECT_TRUE(seen->provider_instance_id.starts_with("local-"));
  EXPECT_TRUE(seen->provider_instance_id.ends_with("-" + id.text()));
  EXPECT_EQ(RootNames(), std::vector<std::string>{id.text()});
}

TEST_F(LocalProviderTest, AnInstanceFindsACleanEnvironmentAndItsOwnSession) {
  LocalProvider::Options options = world_.Options();
  options.local.env = {{"FROM_OPTIONS", "1"}, {"BOTH", "options"}};
  options.program_folder = "/opt/nstance";
  provider_ = world_.Open(std::move(options));
  const InstanceId id = NewId();
  ProviderCreate request = world_.Request(id);
  request.user_data =
      "/usr/bin/env | sort; pwd; readlink /proc/self/fd/0; ls /proc/$$/fd | wc -l; "
      "ps -o sid= -p $$; trap; echo done";
  const auto env = json::Parse(R"({"BOTH": "args", "QUOTED": "a b'\"$x\nc"})");
  request.args = {{.key = "Env", .key_position = {}, .value = *env}};
  ASSERT_TRUE(Create(request));
  ASSERT_TRUE(BecomesStatus(id, ProviderStatus::kStopped));
  const std::string out = Out(id);
  const std::string work = (world_.Folder(id) / "work").string();
  for (const std::string& line :
       {std::string("PATH=/opt/nstance:/usr/local/sbin:"), std::string("LANG=C.UTF-8\n"),
        "HOME=" + work + "\n", "TMPDIR=" + work + "\n", "NSTANCE_LOCAL_ID=" + id.text() + "\n",
        std::string("FROM_OPTIONS=1\n"), std::string("BOTH=args\n"),
        std::string("QUOTED=a b'\"$x\n"), work + "\n/dev/null\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << line << "in:\n" << out;
  }
  // Nothing of this process's own environment.
  EXPECT_EQ(out.find("GTEST"), std::string::npos);
  EXPECT_EQ(out.find("USER="), std::string::npos);
  const auto run = world_.RunOf(id);
  ASSERT_TRUE(run);
  EXPECT_NE(out.find(fmt::format("{}\ndone\n", run->keeper.pid)), std::string::npos) << out;
}

TEST_F(LocalProviderTest, TheExitCodeIsKeptAndAnInstanceThatEndedIsNotStartedAgain) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"exit 7", "7"}, {"true", "0"}, {"kill -KILL $$", "137"}, {"no-such-program", "127"}};
  for (const auto& [script, code] : rows) {
    const InstanceId id = RunScript(
        fmt::format("echo x >> {}/starts/$NSTANCE_LOCAL_ID\n{}", world_.path().string(), script));
    ASSERT_TRUE(BecomesStatus(id, ProviderStatus::kStopped));
    EXPECT_TRUE(Becomes([&] { return Get(id)->tags.contains("exit_code"); })) << script;
    EXPECT_EQ(Get(id)->tags["exit_code"], code) << script;
    EXPECT_EQ(Get(id)->tags["team"], "blue");
    ProviderCreate request = world_.Request(id);
    request.user_data = Slurp(world_.Folder(id) / "userdata");
    const auto again = Create(request);
    ASSERT_TRUE(again) << again.error().error.ToString();
    EXPECT_EQ(again->status, ProviderStatus::kStopped);
    EXPECT_EQ(world_.Starts(id), 1U);
  }
}

TEST_F(LocalProviderTest, AnInstanceRunsAsLongAsAnyProcessOfItsTree) {
  const std::filesystem::path last = world_.path() / "last";
  const InstanceId id =
      RunScript(fmt::format("(setsid sleep 600 &) ; echo x > {} ; exit 3", last.string()));
  // The script has said its last word, and only what it left behind lives.
  ASSERT_TRUE(Becomes([&] {
    const auto tree = world_.TreeOf(id);
    return std::filesystem::exists(last) && tree.keeper_alive && tree.members.size() == 1;
  }));
  EXPECT_EQ(Get(id)->status, ProviderStatus::kRunning);
  world_.EndVm(id);
  ASSERT_TRUE(BecomesStatus(id, ProviderStatus::kStopped));
  EXPECT_EQ(Get(id)->tags["exit_code"], "3");
}

TEST_F(LocalProviderTest, DeleteEndsTheWholeTreeHoweverItHides) {
  // Daemons, own sessions, cleaned environments, deaf to SIGTERM, stopped.
  const InstanceId id = RunScript(
      "trap '' TERM\n"
      "(setsid bash -c 'trap \"\" TERM; sleep 600' &)\n"
      "(env -i /usr/bin/setsid /bin/sleep 601 &)\n"
      "nohup sleep 602 &\n"
      "sleep 603 & kill -STOP $!\n"
      "echo ready; while :; do sleep 604; done");
  ASSERT_TRUE(Becomes([&] { return Out(id).find("ready") != std::string::npos; }));
  ASSERT_TRUE(Becomes([&] { return world_.TreeOf(id).members.size() >= 6; }));
  const auto tree = world_.TreeOf(id);
  const auto run = world_.RunOf(id);
  const auto deleted = Delete(id);
  ASSERT_TRUE(deleted) << deleted.error().error.ToString();
  EXPECT_EQ(*deleted, ProviderDeleted::kDone);
  for (const auto& process : tree.members) EXPECT_FALSE(IsAlive(process.name));
  EXPECT_FALSE(IsAlive(run->keeper));
  EXPECT_TRUE(RootNames().empty());
  // No zombie either: the keeper was our child.
  EXPECT_TRUE(Becomes([&] {
    const auto left = provider_local::FindProcess(run->keeper.pid);
    return !left || left->name != run->keeper;
  }));
}

TEST_F(LocalProviderTest, ATreeThatHeedsSigtermHasTimeToEnd) {
  LocalProvider::Options options = world_.Options();
  options.local.kill_grace = Duration::Minutes(10);  // Never reached, or the test is too slow.
  provider_ = world_.Open(std::move(options));
  const std::string proof = (world_.path() / "proof").string();
  // Ready when the last process of the tree is there: one that is born after the signal would not
  // have heard it.
  const InstanceId id = RunScript(
      fmt::format("trap 'echo bye > {}; exit 0' TERM\nsleep 600 & echo ready; wait", proof));
  ASSERT_TRUE(Becomes([&] { return Out(id).find("ready") != std::string::npos; }));
  ASSERT_TRUE(Delete(id));
  EXPECT_EQ(Slurp(proof), "bye\n");
}

TEST_F(LocalProviderTest, WhenTheKeeperIsKilledTheInstanceIsStoppedAndDeleteFindsTheRest) {
  const InstanceId id = RunScript("sleep 600 & sleep 601");
  ASSERT_TRUE(Becomes([&] { return world_.TreeOf(id).members.size() >= 3; }));
  const auto run = world_.RunOf(id);
  bool told = false;
  const Pending watch = provider_->Watch([&](const ProviderInstance& vm) {
    told = told || (vm.instance_id == id && vm.status == ProviderStatus::kStopped);
  });
  ASSERT_TRUE(SendSignal(run->keeper, SIGKILL));
  EXPECT_TRUE(Becomes([&] { return told; }));
  EXPECT_EQ(Get(id)->status, ProviderStatus::kStopped);
  EXPECT_FALSE(Get(id)->tags.contains("exit_code"));
  const auto tree = world_.TreeOf(id);
  EXPECT_GE(tree.members.size(), 2U);
  ASSERT_TRUE(Delete(id));
  for (const auto& process : tree.members) EXPECT_FALSE(IsAlive(process.name));
  EXPECT_TRUE(RootNames().empty());
}

TEST_F(LocalProviderTest, ARunLimitEndsTheTree) {
  const InstanceId id = NewId();
  ProviderCreate request = world_.Request(id);
  request.user_data = "trap '' TERM; (setsid sleep 600 &); while :; do sleep 600; done";
  request.args = {{.key = "Timeout", .key_position = {}, .value = json::Value::String("100ms")}};
  ASSERT_TRUE(Create(request));
  EXPECT_TRUE(BecomesStatus(id, ProviderStatus::kStopped));
  EXPECT_TRUE(world_.TreeOf(id).members.empty());
  EXPECT_TRUE(Becomes([&] { return Get(id)->tags["exit_code"] == "137"; }));
}

TEST_F(LocalProviderTest, TheConsoleIsRotatedAndNeverHoldsTheInstanceUp) {
  const InstanceId id = RunScript("head -c 300000 /dev/zero | tr '\\0' x; echo; echo end");
  ASSERT_TRUE(BecomesStatus(id, ProviderStatus::kStopped));
  EXPECT_LE(fs::file_size(world_.Folder(id) / "console.log"), 4'096U);
  EXPECT_EQ(fs::file_size(world_.Folder(id) / "console.log.1"), 4'096U);
  EXPECT_TRUE(Out(id).ends_with("end\n"));
}

TEST_F(LocalProviderTest, LogsAreKeptWhenThatIsAskedFor) {
  LocalProvider::Options options = world_.Options();
  options.local.keep_logs = true;
  provider_ = world_.Open(std::move(options));
  const InstanceId id = RunScript("echo last words");
  ASSERT_TRUE(BecomesStatus(id, ProviderStatus::kStopped));
  ASSERT_TRUE(Delete(id));
  EXPECT_EQ(RootNames(), std::vector<std::string>{"logs"});
  EXPECT_EQ(Slurp(world_.root() / "logs" / (id.text() + ".log")), "last words\n");
  EXPECT_TRUE(Listed().empty());
}

TEST_F(LocalProviderTest, AServerThatRestartsFindsItsInstancesAndHearsOfTheirEnd) {
  const InstanceId id = RunScript("exec sleep 600");
  provider_.reset();
  EXPECT_TRUE(world_.TreeOf(id).keeper_alive);
  provider_ = world_.Open();
  bool told = false;
  const Pending watch = provider_->Watch([&](const ProviderInstance& vm) {
    told = told || (vm.instance_id == id && vm.status == ProviderStatus::kStopped);
  });
  EXPECT_EQ(Listed(), std::vector<std::string>{id.text()});
  world_.EndVm(id);
  EXPECT_TRUE(Becomes([&] { return told; }));
}

TEST_F(LocalProviderTest, TheEndOfAnInstanceIsHeardAtOnce) {
  // No assertion on time: it is printed.
  std::vector<double> milliseconds;
  for (int i = 0; i < 5; ++i) {
    const InstanceId id = RunScript("exec sleep 600");
    ASSERT_TRUE(Becomes([&] { return world_.TreeOf(id).members.size() == 1; }));
    bool told = false;
    const Pending watch = provider_->Watch([&](const ProviderInstance&) {
      told = true;
      world_.loop().Stop();
    });
    const auto member = world_.TreeOf(id).members.front().name;
    const auto before = std::chrono::steady_clock::now();
    ASSERT_TRUE(SendSignal(member, SIGKILL));
    while (!told) world_.loop().Run();
    milliseconds.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before)
            .count());
  }
  std::ranges::sort(milliseconds);
  fmt::print("kill to push event: median {:.1f} ms, worst {:.1f} ms\n", milliseconds[2],
             milliseconds[4]);
}

TEST_F(LocalProviderTest, AnotherBootMeansStoppedAndNobodyIsSignalled) {
  const InstanceId id = RunScript("exec sleep 600");
  auto run = world_.RunOf(id);
  ASSERT_TRUE(run);
  const auto tree = world_.TreeOf(id);
  ASSERT_TRUE(SendSignal(run->keeper, SIGKILL));
  ASSERT_TRUE(Becomes([&] { return !IsAlive(run->keeper); }));
  for (const auto& process : tree.members) SendSignal(process.name, SIGKILL);
  // After the next boot our own pid may be what the keeper's was.
  run->boot_id = "11111111-2222-3333-4444-555555555555";
  run->keeper = provider_local::FindProcess(::getpid())->name;
  std::ofstream(world_.Folder(id) / "run.json") << provider_local::WriteRun(*run);
  EXPECT_EQ(Get(id)->status, ProviderStatus::kStopped);
  ASSERT_TRUE(Delete(id));
  EXPECT_TRUE(RootNames().empty());
}

TEST_F(LocalProviderTest, APidThatIsSomebodyElsesIsNeitherWatchedNorKilled) {
  const InstanceId id = RunScript("exec sleep 600");
  auto run = world_.RunOf(id);
  const auto tree = world_.TreeOf(id);
  ASSERT_TRUE(SendSignal(run->keeper, SIGKILL));
  for (const auto& process : tree.members) SendSignal(process.name, SIGKILL);
  ASSERT_TRUE(Becomes([&] { return world_.TreeOf(id).members.empty(); }));
  // Ours, with another start time: as if the number had come around.
  run->keeper.pid = ::getpid();
  std::ofstream(world_.Folder(id) / "run.json") << provider_local::WriteRun(*run);
  EXPECT_EQ(Get(id)->status, ProviderStatus::kStopped);
  ASSERT_TRUE(Delete(id));
  EXPECT_TRUE(RootNames().empty());
}

TEST_F(LocalProviderTest, WhatNeverRanIsStoppedUntilItIsCreatedAgain) {
  const InstanceId id = NewId();
  LocalProvider::Options options = world_.Options();
  options.keeper_command = {"/bin/false"};
  provider_ = world_.Open(std::move(options));
  const auto failed = Create(world_.Request(id));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().error.outcome, Outcome::kMaybeDone) << failed.error().error.ToString();
  EXPECT_EQ(Get(id)->status, ProviderStatus::kStopped);
  // Somebody who holds the lock is making it.
  const int lock = ::open((world_.Folder(id) / "lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  EXPECT_EQ(Get(id)->status, ProviderStatus::kPending);
  ::close(lock);
  provider_ = world_.Open();
  const auto created = Create(world_.Request(id));
  ASSERT_TRUE(created) << created.error().error.ToString();
  EXPECT_EQ(created->status, ProviderStatus::kRunning);
  EXPECT_TRUE(Becomes([&] { return world_.Starts(id) == 1; }));
}

TEST_F(LocalProviderTest, ADamagedRunFileIsNoReasonToStartAgainNorToKeepForEver) {
  const InstanceId id = RunScript(world_.Request(NewId()).user_data);
  const auto tree = world_.TreeOf(id);
  ASSERT_TRUE(Becomes([&] { return !world_.TreeOf(id).members.empty(); }));
  std::ofstream(world_.Folder(id) / "run.json") << "";
  EXPECT_EQ(Get(id)->status, ProviderStatus::kRunning);
  ProviderCreate request = world_.Request(id);
  request.user_data = Slurp(world_.Folder(id) / "userdata");
  const auto again = Create(request);
  ASSERT_TRUE(again) << again.error().error.ToString();
  EXPECT_EQ(again->status, ProviderStatus::kRunning);
  const auto deleted = Delete(id);
  ASSERT_TRUE(deleted) << deleted.error().error.ToString();
  for (const auto& process : tree.members) EXPECT_FALSE(IsAlive(process.name));
  EXPECT_TRUE(RootNames().empty());
}

TEST_F(LocalProviderTest, AnotherHostsIdIsAnErrorAndNeverNotFound) {
  const InstanceId id = RunScript("exec sleep 600");
  for (const std::string& provider_id : {"local-deadbeef-" + id.text(), std::string("i-0123456789"),
                                         "local-deadbeef-" + NewId().text(), std::string("../x")}) {
    const auto seen = Get(id, provider_id);
    ASSERT_FALSE(seen);
    EXPECT_EQ(seen.error().error.code, Code::kFailedPrecondition) << seen.error().error.ToString();
    const auto deleted = Delete(id, provider_id);
    ASSERT_FALSE(deleted);
    EXPECT_EQ(deleted.error().error.code, Code::kFailedPrecondition);
    const auto unknown = Get(NewId(), provider_id);
    EXPECT_NE(unknown.error().error.code, Code::kNotFound);
  }
  EXPECT_EQ(Get(id)->status, ProviderStatus::kRunning);
}

TEST_F(LocalProviderTest, AnotherShardsInstanceIsNotListedAndNotTouched) {
  const InstanceId id = RunScript("exec sleep 600");
  LocalProvider::Options options = world_.Options();
  options.shard = *ShardId::Parse("b");
  provider_ = world_.Open(std::move(options));
  EXPECT_TRUE(Listed().empty());
  const auto deleted = Delete(id);
  ASSERT_FALSE(deleted);
  EXPECT_EQ(deleted.error().error.code, Code::kAlreadyExists) << deleted.error().error.ToString();
  const auto created = Create(world_.Request(id));
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().error.code, Code::kAlreadyExists);
  EXPECT_EQ(created.error().error.outcome, Outcome::kNotDone);
  EXPECT_EQ(created.error().reason, ProviderReason::kInvalid);
  EXPECT_TRUE(world_.TreeOf(id).keeper_alive);
}

TEST_F(LocalProviderTest, AFolderWhoseMetaNamesAnotherInstanceIsNotTouched) {
  const InstanceId id = RunScript("exec sleep 600");
  const InstanceId other = NewId();
  fs::create_directory(world_.Folder(other));
  fs::copy(world_.Folder(id) / "meta.json", world_.Folder(other) / "meta.json");
  EXPECT_EQ(Listed(), std::vector<std::string>{id.text()});
  EXPECT_EQ(Get(other).error().error.code, Code::kAlreadyExists);
  EXPECT_FALSE(Delete(other));
  EXPECT_TRUE(fs::exists(world_.Folder(other)));
  fs::remove_all(world_.Folder(other));
}

TEST_F(LocalProviderTest, DamageAndForeignThingsInTheRootAreNoInstancesAndNoEvidence) {
  const InstanceId id = RunScript("exec sleep 600");
  const InstanceId damaged = NewId();
  const InstanceId linked = NewId();
  const InstanceId file = NewId();
  const InstanceId bare = NewId();
  (void)world_.folder().Write("instances/" + damaged.text() + "/meta.json", "{\"version\": 1,");
  (void)world_.folder().Write("instances/" + file.text(), "not a folder");
  (void)world_.folder().Write("instances/README", "x");
  (void)world_.folder().Write("instances/not-an-id/meta.json", "x");
  (void)world_.folder().Write("outside/meta.json", Slurp(world_.Folder(id) / "meta.json"));
  fs::create_directory_symlink(world_.path() / "outside", world_.Folder(linked));
  fs::create_directory(world_.Folder(bare));
  EXPECT_EQ(Listed(), std::vector<std::string>{id.text()});
  for (const InstanceId& other : {damaged, linked, file}) {
    const auto seen = Get(other);
    ASSERT_FALSE(seen);
    EXPECT_NE(seen.error().error.code, Code::kNotFound) << seen.error().error.ToString();
    const auto deleted = Delete(other);
    EXPECT_FALSE(deleted);
    EXPECT_FALSE(Create(world_.Request(other)));
    EXPECT_TRUE(fs::exists(fs::symlink_status(world_.Folder(other))));
  }
  EXPECT_TRUE(fs::exists(world_.path() / "outside/meta.json"));
  // A folder without meta.json is no evidence either.
  const auto nothing = Get(bare);
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().error.code, Code::kNotFound) << nothing.error().error.ToString();
  EXPECT_FALSE(Delete(bare));
  EXPECT_TRUE(fs::exists(world_.Folder(bare)));
}

TEST_F(LocalProviderTest, ARootThatIsGoneIsAnErrorAndNotAnEmptyWorld) {
  const InstanceId id = NewId();
  EXPECT_EQ(Get(id).error().error.code, Code::kNotFound);
  fs::remove_all(world_.root());
  EXPECT_EQ(Get(id).error().error.code, Code::kUnavailable);
  EXPECT_FALSE(Delete(id));
  ASSERT_EQ(Listed().size(), 1U);
  EXPECT_NE(Listed().front().find("was removed"), std::string::npos) << Listed().front();
  const auto created = Create(world_.Request(id));
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().error.outcome, Outcome::kNotDone);
}

TEST_F(LocalProviderTest, TheLimitOfInstancesIsAQuota) {
  LocalProvider::Options options = world_.Options();
  options.local.max_instances = 3;
  provider_ = world_.Open(std::move(options));
  std::vector<Pending> pendings;
  std::vector<ProviderResult<ProviderInstance>> answers;
  for (int i = 0; i < 8; ++i) {
    pendings.push_back(provider_->Create(Call(), world_.Request(NewId()), [&](auto result) {
      answers.push_back(std::move(result));
    }));
  }
  ASSERT_TRUE(Becomes([&] { return answers.size() == 8; }));
  int created = 0;
  for (const auto& answer : answers) {
    created += answer.has_value() ? 1 : 0;
    if (answer) continue;
    EXPECT_EQ(answer.error().error.code, Code::kResourceExhausted);
    EXPECT_EQ(answer.error().error.outcome, Outcome::kNotDone);
    EXPECT_EQ(answer.error().reason, ProviderReason::kQuota);
    EXPECT_NE(answer.error().error.message.find("max_instances"), std::string::npos);
  }
  EXPECT_EQ(created, 3);
  EXPECT_EQ(RootNames().size(), 3U);
  // What exists is answered all the same.
  const auto id = ParsePuidv7(RootNames().front());
  EXPECT_TRUE(Create(world_.Request(*id)));
}

TEST_F(LocalProviderTest, BadRequestsAreRefusedAndLeaveNothing) {
  std::vector<ProviderCreate> bad(8, world_.Request(NewId()));
  bad[0].group = std::string(2'000, 'g');
  bad[1].template_name = "\xff\xfe";
  bad[2].tags = {{"a", std::string(2'000, 'x')}};
  for (int i = 0; i < 300; ++i) bad[3].tags[std::to_string(i)] = "x";
  bad[4].args = {{.key = "ImageId", .key_position = {}, .value = json::Value::String("x")}};
  bad[5].args = {{.key = "Env", .key_position = {}, .value = json::Value::String("x")}};
  bad[6].tags = {{"\xc0", "x"}};
  bad[7].user_data = std::string(Provider::kMaxUserDataBytes + 1, 's');
  for (const ProviderCreate& request : bad) {
    const auto refused = Create(request);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().error.code, Code::kInvalidArgument);
    EXPECT_EQ(refused.error().error.outcome, Outcome::kNotDone);
    EXPECT_EQ(refused.error().reason, ProviderReason::kInvalid);
    EXPECT_TRUE(IsValidUtf8(refused.error().error.message));
    EXPECT_LT(refused.error().error.message.size(), 300U) << refused.error().error.message;
  }
  EXPECT_TRUE(RootNames().empty());
}

TEST_F(LocalProviderTest, UserDataMayHoldAnyBytes) {
  const InstanceId id = RunScript(std::string("printf 'a\\0b'\nexit 0\n\0\xff\xfe{{", 27));
  ASSERT_TRUE(BecomesStatus(id, ProviderStatus::kStopped));
  EXPECT_EQ(Out(id), std::string("a\0b", 3));
}

TEST_F(LocalProviderTest, OpenSweepsWhatCrashesHaveLeftAndNothingElse) {
  const InstanceId id = RunScript("exec sleep 600");
  const InstanceId lost = NewId();
  provider_.reset();
  const std::string fresh = "instances/.new-" + lost.text() + "-00/";
  (void)world_.folder().Write(fresh + "lock", "");
  (void)world_.folder().Write(fresh + "meta.json", "half");
  fs::create_directory(world_.root() / (".new-" + lost.text() + "-01"));
  // Whoever swept this one died when its lock was gone and the rest was not.
  (void)world_.folder().Write("instances/.new-" + lost.text() + "-02/meta.json", "{}");
  (void)world_.folder().Write("instances/.trash-" + lost.text() + "/console.log", "words");
  (void)world_.folder().Write("instances/.trash-" + lost.text() + "/work/deep/file", "x");
  (void)world_.folder().Write("instances/.new-busy/lock", "");
  (void)world_.folder().Write("instances/keep-me", "x");
  const int busy = ::open((world_.root() / ".new-busy/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(busy, LOCK_EX), 0);
  LocalProvider::Options options = world_.Options();
  options.local.keep_logs = true;
  provider_ = world_.Open(std::move(options));
  EXPECT_EQ(RootNames(), (std::vector<std::string>{".new-busy", "keep-me", "logs", id.text()}));
  EXPECT_EQ(Slurp(world_.root() / "logs" / (lost.text() + ".log")), "words");
  EXPECT_EQ(Get(id)->status, ProviderStatus::kRunning);
  ::close(busy);
}

TEST_F(LocalProviderTest, ARootThatOthersMayChangeIsRefused) {
  const auto open = [&](const std::function<void(LocalProvider::Options&)>& change) {
    LocalProvider::Options options = world_.Options();
    change(options);
    return LocalProvider::Open(world_.loop(), std::move(options));
  };
  const fs::path shared = world_.path() / "shared";
  fs::create_directory(shared);
  fs::permissions(shared, fs::perms::all);
  const auto writable = open([&](auto& options) { options.local.root = shared.string(); });
  ASSERT_FALSE(writable);
  EXPECT_EQ(writable.error().code, Code::kFailedPrecondition) << writable.error().ToString();
  if (::geteuid() == 0) {
    fs::permissions(shared, fs::perms::owner_all);
    ASSERT_EQ(::chown(shared.c_str(), 12'345, 12'345), 0);
    EXPECT_FALSE(open([&](auto& options) { options.local.root = shared.string(); }));
  }
  for (const std::string root : {"", "/", "//"}) {
    EXPECT_FALSE(open([&](auto& options) { options.local.root = root; })) << root;
  }
  const std::string file = world_.folder().Write("file", "x");
  EXPECT_FALSE(open([&](auto& options) { options.local.root = file; }));
  EXPECT_FALSE(open([&](auto& options) { options.local.root = file + "/below"; }));
  EXPECT_FALSE(open([&](auto& options) { options.local.shell = "bash"; }));
  EXPECT_FALSE(open([&](auto& options) { options.local.shell = "/no/such/shell"; }));
  EXPECT_FALSE(open([&](auto& options) { options.local.env = {{"A=B", "x"}}; }));
  EXPECT_FALSE(open([&](auto& options) { options.local.env = {{"NSTANCE_LOCAL_ID", "x"}}; }));
}

TEST_F(LocalProviderTest, AHostIsCalledByItsMachineIdOrItsName) {
  EXPECT_EQ(HostMark("0123456789abcdef0123456789abcdef\n", "h"), "01234567");
  // The first eight digits of SHA-256 of "host".
  const std::string by_name = HostMark("", "host");
  EXPECT_EQ(by_name, "4740ae63");
  EXPECT_EQ(HostMark("\n", "host"), by_name);
  EXPECT_EQ(HostMark("uninitialized\n", "host"), by_name);
  EXPECT_EQ(HostMark("../../xx\n", "host"), by_name);
}

TEST_F(LocalProviderTest, ASecondDeleteJoinsTheFirst) {
  const InstanceId id = RunScript("trap '' TERM; echo ready; while :; do sleep 600; done");
  ASSERT_TRUE(Becomes([&] { return Out(id).find("ready") != std::string::npos; }));
  std::vector<ProviderDeleted> answers;
  std::vector<Pending> pendings;
  const std::string provider_id = Get(id)->provider_instance_id;
  for (const std::string& named : {std::string(), provider_id, std::string()}) {
    pendings.push_back(provider_->Delete(Call(), {.instance_id = id, .provider_instance_id = named},
                                         [&](auto result) {
                                           ASSERT_TRUE(result) << result.error().error.ToString();
                                           answers.push_back(*result);
                                         }));
  }
  EXPECT_FALSE(Delete(id, "local-deadbeef-" + id.text()));
  ASSERT_TRUE(Becomes([&] { return answers.size() == 3; }));
  EXPECT_EQ(answers, std::vector<ProviderDeleted>(3, ProviderDeleted::kDone));
}

TEST_F(LocalProviderTest, ADeleteThatIsLateGoesOn) {
  const InstanceId id = RunScript("trap '' TERM; echo ready; while :; do sleep 600; done");
  ASSERT_TRUE(Becomes([&] { return Out(id).find("ready") != std::string::npos; }));
  const auto late = Await<ProviderDeleted>([&](auto done) {
    return provider_->Delete(Call(Duration::Milliseconds(50)), {.instance_id = id},
                             std::move(done));
  });
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().error.code, Code::kDeadlineExceeded);
  EXPECT_EQ(late.error().error.outcome, Outcome::kMaybeDone);
  EXPECT_TRUE(Becomes([&] { return RootNames().empty(); }));
}

TEST_F(LocalProviderTest, AProviderThatGoesLeavesTheLoopClean) {
  const InstanceId id = RunScript("exec sleep 600");
  bool called = false;
  const auto note = [&](const auto&) { called = true; };
  std::vector<Pending> pendings;
  pendings.push_back(provider_->Create(Call(), world_.Request(NewId()), note));
  pendings.push_back(provider_->Get(Call(), {.instance_id = id}, note));
  pendings.push_back(provider_->List(Call(), {}, note));
  pendings.push_back(provider_->Delete(Call(), {.instance_id = id}, note));
  pendings.push_back(provider_->Watch(note));
  provider_.reset();
  (void)RunUntil(world_.loop(), [] { return false; }, Duration::Milliseconds(50));
  EXPECT_FALSE(called);
}

TEST_F(LocalProviderTest, NoDescriptorAndNoZombieIsLeftBehind) {
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto zombies = [] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const auto process = provider_local::ParseStat(Slurp(entry.path() / "stat"));
      count += process && process->parent == ::getpid() && process->is_dead() ? 1 : 0;
    }
    return count;
  };
  const int zombies_before = zombies();  // Of tests before, whose providers went first.
  const auto round = [&](int count) {
    std::vector<InstanceId> ids;
    for (int i = 0; i < count; ++i)
      ids.push_back(RunScript(i % 2 == 0 ? "exec sleep 600" : "exit 1"));
    for (const InstanceId& id : ids) ASSERT_TRUE(Delete(id));
  };
  round(2);
  (void)Becomes([&] { return world_.loop().Now().since_zero() > Duration(); });
  const auto before = descriptors();
  round(10);
  EXPECT_TRUE(Becomes([&] { return descriptors() <= before; })) << descriptors() - before;
  EXPECT_TRUE(Becomes([&] { return zombies() <= zombies_before; })) << zombies();
}

}  // namespace
}  // namespace nstance::test
