// A cluster from one command: nstance-admin makes it, a server starts with the printed command, an
// operator registered by nstance-admin is let in, and the instances that were asked for come up.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc_codec/method_table.h"
#include "base/json.h"
#include "core/rpc_policy.h"
#include "crypto/certificate.h"
#include "crypto/ed25519.h"
#include "ports/rpc_unary.h"
#include "test/e2e/instance_guard.h"
#include "test/e2e/tcp_socket.h"
#include "test/support/background_process.h"
#include "test/support/loop_runner.h"
#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr Duration kSoon = Duration::Seconds(120);

unsigned ModeOf(const std::string& path) {
  struct stat about{};
  return ::stat(path.c_str(), &about) == 0 ? about.st_mode & 07777U : 0;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The identity of a folder, as the commands that talk to servers use it.
class Identity final {
 public:
  Identity(RealLoop& loop, const std::string& folder)
      : loop_(loop),
        methods_(*rpc_codec::MakeMethodTable(RpcPolicy())),
        dialer_({.loop = loop, .methods = methods_}) {
    std::vector<crypto::Certificate> chain;
    chain.push_back(*crypto::Certificate::FromPem(ReadFile(folder + "/identity.crt")));
    tls_ = std::make_shared<RpcTlsMaterial>(
        RpcTlsMaterial{.chain = std::move(chain),
                       .key = std::make_shared<const crypto::PrivateKey>(
                           *crypto::PrivateKey::FromPem(ReadFile(folder + "/identity.key"))),
                       .roots = *crypto::TrustBundleFromPem(ReadFile(folder + "/ca.crt"))});
  }

  // The groups as whoever leads at that address tells them.
  Result<api::ListGroupsResponse> Groups(const std::string& address) {
    std::unique_ptr<RpcChannel> channel =
        dialer_.Dial({.address = {.host = "127.0.0.1", .port = PortOf(address)},
                      .tls = tls_,
                      .connect_limit = Duration::Seconds(5)},
                     {});
    channel->Connect();
    (void)RunUntil(loop_, [&] {
      return channel->state() == RpcChannelState::kReady ||
             channel->state() == RpcChannelState::kGone;
    });
    if (channel->state() != RpcChannelState::kReady) return Fail(Unavailable("no connection"));
    std::optional<Result<api::ListGroupsResponse>> answer;
    const Pending call =
        CallUnary(*channel, api::kListGroups, {.message = {}, .timeout = Duration::Seconds(5)},
                  [&](Result<api::ListGroupsResponse> got) { answer = std::move(got); });
    (void)RunUntil(loop_, [&] { return answer.has_value(); });
    return answer.value_or(Fail(Unavailable("no answer")));
  }

 private:
  RealLoop& loop_;
  std::vector<RpcMethod> methods_;
  grpc::SocketRpcDialer dialer_;
  std::shared_ptr<RpcTlsMaterial> tls_;
};

class AdminClusterTest : public testing::Test {
 public:
  AdminClusterTest() : bucket((dir.path() / "bucket").string()) {}

  ProcessOutput Admin(std::vector<std::string> words) const {
    words.insert(words.begin(), NSTANCE_ADMIN_PROGRAM);
    words.insert(words.end(), {"--storage-provider", "file", "--storage-bucket", bucket});
    auto result = RunProcess({.argv = std::move(words), .directory = dir.path().string()});
    EXPECT_TRUE(result) << result.error().ToString();
    return result.value_or(ProcessOutput{});
  }
  static std::string Shown(const ProcessOutput& output) { return output.out + output.err; }

  // The words of the command that starts the server `number`.
  static std::vector<std::string> ServerWords(const json::Value& told, std::size_t number) {
    std::vector<std::string> words;
    const json::Array& commands = *told.Find("server_commands")->if_array();
    const json::Array& command = *commands.at(number).if_array();
    words.reserve(command.size());
    for (const json::Value& word : command) {
      words.push_back(*word.if_string());
    }
    return words;
  }
  std::unique_ptr<BackgroundProcess> Start(const json::Value& told, std::size_t number) const {
    auto started = BackgroundProcess::Start(
        {.argv = ServerWords(told, number), .directory = dir.path().string()},
        (dir.path() / ("server-" + std::to_string(number) + ".log")).string());
    EXPECT_TRUE(started) << started.error().ToString();
    return started ? *std::move(started) : nullptr;
  }

  // As a service manager does. False: it did not end in time.
  bool Stop(std::unique_ptr<BackgroundProcess>& server) {
    server->Signal(SIGTERM);
    const bool ended = RunUntil(loop, [&] { return !server->Running(); }, kSoon);
    server.reset();
    return ended;
  }
  // Until the server `number` has logged it.
  bool Logs(std::size_t number, const std::string& text) {
    const std::string log = (dir.path() / ("server-" + std::to_string(number) + ".log")).string();
    return RunUntil(loop, [&] { return ReadFile(log).contains(text); }, kSoon);
  }

  TempDir dir;
  RealLoop loop;
  std::string bucket;
};

TEST_F(AdminClusterTest, FromOneCommandToRunningInstances) {
  const InstanceGuard guard(loop, bucket + ".instances");
  const ProcessOutput init = Admin({"cluster", "init", "--json", "--group", "web=2"});
  ASSERT_EQ(init.exit_code, 0) << Shown(init);
  const auto told = json::Parse(init.out);
  ASSERT_TRUE(told) << init.out;
  EXPECT_EQ(ModeOf(bucket + ".key"), 0600U);
  EXPECT_EQ(ModeOf(bucket + "/secret"), 0700U);
  EXPECT_EQ(ModeOf(bucket + "/secret/ca.key"), 0600U);

  const ProcessOutput registered = Admin({"cluster", "register-operator"});
  ASSERT_EQ(registered.exit_code, 0) << Shown(registered);
  const std::string folder = (dir.path() / "temp/cli-operator-identity").string();
  EXPECT_EQ(ModeOf(folder), 0700U);
  for (const char* name : {"ca.crt", "identity.key", "identity.crt"}) {
    EXPECT_EQ(ModeOf(folder + "/" + name), 0600U) << name;
  }
  EXPECT_THAT(Shown(registered), Not(HasSubstr("PRIVATE")));

  auto server = Start(*told, 0);
  ASSERT_NE(server, nullptr);
  auto standby = Start(*told, 1);
  ASSERT_NE(standby, nullptr);
  Identity identity(loop, folder);
  const std::string address = *told->Find("operator_addr")->if_string();
  const auto ready = [&] {
    const auto groups = identity.Groups(address);
    return groups && groups->groups.size() == 1 && groups->groups[0].key == "web" &&
           groups->groups[0].ready == 2;
  };
  ASSERT_TRUE(RunUntil(loop, ready, kSoon)) << server->OutputTail() << standby->OutputTail();

  // The leader goes; the standby opens the same addresses, and the instances are there still.
  if (!server->OutputTail().contains("acting as the shard's leader")) std::swap(server, standby);
  server.reset();
  EXPECT_TRUE(RunUntil(loop, ready, kSoon)) << standby->OutputTail();

  // Denied, it is refused.
  const auto leaf = crypto::Certificate::FromPem(ReadFile(folder + "/identity.crt"));
  ASSERT_EQ(Admin({"cert", "deny", "--serial", leaf->facts().serial.decimal()}).exit_code, 0);
  EXPECT_TRUE(RunUntil(
      loop,
      [&] {
        const auto groups = identity.Groups(address);
        return !groups && groups.error().code == Code::kUnauthenticated;
      },
      kSoon));
}

// docs/operations.md, "Backup and restore": a journal older than the records, then none at all, and
// the repair. No instance is lost or replaced on the way.
TEST_F(AdminClusterTest, AfterARestoreTheJournalIsResetAndTheShardGoesOn) {
  const InstanceGuard guard(loop, bucket + ".instances");
  const ProcessOutput init = Admin({"cluster", "init", "--json", "--group", "web=1"});
  ASSERT_EQ(init.exit_code, 0) << Shown(init);
  const auto told = json::Parse(init.out);
  ASSERT_TRUE(told) << init.out;
  ASSERT_EQ(Admin({"cluster", "register-operator"}).exit_code, 0);
  Identity identity(loop, (dir.path() / "temp/cli-operator-identity").string());
  const std::string address = *told->Find("operator_addr")->if_string();
  std::vector<std::string> members;
  const auto ready = [&](int size) {
    const auto whole = [&] {
      const auto groups = identity.Groups(address);
      if (!groups || groups->groups.size() != 1 || groups->groups[0].ready != size) return false;
      members = groups->groups[0].instance_ids;
      return true;
    };
    return RunUntil(loop, whole, kSoon);
  };

  // The backup is of the first leader; the third one writes a record.
  auto server = Start(*told, 0);
  ASSERT_TRUE(ready(1)) << server->OutputTail();
  const std::string journal = bucket + "/journal/local-a.json";
  const std::string backup = ReadFile(journal);
  for (int more = 0; more < 2; ++more) {
    ASSERT_TRUE(Stop(server));
    server = Start(*told, 0);
    ASSERT_TRUE(ready(1)) << server->OutputTail();
  }
  const ProcessOutput scaled =
      Admin({"group", "scale", "web", "2", "--servers", "local-a=" + address});
  ASSERT_EQ(scaled.exit_code, 0) << Shown(scaled);
  ASSERT_TRUE(ready(2)) << server->OutputTail();
  const std::vector<std::string> before = members;
  ASSERT_TRUE(Stop(server));

  std::ofstream(journal, std::ios::binary) << backup;
  server = Start(*told, 0);
  EXPECT_TRUE(Logs(0, "the groups object carries epoch 3")) << server->OutputTail();
  ASSERT_TRUE(Stop(server));

  fs::remove(journal);
  server = Start(*told, 0);
  EXPECT_TRUE(Logs(0, "the journal is missing although instance records carry an epoch"))
      << server->OutputTail();
  EXPECT_FALSE(fs::exists(journal));
  ASSERT_TRUE(Stop(server));

  const ProcessOutput reset = Admin({"store", "reset-journal", "--shard", "local-a", "--yes"});
  ASSERT_EQ(reset.exit_code, 0) << Shown(reset);
  server = Start(*told, 0);
  ASSERT_TRUE(ready(2)) << server->OutputTail();
  EXPECT_EQ(members, before);
}

TEST_F(AdminClusterTest, TheStoreOfAClusterIsLookedAtAndKeptInOrder) {
  ASSERT_EQ(Admin({"cluster", "init"}).exit_code, 0);
  const ProcessOutput probe = Admin({"store", "probe"});
  EXPECT_EQ(probe.exit_code, 0) << Shown(probe);
  EXPECT_THAT(probe.out, HasSubstr("store is safe for nstance\n"));
  const ProcessOutput shown = Admin({"store", "show", "config/local-a.jsonc"});
  EXPECT_EQ(shown.exit_code, 0) << Shown(shown);
  EXPECT_EQ(shown.out, ReadFile(bucket + "/config/local-a.jsonc"));
  EXPECT_EQ(Admin({"store", "show", "nothing"}).exit_code, 3);
  const ProcessOutput token = Admin({"cluster", "nonce", "--output", "-"});
  EXPECT_EQ(token.exit_code, 0) << Shown(token);
  EXPECT_THAT(token.err, IsEmpty());
  ASSERT_EQ(Admin({"cluster", "nonce"}).exit_code, 0);
  EXPECT_EQ(ModeOf((dir.path() / "temp/cli-operator-identity/nonce.jwt").string()), 0600U);
  const ProcessOutput reseal = Admin({"secrets", "reseal"});
  EXPECT_EQ(reseal.exit_code, 0) << Shown(reseal);
  EXPECT_THAT(reseal.out, HasSubstr("secret/ca.key"));
}

TEST_F(AdminClusterTest, AFolderThatIsNotThereIsToldAsSuch) {
  const ProcessOutput missing = Admin({"cert", "denied"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, AllOf(StartsWith("Error: "), HasSubstr(bucket),
                                 HasSubstr("No such file"), HasSubstr("--storage-bucket")));
  EXPECT_FALSE(fs::exists(bucket)) << "only init makes it";
  const ProcessOutput as_json = Admin({"cert", "denied", "--json"});
  EXPECT_THAT(as_json.out, IsEmpty());
  const auto error = json::Parse(as_json.err);
  ASSERT_TRUE(error) << as_json.err;
  EXPECT_EQ(*error->Find("code")->if_string(), "UNAVAILABLE");
}

TEST_F(AdminClusterTest, AFolderThatIsNoneIsToldAsSuch) {
  static_cast<void>(dir.Write("bucket", "a file"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"cert", "denied"}, {"cluster", "init"}}) {
    const ProcessOutput output = Admin(words);
    EXPECT_EQ(output.exit_code, 1) << Shown(output);
    EXPECT_THAT(output.err, AllOf(StartsWith("Error: "), HasSubstr(bucket)));
  }
}

}  // namespace
}  // namespace nstance::test
