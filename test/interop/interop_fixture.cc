#include "test/interop/interop_fixture.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "test/interop/client_cases.h"
#include "test/support/run_beside.h"
#include "test/support/store_peers.h"

namespace nstance::interop {
namespace {

// The registration port is the only one that asks for no certificate, and other people's test
// programs show none: here it takes messages as large as theirs.
grpc::RulesOfListeners RoomyRules() {
  grpc::RulesOfListeners rules;
  rules.registration.session = grpc::kOperatorLimits;
  return rules;
}

constexpr Duration kReadyWithin = Duration::Seconds(30);

Result<test::ProcessRequest> PythonCommand() {
  // Debian's interpreter: the packages of others do not know what Debian's gRPC links.
  const std::string python = "/usr/bin/python3";
  const test::ProcessRequest probe = {.argv = {python, "-c", "import grpc, google.protobuf"}};
  const Result<test::ProcessOutput> has = test::RunProcess(probe);
  if (!has || has->exit_code != 0) {
    return Fail(NotFound("python3-grpcio and python3-protobuf are not installed"));
  }
  return test::ProcessRequest{
      .argv = {python, std::string(NSTANCE_SOURCE_DIR) + "/test/interop/grpc_peer.py"},
      .environment = {"PYTHONPATH=" NSTANCE_INTEROP_PYTHON, "PYTHONDONTWRITEBYTECODE=1"}};
}

Result<test::ProcessRequest> CppCommand() {
  const std::string program = NSTANCE_GRPCPP_PEER;
  if (program.empty() || !std::filesystem::exists(program)) {
    return Fail(NotFound("libgrpc++-dev and protobuf-compiler-grpc are not installed"));
  }
  return test::ProcessRequest{.argv = {program}};
}

}  // namespace

Files WriteFiles(const test::TempDir& folder, const RpcTls& material) {
  static int number = 0;
  const std::string name = std::to_string(++number);
  std::string chain;
  for (const crypto::Certificate& certificate : material->chain) chain += certificate.ToPem();
  return {.certificate = folder.Write(name + ".crt", chain),
          .key = folder.Write(name + ".key", AsText(material->key->ToPem().Reveal()))};
}

std::string NameOf(Maker maker) {
  switch (maker) {
    case Maker::kGo: return "go";
    case Maker::kCpp: return "cpp";
    case Maker::kPython: return "python";
  }
  return "";
}

std::vector<PeerCase> PeerCases() {
  std::vector<PeerCase> all;
  for (const Maker maker : {Maker::kGo, Maker::kCpp, Maker::kPython}) {
    for (const ClientCase& one : ClientCases()) {
      all.push_back({.maker = maker, .name = std::string(one.name)});
    }
  }
  return all;
}

Result<test::ProcessRequest> CommandOf(Maker maker, Side side) {
  const std::string word = side == Side::kClient ? "client" : "server";
  if (maker == Maker::kGo) {
    ASSIGN_OR_RETURN(const std::string program, test::FindPeer("grpc-interop-" + word));
    return test::ProcessRequest{.argv = {program},
                                .environment = {"GRPC_GO_LOG_SEVERITY_LEVEL=info"}};
  }
  ASSIGN_OR_RETURN(test::ProcessRequest command,
                   maker == Maker::kCpp ? CppCommand() : PythonCommand());
  command.argv.push_back(word);
  return command;
}

Result<PeerServer*> PeerServer::Shared(Maker maker, AsksFor asks) {
  static std::map<std::pair<Maker, AsksFor>, std::unique_ptr<PeerServer>> servers;
  std::unique_ptr<PeerServer>& server = servers[{maker, asks}];
  if (server == nullptr) {
    ASSIGN_OR_RETURN(server, Start(maker, asks));
  }
  return server.get();
}

Result<std::unique_ptr<PeerServer>> PeerServer::TryStart(Maker maker, AsksFor asks) {
  ASSIGN_OR_RETURN(test::ProcessRequest command, CommandOf(maker, Side::kServer));
  auto server = std::unique_ptr<PeerServer>(new PeerServer());
  const Files files = WriteFiles(server->folder_, grpc::test::ServerMaterial());
  const std::string ca = server->folder_.Write("ca.crt", grpc::test::Root().ToPem());
  server->address_ = {.host = "127.0.0.1", .port = 0};
  std::vector<std::string> more = {"--ca", ca, "--cert", files.certificate, "--key", files.key};
  if (maker == Maker::kGo) {
    server->address_.port = static_cast<std::uint16_t>(test::FreePort());
    more = {"--use_tls", "--tls_cert_file=" + files.certificate, "--tls_key_file=" + files.key,
            "--port=" + std::to_string(server->address_.port)};
  } else if (asks == AsksFor::kClientCertificate) {
    more.emplace_back("--mutual");
  }
  command.argv.insert(command.argv.end(), more.begin(), more.end());
  ASSIGN_OR_RETURN(server->process_,
                   test::BackgroundProcess::Start(command, server->folder_.path() / "output"));
  RETURN_IF_ERROR(server->WaitForPort());
  return server;
}

// grpc-go's server must be told a port, and another process may take it first.
Result<std::unique_ptr<PeerServer>> PeerServer::Start(Maker maker, AsksFor asks) {
  constexpr int kTries = 10;
  for (int i = 1;; ++i) {
    Result<std::unique_ptr<PeerServer>> server = TryStart(maker, asks);
    if (server.has_value() || i == kTries ||
        !server.error().message.contains("address already in use")) {
      return server;
    }
  }
}

// The others say "port N" when they listen; grpc-go's server says "listening".
Status PeerServer::WaitForPort() {
  RealLoop loop;
  const std::string mark = address_.port == 0 ? "port " : "listening";
  std::string said;
  const bool ready = test::RunUntil(
      loop,
      [&] {
        said = process_->OutputTail();
        return !process_->Running() || (said.contains(mark) && said.ends_with('\n'));
      },
      kReadyWithin);
  if (!ready || !process_->Running()) return Fail(Unavailable("no server: " + said));
  if (address_.port != 0) return {};
  const char* number = said.data() + said.find(mark) + mark.size();
  const auto parsed = std::from_chars(number, said.data() + said.size(), address_.port);
  if (parsed.ec != std::errc()) return Fail(Unavailable("no port: " + said));
  return {};
}

// The registration listener asks for no certificate, as the test programs show none. Its messages
// may be as large as the cases want.
InteropFixture::InteropFixture()
    : ca_file_(folder_.Write("ca.crt", grpc::test::Root().ToPem())),
      server_(std::make_unique<grpc::SocketRpcServer>(
          grpc::RpcServerSetup{.loop = loop_,
                               .methods = Methods(),
                               .policy = Policy(),
                               .logger = log::Logger(sink_, "rpc"),
                               .limits = {.loopback = grpc::AdmissionLimits::Loopback::kExempt},
                               .rules = RoomyRules()})) {
  const Status set = server_->SetTls(grpc::test::ServerMaterial());
  EXPECT_TRUE(set.has_value());
}

InteropFixture::~InteropFixture() = default;

RpcAddress InteropFixture::Open(RpcPort port) {
  std::optional<Result<RpcAddress>> opened;
  const Pending pending = server_->Open(
      {.port = port,
       .bind = {.host = "127.0.0.1", .port = 0},
       .accept = [this](std::unique_ptr<RpcServerCall> call) { service_.Accept(std::move(call)); }},
      [&](Result<RpcAddress> address) { opened = std::move(address); });
  EXPECT_TRUE(Until([&] { return opened.has_value(); }));
  EXPECT_TRUE(opened->has_value()) << opened->error().ToString();
  return opened->value_or(RpcAddress{});
}

test::ProcessOutput InteropFixture::Run(test::ProcessRequest request) {
  const Result<test::ProcessOutput> ran = test::RunBeside(loop_, std::move(request));
  EXPECT_TRUE(ran.has_value()) << ran.error().ToString();
  return ran.value_or(test::ProcessOutput{.exit_code = -1, .out = {}, .err = {}});
}

grpc::test::TestClient& InteropFixture::Connect(const RpcAddress& address, Who who) {
  clients_.push_back(std::make_unique<grpc::test::TestClient>());
  grpc::test::TestClient* client = clients_.back().get();
  client->channel = dialer_.Dial({.address = address, .tls = grpc::test::ClientMaterial(who)},
                                 {.state = [client](RpcChannelState state, const Status& why) {
                                   client->states.push_back(state);
                                   client->gone = why;
                                 }});
  client->channel->Connect();
  EXPECT_TRUE(Until([&] { return client->ready() || client->is_gone(); }));
  return *client;
}

bool InteropFixture::Until(const std::function<bool()>& condition) {
  return test::RunUntil(loop_, condition);
}

}  // namespace nstance::interop
