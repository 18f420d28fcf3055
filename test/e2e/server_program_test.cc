// The nstance-server program as an administrator runs it: --validate and exit codes, where the
// health pages are, what a damaged cache and a bucket that comes late do, what is fatal.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "base/json.h"
#include "core/lease.h"
#include "test/e2e/cluster_config.h"
#include "test/e2e/tcp_socket.h"
#include "test/support/background_process.h"
#include "test/support/loop_runner.h"
#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

constexpr Duration kSoon = Duration::Seconds(60);

class ServerProgramTest : public testing::Test {
 public:
  ServerProgramTest() {
    std::filesystem::create_directories(bucket() + "/config");
    config.instances_root = (folder.path() / "instances").string();
    config.agent_command = {"/bin/true"};
  }

  [[nodiscard]] std::string bucket() const { return (folder.path() / "bucket").string(); }
  [[nodiscard]] std::string cache() const { return (folder.path() / "cache").string(); }

  std::string Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = folder.path() / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole, std::ios::binary) << text;
    return whole.string();
  }
  void Store(const std::string& text) const {
    Write("bucket/config/" + config.shard + ".jsonc", text);
  }

  static ProcessOutput Run(std::vector<std::string> words) {
    words.insert(words.begin(), NSTANCE_SERVER_PROGRAM);
    auto result = RunProcess({.argv = std::move(words)});
    EXPECT_TRUE(result) << result.error().ToString();
    return result.value_or(ProcessOutput{});
  }
  ProcessOutput ValidateStored(const std::string& shard = "local-a") const {
    return Run({"--validate", "--shard", shard, "--storage", "file", "--bucket", bucket()});
  }

  // In place of one that runs; with a log of its own.
  void Start(std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {NSTANCE_SERVER_PROGRAM,
                                     "--id",
                                     "s1",
                                     "--shard",
                                     config.shard,
                                     "--storage",
                                     "file",
                                     "--bucket",
                                     bucket(),
                                     "--cachedir",
                                     cache()};
    for (const std::string port : {"registration", "operator", "agent", "election"}) {
      argv.insert(argv.end(), {"--bind", port + "=127.0.0.1:0"});
    }
    argv.insert(argv.end(), more.begin(), more.end());
    process.reset();
    std::filesystem::remove(folder.path() / "server.log");
    auto started = BackgroundProcess::Start(
        {.argv = std::move(argv), .environment = environment, .directory = folder.path().string()},
        (folder.path() / "server.log").string());
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    process = std::move(started).value();
  }
  bool UntilStatus(const std::string& address, const std::string& path, int status) {
    return RunUntil(loop, [&] { return HttpGet(address, path).status == status; }, kSoon);
  }
  void SetHealth(const std::string& address) {
    json::Object bind;
    bind.push_back(
        {.key = "health_addr", .key_position = {}, .value = json::Value::String(address)});
    config.server = {
        {.key = "bind", .key_position = {}, .value = json::Value::Map(std::move(bind))}};
  }

  static std::string KeyOf(std::size_t bytes) {
    return std::string(ClusterConfig::kKeyVariable) + "=" + std::string(bytes, 'k');
  }
  // By itself, and how.
  std::optional<int> ExitCode(Duration limit = kSoon) {
    if (!RunUntil(loop, [&] { return !process->Running(); }, limit)) return std::nullopt;
    return process->exit_code();
  }
  bool UntilLogged(const std::string& words) {
    return RunUntil(loop, [&] { return process->OutputTail().contains(words); }, kSoon);
  }
  // A cluster below that prefix of the bucket, made by a server that is stopped again.
  void MakeCluster(const std::string& prefix) {
    Write("bucket/" + prefix + "/config/" + config.shard + ".jsonc", config.ToText());
    const std::string health = fmt::format("127.0.0.1:{}", FreePort());
    Start({"--bind", "health=" + health, "--prefix", prefix});
    ASSERT_TRUE(UntilStatus(health, "/leader/health", 200)) << process->OutputTail();
    process->Signal(SIGTERM);
    ASSERT_EQ(ExitCode(), 0) << process->OutputTail();
  }

  TempDir folder;
  ClusterConfig config;
  std::vector<std::string> environment = {KeyOf(32)};
  RealLoop loop;
  std::unique_ptr<BackgroundProcess> process;
};

