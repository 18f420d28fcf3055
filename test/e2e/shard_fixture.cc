#include "test/e2e/shard_fixture.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "core/object_layout.h"
#include "test/support/loop_runner.h"

namespace nstance::test {
namespace {

namespace fs = std::filesystem;

constexpr Duration kBetweenLooks = Duration::Milliseconds(100);

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool IsTombstone(InstancePhase phase) {
  return phase == InstancePhase::kGone || phase == InstancePhase::kFailed;
}

}  // namespace

void ShardTest::Begin(Setup setup) {
  cluster = std::make_unique<E2eCluster>(
      E2eCluster::Options{.server_program = NSTANCE_SERVER_PROGRAM,
                          .agent_command = {NSTANCE_AGENT_PROGRAM},
                          .servers = setup.servers,
                          .groups = {{.name = kGroup, .size = setup.size}},
                          .server_keys = std::move(setup.server_keys)});
  ASSERT_TRUE(cluster->Start().has_value());
  leader = cluster->WaitForLeader(kSoon);
  ASSERT_TRUE(leader.has_value()) << cluster->Logs();
  for (std::size_t i = 0; i < cluster->servers(); ++i) {
    ASSERT_TRUE(cluster->server(i).WaitUntilReady(cluster->loop(), kSoon)) << cluster->Logs();
  }
}

void ShardTest::BeginWithOperator(Setup setup) {
  ASSERT_NO_FATAL_FAILURE(Begin(std::move(setup)));
  client = cluster->NewOperator();
  const Status joined = client->Join(kSoon);
  ASSERT_TRUE(joined.has_value()) << joined.error().ToString() << cluster->Logs();
}

// --- The bucket ----------------------------------------------------------------------------------

std::map<std::string, InstanceRecord> ShardTest::Records() const {
  std::map<std::string, InstanceRecord> out;
  const ShardId shard = *ShardId::Parse(cluster->config().shard);
  const fs::path bucket = cluster->bucket();
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(bucket / InstanceRecordPrefix(shard), none)) {
    const Result<ObjectKey> key = ObjectKey::Parse(fs::relative(entry.path(), bucket).string());
    if (!key.has_value()) continue;  // A temporary.
    const Result<RecordKey> names = ParseInstanceRecordKey(shard, *key);
    if (!names.has_value()) continue;
    Result<InstanceRecord> record = DecodeInstanceRecord(ReadAll(entry.path()), *names);
    if (record.has_value()) out.emplace(names->instance_id.text(), *std::move(record));
  }
  return out;
}

std::optional<InstanceRecord> ShardTest::RecordOf(const std::string& id) const {
  const auto records = Records();
  const auto at = records.find(id);
  return at == records.end() ? std::nullopt : std::optional(at->second);
}

std::set<std::string> ShardTest::In(InstancePhase phase) const {
  std::set<std::string> out;
  for (const auto& [id, record] : Records()) {
    if (record.phase == phase) out.insert(id);
  }
  return out;
}

std::map<std::string, int> ShardTest::PhaseCounts() const {
  std::map<std::string, int> out;
  for (const auto& [id, record] : Records()) ++out[std::string(PhaseName(record.phase))];
  return out;
}

std::map<std::string, std::string> ShardTest::Objects(const std::string& prefix) const {
  std::map<std::string, std::string> out;
  const fs::path bucket = cluster->bucket();
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(bucket, none)) {
    // By the names alone: a temporary file may be gone by now.
    const std::string key = entry.path().lexically_relative(bucket).string();
    const bool is_object = ("/" + key).find("/.") == std::string::npos;  // Else a temporary.
    if (is_object && entry.is_regular_file(none) && key.starts_with(prefix)) {
      out[key] = ReadAll(entry.path());
    }
  }
  return out;
}

// --- Waiting -------------------------------------------------------------------------------------

bool ShardTest::Until(const std::function<bool()>& done, Duration limit) {
  RealLoop& loop = cluster->loop();
  Instant next = loop.Now();
  return RunUntil(
      loop,
      [&] {
        if (loop.Now() < next) return false;
        const bool met = done();
        next = loop.Now() + kBetweenLooks;
        return met;
      },
      limit);
}

void ShardTest::Wait(Duration time) {
  static_cast<void>(RunUntil(cluster->loop(), [] { return false; }, time));
}

std::string ShardTest::Unsettled(std::size_t size) const {
  std::set<std::string> live;
  for (const auto& [id, record] : Records()) {
    if (IsTombstone(record.phase)) continue;
    if (record.phase != InstancePhase::kRegistered) {
      return fmt::format("{} is {}", id, PhaseName(record.phase));
    }
    live.insert(id);
  }
  if (live.size() != size) return fmt::format("{} records instead of {}", live.size(), size);
  const std::vector<std::string> folders = cluster->instances();
  if (!std::ranges::equal(folders, live)) {
    return fmt::format("records of {}, folders of {}", fmt::join(live, " "),
                       fmt::join(folders, " "));
  }
  std::set<std::string> running;
  for (const InstanceProcess& process : InstanceProcesses(cluster->config().instances_root)) {
    running.insert(process.instance_id);
  }
  if (running != live) {
    return fmt::format("records of {}, processes of {}", fmt::join(live, " "),
                       fmt::join(running, " "));
  }
  const std::map<std::string, pid_t> agents = Agents();
  for (const std::string& id : live) {
    if (!agents.contains(id)) return id + " has no agent";
  }
  return {};
}

bool ShardTest::Settles(std::size_t size, Duration limit) {
  wanted_ = size;
  return Until([&] { return Unsettled(size).empty(); }, limit);
}

bool ShardTest::AllReady(int size, Duration limit) {
  return Until(
      [&] {
        const auto group = client->Group(kGroup, Duration::Seconds(10));
        return group.has_value() && group->ready == size && group->actual_size == size &&
               group->draining == 0 && group->creating == 0;
      },
      limit);
}

testing::AssertionResult ShardTest::Resize(int size) {
  const Status resized = client->Resize(kGroup, size, kSoon);
  if (resized.has_value()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << resized.error().ToString() << cluster->Logs();
}

// --- Processes -----------------------------------------------------------------------------------

std::map<std::string, pid_t> ShardTest::Agents() const {
  std::map<std::string, pid_t> out;
  for (const InstanceProcess& process : InstanceProcesses(cluster->config().instances_root)) {
    std::error_code none;
    const fs::path program = fs::read_symlink(fmt::format("/proc/{}/exe", process.pid), none);
    if (program == fs::path(NSTANCE_AGENT_PROGRAM)) out[process.instance_id] = process.pid;
  }
  return out;
}

void ShardTest::KillLeader() {
  leader = cluster->WaitForLeader(kSoon);
  ASSERT_TRUE(leader.has_value()) << Story();
  cluster->server(*leader).Kill();
}

void ShardTest::KillTree(const std::string& id) const {
  for (const InstanceProcess& process : InstanceProcesses(cluster->config().instances_root)) {
    if (process.instance_id == id) ::kill(process.pid, SIGKILL);
  }
}

std::string ShardTest::Story() const {
  std::string counts;
  for (const auto& [phase, number] : PhaseCounts()) counts += fmt::format(" {} {}", number, phase);
  return fmt::format("{}; records:{}\n{}", Unsettled(wanted_), counts, cluster->Logs());
}

}  // namespace nstance::test
