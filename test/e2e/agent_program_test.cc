// The nstance-agent program as an instance runs it: real files, real sockets, a server of the real
// transport in this process whose handlers are scripted.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_server.h"
#include "adapters/rpc_codec/method_table.h"
#include "core/rpc_policy.h"
#include "test/agent/scripted_server.h"
#include "test/support/background_process.h"
#include "test/support/loop_runner.h"
#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::agent::test {
namespace {

using nstance::test::BackgroundProcess;
using nstance::test::ProcessOutput;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// NSTANCE_AGENT_UNDER_TEST=build/bin/nstance-agent tries another build of the program.
std::string Program() {
  const char* other = std::getenv("NSTANCE_AGENT_UNDER_TEST");  // NOLINT(concurrency-mt-unsafe)
  return other == nullptr ? NSTANCE_AGENT_PROGRAM : other;
}

std::string Slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// One plain request on a blocking socket; empty when nobody listens.
std::string Get(int port, const std::string& path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    (void)::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    char buffer[1024];
    for (;;) {
      const ssize_t count = ::recv(socket, buffer, sizeof(buffer), 0);
      if (count <= 0) break;
      answer.append(buffer, static_cast<std::size_t>(count));
    }
  }
  ::close(socket);
  return answer;
}

class QuietSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return false; }
  void Write(const log::Record& /*record*/) override {}
};

class AgentProgramTest : public testing::Test {
 public:
  AgentProgramTest() {
    for (const char* name : {"identity", "keys", "recv"}) {
      std::filesystem::create_directory(folder.path() / name);
    }
    Put("ca.crt", cluster.RootPem());
    Put("nonce.jwt", cluster.Nonce() + "\n");
  }
  ~AgentProgramTest() override {
    agent.reset();
    StopServer();
  }

  [[nodiscard]] std::filesystem::path Identity(const std::string& name) const {
    return folder.path() / "identity" / name;
  }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(Identity(name), std::ios::binary) << text;
  }
  [[nodiscard]] bool Until(const std::function<bool()>& done) {
    return nstance::test::RunUntil(loop, done, Duration::Seconds(60));
  }
  [[nodiscard]] bool Moved() const {
    return server != nullptr && server->AllOpen() &&
           server->SerialsOfStreams() == std::set<std::string>{record.serial};
  }

  void StartServer(RpcTls tls) {
    rpc = std::make_unique<grpc::SocketRpcServer>(
        grpc::RpcServerSetup{.loop = loop,
                             .methods = methods,
                             .policy = RpcPolicy(),
                             .logger = log::Logger(sink, "rpc"),
                             .limits = {.loopback = grpc::AdmissionLimits::Loopback::kExempt}});
    server = std::make_unique<ScriptedServer>(cluster, record, [this] { return loop.WallNow(); });
    server->script = script;
    ASSERT_TRUE(rpc->SetTls(std::move(tls)));
    registration_port = Open(RpcPort::kRegistration, registration_port);
    agent_port = Open(RpcPort::kAgent, agent_port);
  }
  void StartServer() { StartServer(cluster.ServerTls("localhost", now)); }
  std::uint16_t Open(RpcPort port, std::uint16_t number) {
    std::optional<Result<RpcAddress>> opened;
    const Pending pending = rpc->Open(
        {.port = port, .bind = {.host = "127.0.0.1", .port = number}, .accept = server->Acceptor()},
        [&](Result<RpcAddress> at) { opened = std::move(at); });
    EXPECT_TRUE(Until([&] { return opened.has_value(); }));
    EXPECT_TRUE(*opened) << opened->error().ToString();
    return *opened ? (*opened)->port : 0;
  }
  void StopServer() {
    server.reset();
    rpc.reset();
  }

  [[nodiscard]] std::vector<std::string> Environment() const {
    return {fmt::format("NSTANCE_SERVER_REGISTRATION_ADDR=localhost:{}", registration_port),
            fmt::format("NSTANCE_SERVER_AGENT_ADDR=127.0.0.1:{}", agent_port),
            "NSTANCE_IDENTITY_DIR=" + (folder.path() / "identity").string(),
            "NSTANCE_KEYS_DIR=" + (folder.path() / "keys").string(),
            "NSTANCE_RECV_DIR=" + (folder.path() / "recv").string(),
            fmt::format("NSTANCE_HEALTH_ADDR=127.0.0.1:{}", health_port),
            "NSTANCE_REPORT_INTERVAL=1s"};
  }
  void StartAgent() {
    auto started = BackgroundProcess::Start({.argv = {Program()}, .environment = Environment()},
                                            (folder.path() / "log").string());
    ASSERT_TRUE(started) << started.error().ToString();
    agent = *std::move(started);
  }
  [[nodiscard]] ProcessOutput RunToItsEnd(std::vector<std::string> words,
                                          std::vector<std::string> more = {}) const {
    words.insert(words.begin(), Program());
    std::vector<std::string> environment = std::move(more);
    for (std::string& entry : Environment()) environment.push_back(std::move(entry));
    auto output = nstance::test::RunProcess({.argv = words, .environment = environment});
    EXPECT_TRUE(output) << output.error().ToString();
    return output.value_or(ProcessOutput{});
  }
  [[nodiscard]] std::string Log() const { return Slurp(folder.path() / "log"); }
  [[nodiscard]] std::size_t EntriesOf(const std::string& what) const {
    const std::filesystem::path at = fmt::format("/proc/{}/{}", agent->pid(), what);
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(at), {}));
  }

  nstance::test::TempDir folder;
  RealLoop loop;
  Timestamp now = loop.WallNow();
  Cluster cluster{now};
  Record record;
  Script script;
  QuietSink sink;
  std::vector<RpcMethod> methods = rpc_codec::MakeMethodTable(RpcPolicy()).value();
  std::uint16_t registration_port = 0;
  std::uint16_t agent_port = 0;
  int health_port = nstance::test::FreePort();
  std::unique_ptr<grpc::SocketRpcServer> rpc;
  std::unique_ptr<ScriptedServer> server;
  std::unique_ptr<BackgroundProcess> agent;
};