// --- --validate ----------------------------------------------------------------------------------

TEST_F(ServerProgramTest, ASoundConfigurationIsZero) {
  Store(config.ToText());
  EXPECT_EQ(ValidateStored().exit_code, 0);
  EXPECT_EQ(Run({"--validate=" + Write("c.jsonc", config.ToText())}).exit_code, 0);
}

TEST_F(ServerProgramTest, AWrongOneIsThreeAndSaysWhere) {
  Store("{\n  \"server\": 1 }");
  const ProcessOutput stored = ValidateStored();
  EXPECT_EQ(stored.exit_code, 3);
  EXPECT_THAT(stored.out, HasSubstr("config/local-a.jsonc:2:13: server: "));
  const std::string path = Write("c.jsonc", "{\n  \"server\": 1 }");
  const ProcessOutput file = Run({"--validate=" + path});
  EXPECT_EQ(file.exit_code, 3);
  EXPECT_THAT(file.out, HasSubstr(path + ":2:13: server: "));
}

TEST_F(ServerProgramTest, AnotherShardsConfigurationIsThree) {
  Write("bucket/config/other.jsonc", config.ToText());
  const ProcessOutput result = ValidateStored("other");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, HasSubstr("server.shard"));
}

TEST_F(ServerProgramTest, WhatCannotBeReadIsOne) {
  EXPECT_EQ(ValidateStored().exit_code, 1);
  EXPECT_EQ(Run({"--validate=" + (folder.path() / "none").string()}).exit_code, 1);
  EXPECT_EQ(Run({"--validate=/dev/zero"}).exit_code, 1);
  const ProcessOutput cloud =
      Run({"--validate", "--shard", "a", "--storage", "s3", "--bucket", "b_a_d"});
  EXPECT_EQ(cloud.exit_code, 1);
  EXPECT_THAT(cloud.err, Not(IsEmpty()));
}

TEST_F(ServerProgramTest, AWrongLineIsTwo) {
  EXPECT_EQ(Run({"--validate", "--shard", "a"}).exit_code, 2);
  EXPECT_EQ(Run({"--prefix"}).exit_code, 2);
}

TEST_F(ServerProgramTest, WhatIsNotBuiltIsAWarning) {
  config.groups = {{.name = "warm",
                    .size = 1,
                    .more = {{.key = "pool", .key_position = {}, .value = json::Value::Map({})}}}};
  Store(config.ToText());
  const ProcessOutput result = ValidateStored();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("warning: groups.default.warm.pool: not yet active"));
}

// --- --version -----------------------------------------------------------------------------------

TEST_F(ServerProgramTest, TheVersionsOfWhatReadsInputAreTold) {
  const ProcessOutput told = Run({"--version"});
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_THAT(told.out,
              MatchesRegex("nstance-server [0-9.]+\nnghttp2 [0-9]+\\.[0-9]+\\.[0-9]+\n"
                           "OpenSSL 3\\.[0-9]+\\.[0-9]+\nprotobuf [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

// --- Running -------------------------------------------------------------------------------------

TEST_F(ServerProgramTest, TheHealthPagesFollowTheConfiguration) {
  const std::string first = fmt::format("127.0.0.1:{}", FreePort());
  const std::string second = fmt::format("127.0.0.1:{}", FreePort());
  SetHealth(first);
  Write("cache/config.jsonc", config.ToText());
  SetHealth(second);
  Start();
  // The bucket has none: the last good one tells where.
  ASSERT_TRUE(UntilStatus(first, "/healthz", 200)) << process->OutputTail();
  Store(config.ToText());
  ASSERT_TRUE(UntilStatus(second, "/healthz", 200)) << process->OutputTail();
  ASSERT_TRUE(UntilStatus(second, "/leader/health", 200)) << process->OutputTail();
  EXPECT_NE(HttpGet(first, "/healthz").status, 200);
}

TEST_F(ServerProgramTest, TheHealthPagesMoveWithinTheirPort) {
  const int port = FreePort();
  const std::string everywhere = fmt::format("0.0.0.0:{}", port);
  const std::string here = fmt::format("127.0.0.1:{}", port);
  SetHealth(everywhere);
  Write("cache/config.jsonc", config.ToText());
  SetHealth(here);
  Start();
  ASSERT_TRUE(UntilStatus(here, "/healthz", 200)) << process->OutputTail();
  Store(config.ToText());
  ASSERT_TRUE(UntilStatus(here, "/leader/health", 200)) << process->OutputTail();
  EXPECT_THAT(process->OutputTail(), HasSubstr(R"("host":"127.0.0.1")"));
}

TEST_F(ServerProgramTest, ABucketMayComeLateAndTheCacheMayBeRubbish) {
  Write("cache/db/nstance.db", std::string(5'000, 'x'));
  std::filesystem::remove_all(bucket());
  const std::string health = fmt::format("127.0.0.1:{}", FreePort());
  Start({"--bind", "health=" + health, "--prefix", "clusters/one"});
  ASSERT_TRUE(UntilStatus(health, "/readyz", 503)) << process->OutputTail();
  Write("bucket/clusters/one/config/" + config.shard + ".jsonc", config.ToText());
  ASSERT_TRUE(UntilStatus(health, "/leader/health", 200)) << process->OutputTail();
  EXPECT_TRUE(std::filesystem::exists(bucket() + "/clusters/one/ca.crt"));
  EXPECT_FALSE(std::filesystem::exists(bucket() + "/ca.crt"));
  EXPECT_THAT(HttpGet(health, "/metrics").body, HasSubstr("\nnstance_takeover_seconds_count 1\n"));
  process->Signal(SIGTERM);
  EXPECT_EQ(ExitCode(), 0);
  std::ifstream file(cache() + "/db/nstance.db", std::ios::binary);
  std::string head(15, ' ');
  file.read(head.data(), 15);
  EXPECT_EQ(head, "SQLite format 3");
}

// --- What is fatal -------------------------------------------------------------------------------

TEST_F(ServerProgramTest, AnEncryptionKeyThatIsMissingOrMalformedIsOne) {
  Store(config.ToText());
  for (const auto& given :
       std::vector<std::vector<std::string>>{{}, {KeyOf(0)}, {KeyOf(31)}, {KeyOf(33)}}) {
    SCOPED_TRACE(testing::PrintToString(given));
    environment = given;
    Start({"--bind", "health=127.0.0.1:0"});
    EXPECT_EQ(ExitCode(), 1);
    EXPECT_THAT(process->OutputTail(),
                AllOf(HasSubstr(R"("fatal")"), HasSubstr(ClusterConfig::kKeyVariable),
                      Not(HasSubstr("kkkk"))));
    EXPECT_FALSE(std::filesystem::exists(bucket() + "/ca.crt"));
  }
}

TEST_F(ServerProgramTest, AHealthPortThatIsTakenIsOne) {
  Store(config.ToText());
  const Result<TcpSocket> other = TcpSocket::Listen(0);
  ASSERT_TRUE(other.has_value());
  Start({"--bind", fmt::format("health=127.0.0.1:{}", other->port())});
  EXPECT_EQ(ExitCode(), 1);
  EXPECT_THAT(process->OutputTail(), HasSubstr("health listener"));
}

TEST_F(ServerProgramTest, ACaWhoseKeyIsAnothersOrIsMissingIsOne) {
  ASSERT_NO_FATAL_FAILURE(MakeCluster("one"));
  ASSERT_NO_FATAL_FAILURE(MakeCluster("two"));
  const std::filesystem::path one = bucket() + "/one";
  std::filesystem::copy_file(bucket() + "/two/ca.crt", one / "ca.crt",
                             std::filesystem::copy_options::overwrite_existing);
  Start({"--bind", "health=127.0.0.1:0", "--prefix", "one"});
  EXPECT_EQ(ExitCode(), 1);
  EXPECT_THAT(process->OutputTail(), HasSubstr("ca.key does not belong to ca.crt"));
  ASSERT_GT(std::filesystem::remove_all(one / "secret"), 0U);
  Start({"--bind", "health=127.0.0.1:0", "--prefix", "one"});
  EXPECT_EQ(ExitCode(), 1);
  EXPECT_THAT(process->OutputTail(), HasSubstr("ca.crt exists but ca.key is missing"));
  EXPECT_FALSE(std::filesystem::exists(one / "secret")) << "no key is made for it";
}

TEST_F(ServerProgramTest, ASignalCutsTheDelayOfAFatalEndShort) {
  const auto delay = [](std::string key) {
    return json::Member{
        .key = std::move(key), .key_position = {}, .value = json::Value::String("10m")};
  };
  config.server = {{.key = "error_exit_jitter",
                    .key_position = {},
                    .value = json::Value::Map({delay("min_delay"), delay("max_delay")})}};
  Store(config.ToText());
  environment.clear();
  Start({"--bind", "health=127.0.0.1:0"});
  ASSERT_TRUE(UntilLogged(R"("fatal")")) << process->OutputTail();
  EXPECT_TRUE(process->Running());
  process->Signal(SIGTERM);
  EXPECT_EQ(ExitCode(), 1) << "it ends for its error, only sooner";
}

// --- The election listener -----------------------------------------------------------------------

TEST_F(ServerProgramTest, TheElectionListenerTellsWhoLeads) {
  Store(config.ToText());
  const std::string file = (folder.path() / "addresses.json").string();
  Start(
      {"--bind", "health=127.0.0.1:0", "--advertise-host", "localhost", "--addresses-file", file});
  ASSERT_TRUE(RunUntil(loop, [&] { return std::filesystem::exists(file); }, kSoon));
  std::ifstream stream(file);
  const Result<json::Value> addresses = json::Parse(
      std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()));
  ASSERT_TRUE(addresses.has_value());
  ASSERT_NE(addresses->Find("election"), nullptr);
  const std::string bound = *addresses->Find("election")->if_string();
  const std::string told = "localhost" + bound.substr(bound.rfind(':'));
  const auto get = [&](const std::string& path, const std::string& tls) {
    auto got = RunProcess({.argv = {"curl", "--silent", "--show-error", "--fail", "--cacert",
                                    bucket() + "/ca.crt", tls, "https://" + told + path}});
    EXPECT_TRUE(got) << got.error().ToString();
    return got.value_or(ProcessOutput{});
  };
  // On a busy machine a lease may run out for a moment; nothing is told of it then.
  const auto lease = [&](const std::string& path, const std::string& tls) {
    DecodedLease found;
    EXPECT_TRUE(RunUntil(
        loop,
        [&] {
          found = DecodeLease(get(path, tls).out);
          return found.form == LeaseForm::kValid;
        },
        kSoon))
        << found.flaw;
    return found;
  };
  const DecodedLease shard = lease("/health/leadership/shard", "--tlsv1.3");
  EXPECT_EQ(shard.record.leader_id, "s1");
  EXPECT_EQ(shard.record.leader_addr, told);
  EXPECT_FALSE(shard.record.released);
  const DecodedLease cluster = lease("/health/leadership/cluster", "--tlsv1.2");
  EXPECT_EQ(cluster.record.leader_id, config.shard + "-s1");
  const ProcessOutput other = get("/health/leadership/none", "--tlsv1.3");
  EXPECT_EQ(other.exit_code, 22);
  EXPECT_THAT(other.err, HasSubstr("404"));
  EXPECT_NE(HttpGet(bound, "/health/leadership/shard").status, 200) << "nothing in the clear";
}

}  // namespace
}  // namespace nstance::test