TEST_F(AgentProgramTest, JoinsReportsRenewsReconnectsAndStops) {
  script.certificate_life = Duration::Seconds(60);  // Backdated by 5 min: due at once.
  StartServer();
  StartAgent();
  ASSERT_TRUE(Until([&] { return record.generation >= 1; })) << Log();
  server->script.certificate_life = Duration::Hours(24);

  // Joined, three streams, reports, ready.
  ASSERT_TRUE(Until([&] { return server->AllOpen() && server->reports.size() >= 2; })) << Log();
  EXPECT_EQ(server->reports.front().instance_id, crypto::test::kInstance);
  EXPECT_FALSE(server->reports.front().uptime.empty());
  EXPECT_THAT(Get(health_port, "/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(Get(health_port, "/readyz"), HasSubstr("200 OK"));
  EXPECT_FALSE(std::filesystem::exists(Identity("nonce.jwt")));
  EXPECT_EQ(std::filesystem::status(Identity("identity.key")).permissions(),
            std::filesystem::perms(0600));

  // Renewed with a new key, streams moved.
  ASSERT_TRUE(Until([&] { return record.generation == 2 && Moved(); })) << Log();
  EXPECT_EQ(Slurp(Identity("identity.crt")), record.certificate_pem);
  EXPECT_EQ(Slurp(Identity("identity.pub")), record.key_pem);
  EXPECT_FALSE(record.identity_clone);

  // One thread, few descriptors.
  EXPECT_EQ(EntriesOf("task"), 1U);
  EXPECT_LE(EntriesOf("fd"), 64U);

  // Another server at the same address.
  StopServer();
  ASSERT_TRUE(Until([&] { return Get(health_port, "/readyz").contains(" 503 "); })) << Log();
  StartServer();
  ASSERT_TRUE(Until([&] { return Moved() && !server->reports.empty(); })) << Log();
  EXPECT_EQ(server->calls.contains(api::kRegisterAgent.path), false);

  // The end.
  agent->Signal(SIGTERM);
  ASSERT_TRUE(Until([&] { return !agent->Running(); })) << Log();
  EXPECT_EQ(server->half_closes, 1);
  EXPECT_THAT(Log(), HasSubstr("\"exit_code\":0"));
}

TEST_F(AgentProgramTest, AKilledAgentComesBackWithItsIdentity) {
  StartServer();
  for (int round = 0; round < 5; ++round) {
    StartAgent();
    ASSERT_TRUE(Until([&] { return server->AllOpen(); })) << Log();
    agent->Signal(SIGKILL);
    ASSERT_TRUE(Until([&] { return !agent->Running() && !server->AllOpen(); }));
  }
  EXPECT_EQ(server->calls[std::string(api::kRegisterAgent.path)], 1);
  EXPECT_EQ(record.generation, 1);
  EXPECT_FALSE(record.nonce_reuse);
}

TEST_F(AgentProgramTest, BI111_AStrangersServerIsNotJoined) {
  Cluster stranger(now, 9);
  StartServer(stranger.ServerTls("localhost", now));
  StartAgent();
  ASSERT_TRUE(Until([&] { return Log().contains("registration failed"); })) << Log();
  EXPECT_TRUE(server->calls.empty());
  EXPECT_TRUE(agent->Running());
  StopServer();
  StartServer();
  EXPECT_TRUE(Until([&] { return server->AllOpen(); })) << Log();
}

TEST_F(AgentProgramTest, ExitCodesTellWhatIsWrong) {
  registration_port = agent_port = 1;
  const auto help = RunToItsEnd({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("usage: nstance-agent"));
  EXPECT_THAT(RunToItsEnd({"--version"}).out,
              AllOf(StartsWith("nstance-agent "), HasSubstr("\nnghttp2 "), HasSubstr("\nOpenSSL "),
                    HasSubstr("\nprotobuf ")));
  EXPECT_EQ(RunToItsEnd({"--frobnicate"}).exit_code, 2);
  const auto bad = RunToItsEnd({}, {"NSTANCE_KEYS_DIR=/nowhere", "NSTANCE_RECV_DIR=/nowhere"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("Error: NSTANCE_KEYS_DIR: /nowhere: No such file"),
                             HasSubstr("Error: NSTANCE_RECV_DIR: ")));
  std::filesystem::remove(Identity("nonce.jwt"));
  const auto cannot = RunToItsEnd({});
  EXPECT_EQ(cannot.exit_code, 3);
  EXPECT_THAT(cannot.out, AllOf(HasSubstr("cannot register"), HasSubstr("nonce.jwt is missing")));
  std::filesystem::remove(Identity("ca.crt"));
  const auto unusable = RunToItsEnd({});
  EXPECT_EQ(unusable.exit_code, 1);
  EXPECT_THAT(unusable.out, HasSubstr("ca.crt is missing"));
}

}  // namespace
}  // namespace nstance::agent::test
