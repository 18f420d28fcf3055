// Programs on grpc-go and Go's own encoders against ours, as processes: Go agents and a Go operator
// at our servers, our agent at the Go baseline, and what each side stores read by the other.
// Records in the bucket, and what the Go programs tell, are the judges.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "core/instance_record.h"
#include "crypto/certificate.h"
#include "crypto/registration_token.h"
#include "test/e2e/e2e_cluster.h"
#include "test/e2e/operator_token.h"
#include "test/e2e/tcp_socket.h"
#include "test/support/baseline_server.h"
#include "test/support/json_lines.h"
#include "test/support/loop_runner.h"
#include "test/support/peers.h"
#include "test/support/process.h"

namespace nstance::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr Duration kSoon = Duration::Seconds(120);

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The member at the end of a path of keys; null when there is none.
const json::Value* At(const json::Value& from, const std::vector<std::string>& path) {
  const json::Value* found = &from;
  for (const std::string& key : path) {
    found = found->Find(key);
    if (found == nullptr) return nullptr;
  }
  return found;
}

std::string TextAt(const json::Value& from, const std::vector<std::string>& path) {
  const json::Value* found = At(from, path);
  return found == nullptr || found->if_string() == nullptr ? std::string() : *found->if_string();
}

// Every line of JSON.
std::vector<json::Value> Lines(const std::string& text) {
  std::vector<json::Value> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (Result<json::Value> parsed = json::Parse(line)) out.push_back(*std::move(parsed));
  }
  return out;
}

// --- Go at our servers ---------------------------------------------------------------------------

class GoAtOurServerTest : public testing::Test {
 public:
  // Not a secret: the key of the fixture's store.
  static constexpr const char* kEncryptionKey = "0123456789abcdef0123456789abcdef";

  void Begin(const std::string& agent, int size, std::size_t servers) {
    cluster = std::make_unique<E2eCluster>(
        E2eCluster::Options{.server_program = NSTANCE_SERVER_PROGRAM,
                            .agent_command = {agent, "--supervise"},
                            .servers = servers,
                            .groups = {{.name = "workers", .size = size}}});
    ASSERT_TRUE(cluster->Start().has_value());
    leader = cluster->WaitForLeader(kSoon);
    ASSERT_TRUE(leader.has_value()) << cluster->Logs();
  }

  bool Until(const std::function<bool()>& done) { return RunUntil(cluster->loop(), done, kSoon); }

  // Instance id to record, of everything that can be read now.
  std::map<std::string, json::Value> Records() const {
    std::map<std::string, json::Value> out;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(
             fs::path(cluster->bucket()) / "instance" / cluster->config().shard, none)) {
      Result<json::Value> record = json::Parse(ReadAll(entry.path()));
      if (!record.has_value()) continue;
      std::string id = TextOf(*record, "instance_id");
      out.insert_or_assign(std::move(id), *std::move(record));
    }
    return out;
  }
  std::set<std::string> Registered() const {
    std::set<std::string> out;
    for (const auto& [id, record] : Records()) {
      if (TextOf(record, "phase") == "registered") out.insert(id);
    }
    return out;
  }
  std::string PhaseOf(const std::string& id) const {
    const auto records = Records();
    const auto found = records.find(id);
    return found == records.end() ? std::string() : TextOf(found->second, "phase");
  }

  fs::path Work(const std::string& id) const {
    return fs::path(cluster->instance_folder(id)) / "work";
  }
  // What the agent of an instance has told.
  JsonLines& Console(const std::string& id) {
    auto found = consoles.find(id);
    if (found == consoles.end()) {
      found = consoles.emplace(id, JsonLines(cluster->instance_folder(id) + "/console.log")).first;
    }
    return found->second;
  }
  bool EachHasTold(const std::set<std::string>& ids, const std::string& event, std::size_t times) {
    return std::ranges::all_of(
        ids, [&](const std::string& id) { return Console(id).Count("event", event) >= times; });
  }
  std::string Tails(const std::set<std::string>& ids) const {
    std::string out = cluster->Logs();
    for (const std::string& id : ids) {
      const std::string text = ReadAll(cluster->instance_folder(id) + "/console.log");
      out += fmt::format("--- {}\n{}\n", id,
                         text.substr(text.size() - std::min<std::size_t>(text.size(), 4096)));
    }
    return out;
  }

  // --- the operator

  fs::path OperatorFolder() const { return fs::path(cluster->bucket()).parent_path() / "operator"; }
  void PrepareOperator() {
    fs::create_directories(OperatorFolder());
    fs::copy_file(fs::path(cluster->bucket()) / "ca.crt", OperatorFolder() / "ca.crt");
    const Result<std::string> token =
        SignOperatorToken({.bucket = cluster->bucket(),
                           .cluster = cluster->config().cluster,
                           .encryption_key = kEncryptionKey,
                           .now = cluster->loop().WallNow().TruncatedToSecond()});
    ASSERT_TRUE(token.has_value()) << token.error().ToString();
    std::ofstream(OperatorFolder() / "token") << *token;
  }
  std::vector<std::string> OperatorCommand(const std::string& program,
                                           const std::vector<std::string>& words) const {
    std::vector<std::string> argv = {program,
                                     "-dir",
                                     OperatorFolder().string(),
                                     "-registration",
                                     cluster->forwarder().Address(LeaderForwarder::kRegistration),
                                     "-operator",
                                     cluster->forwarder().Address(LeaderForwarder::kOperator),
                                     "-token",
                                     (OperatorFolder() / "token").string()};
    argv.insert(argv.end(), words.begin(), words.end());
    return argv;
  }
  // Runs one command to its end; its last line.
  json::Value Operate(const std::string& program, const std::vector<std::string>& words) const {
    const Result<ProcessOutput> output = RunProcess({.argv = OperatorCommand(program, words)});
    EXPECT_TRUE(output.has_value());
    if (!output.has_value()) return {};
    EXPECT_EQ(output->exit_code, 0) << words.front() << ": " << output->out << output->err;
    const std::vector<json::Value> lines = Lines(output->out);
    return lines.empty() ? json::Value() : lines.back();
  }

  std::unique_ptr<E2eCluster> cluster;
  std::optional<std::size_t> leader;
  std::map<std::string, JsonLines> consoles;
};

TEST_F(GoAtOurServerTest, AGoAgentJoinsReportsAndStays) {
  NSTANCE_GO_PROGRAM_OR_SKIP(agent, "test/go_peers", "go-agent");
  Begin(agent, 2, 1);
  ASSERT_TRUE(Until([&] { return Registered().size() == 2; })) << Tails(Registered());
  const std::set<std::string> ids = Registered();
  // Several health intervals: nobody who reports is replaced.
  ASSERT_TRUE(Until([&] { return EachHasTold(ids, "reported", 6); })) << Tails(ids);
  EXPECT_EQ(Registered(), ids);
  for (const std::string& id : ids) {
    JsonLines& told = Console(id);
    EXPECT_EQ(told.Count("event", "registered"), 1U) << Tails({id});
    EXPECT_EQ(told.Count("event", "stream-opened"), 3U) << Tails({id});
    EXPECT_EQ(told.Count("event", "stream-ended"), 0U) << Tails({id});
    EXPECT_FALSE(fs::exists(Work(id) / "identity/nonce.jwt"));
    // It has no proof and no features: its key is the one that the record names.
    EXPECT_EQ(TextOf(Records()[id], "public_key_pem"), ReadAll(Work(id) / "identity/identity.pub"));
  }
}

TEST_F(GoAtOurServerTest, AGoAgentComesBackToTheNextLeaderAndIsNotReplaced) {
  NSTANCE_GO_PROGRAM_OR_SKIP(agent, "test/go_peers", "go-agent");
  Begin(agent, 2, 2);
  ASSERT_TRUE(Until([&] { return Registered().size() == 2; })) << Tails(Registered());
  const std::set<std::string> ids = Registered();
  ASSERT_TRUE(Until([&] { return EachHasTold(ids, "reported", 2); })) << Tails(ids);
  std::map<std::string, std::size_t> before;
  cluster->server(*leader).Kill();
  for (const std::string& id : ids) before[id] = Console(id).Count("event", "reported");
  const auto next = cluster->WaitForLeader(kSoon, cluster->epoch());
  ASSERT_TRUE(next.has_value()) << cluster->Logs();
  EXPECT_NE(*next, *leader);
  ASSERT_TRUE(Until([&] {
    return std::ranges::all_of(ids, [&](const std::string& id) {
      return Console(id).Has("event", "identity") &&
             Console(id).Count("event", "reported") >= before[id] + 4;
    });
  })) << Tails(ids);
  for (const std::string& id : ids) {
    EXPECT_EQ(Console(id).Count("event", "registered"), 1U) << "its certificate still counts";
    EXPECT_TRUE(Console(id).Has("event", "restarting")) << "it ends with its streams";
  }
  EXPECT_EQ(Registered(), ids);
}

TEST_F(GoAtOurServerTest, AGoOperatorListsScalesWatchesAndFollowsTheLeader) {
  NSTANCE_GO_PROGRAM_OR_SKIP(agent, "test/go_peers", "go-agent");
  NSTANCE_GO_PROGRAM_OR_SKIP(program, "test/go_peers", "go-operator");
  Begin(agent, 1, 2);
  PrepareOperator();
  const json::Value joined = Operate(program, {"register"});
  EXPECT_EQ(TextOf(joined, "client_id"), cluster->config().cluster);
  EXPECT_EQ(TextOf(joined, "tenant"), "default");
  EXPECT_THAT(json::Write(Operate(program, {"groups"})), HasSubstr(R"("key":"workers")"));
  const std::string output = (OperatorFolder() / "watch.log").string();
  auto watch =
      BackgroundProcess::Start({.argv = OperatorCommand(program, {"watch", "-ack"})}, output);
  ASSERT_TRUE(watch.has_value()) << watch.error().ToString();
  JsonLines told(output);
  ASSERT_TRUE(Until([&] { return told.Count("event", "stream-opened") == 3; }));
  const auto heard = [&](const std::function<bool(const json::Value&)>& fits) {
    return std::ranges::any_of(told.Read(), [&](const json::Value& line) {
      return TextOf(line, "event") == "event" && fits(line);
    });
  };

  // Up: a group of its own.
  EXPECT_EQ(
      TextOf(Operate(program, {"upsert", "web", "-size", "2", "-template", "worker"}), "event"),
      "upserted");
  ASSERT_TRUE(Until([&] { return Registered().size() == 3; })) << Tails(Registered());
  ASSERT_TRUE(Until([&] {
    return heard([](const json::Value& line) {
      const json::Value* actual = At(line, {"message", "group", "actual_size"});
      return TextAt(line, {"message", "group", "key"}) == "web" && actual != nullptr &&
             actual->if_integer() != nullptr && *actual->if_integer() == 2;
    });
  })) << (*watch)->OutputTail();

  // Down: one drains, is acknowledged, and goes.
  Operate(program, {"upsert", "web", "-size", "1"});
  ASSERT_TRUE(Until([&] { return told.Has("event", "acknowledged"); })) << (*watch)->OutputTail();
  const std::string gone = TextOf(*told.Last("event", "acknowledged"), "subject");
  ASSERT_TRUE(Until([&] { return PhaseOf(gone) == "gone"; })) << cluster->Logs();
  ASSERT_TRUE(Until([&] {
    return heard([&](const json::Value& line) {
      return TextAt(line, {"message", "instance_id"}) == gone &&
             TextAt(line, {"message", "status"}) == "deleted";
    });
  })) << (*watch)->OutputTail();
  EXPECT_EQ(Registered().size(), 2U);

  // A new certificate for the same key, and another leader.
  EXPECT_NE(TextOf(Operate(program, {"renew"}), "serial"), TextOf(joined, "serial"));
  cluster->server(*leader).Kill();
  ASSERT_TRUE(cluster->WaitForLeader(kSoon, cluster->epoch()).has_value()) << cluster->Logs();
  ASSERT_TRUE(Until([&] { return told.Count("event", "stream-opened") >= 6; }))
      << (*watch)->OutputTail();
  EXPECT_THAT(json::Write(Operate(program, {"groups"})), HasSubstr(R"("key":"web")"));
}

TEST_F(GoAtOurServerTest, AGoOperatorOrdersAnInstanceAndHasItRemoved) {
  NSTANCE_GO_PROGRAM_OR_SKIP(agent, "test/go_peers", "go-agent");
  NSTANCE_GO_PROGRAM_OR_SKIP(program, "test/go_peers", "go-operator");
  Begin(agent, 1, 1);
  PrepareOperator();
  Operate(program, {"register"});
  const std::string id = TextAt(Operate(program, {"create", "workers"}), {"answer", "instance_id"});
  ASSERT_TRUE(Until([&] { return Registered().contains(id); })) << cluster->Logs();
  EXPECT_EQ(TextAt(Operate(program, {"status", id}), {"answer", "status"}), "running");
  EXPECT_EQ(TextAt(Operate(program, {"delete", id}), {"answer", "status"}), "deleting");
  ASSERT_TRUE(Until([&] { return PhaseOf(id) == "gone"; })) << cluster->Logs();
  EXPECT_EQ(TextAt(Operate(program, {"delete", id}), {"answer", "status"}), "deleted");
}

TEST_F(GoAtOurServerTest, GoReadsEverythingThatWeStore) {
  NSTANCE_GO_PROGRAM_OR_SKIP(agent, "test/go_peers", "go-agent");
  NSTANCE_GO_PROGRAM_OR_SKIP(program, "test/go_peers", "go-operator");
  NSTANCE_GO_PROGRAM_OR_SKIP(reader, "test/go_peers", "go-records");
  Begin(agent, 1, 1);
  PrepareOperator();
  const std::string serial = TextOf(Operate(program, {"register"}), "serial");
  Operate(program, {"upsert", "web", "-size", "0", "-template", "worker", "-var", "A=<x> & y"});
  ASSERT_TRUE(Until([&] { return Registered().size() == 1; })) << cluster->Logs();
  const std::string id = *Registered().begin();
  ASSERT_TRUE(Until([&] { return Console(id).Has("event", "reported"); })) << Tails({id});
  cluster->server(0).Kill();
  const Result<ProcessOutput> output =
      RunProcess({.argv = {reader, "read", cluster->bucket(), cluster->config().shard}});
  ASSERT_TRUE(output.has_value());
  EXPECT_EQ(output->exit_code, 0) << output->out;
  std::map<std::string, int> kinds;
  std::set<std::string> logged;
  for (const json::Value& line : Lines(output->out)) {
    ++kinds[TextOf(line, "kind")];
    if (TextOf(line, "kind") == "instance") {
      EXPECT_EQ(TextAt(line, {"value", "instance_id"}), id);
      logged.insert(TextAt(line, {"value", "cert_serial"}));
    }
    if (TextOf(line, "kind") == "operator") {
      EXPECT_EQ(TextAt(line, {"value", "cert_serial"}), serial);
    }
  }
  for (const char* kind : {"instance", "operator", "certlog", "lease", "groups"}) {
    EXPECT_GE(kinds[kind], 1) << kind << " in " << output->out;
  }
  // Both serials are in the log, as the certificates have them.
  const auto certificate =
      crypto::Certificate::FromPem(ReadAll(Work(id) / "identity/identity.crt"));
  ASSERT_TRUE(certificate.has_value());
  EXPECT_EQ(logged, std::set<std::string>{certificate->facts().serial.decimal()});
  EXPECT_THAT(output->out, HasSubstr(fmt::format(R"("serial_number":"{}")", serial)));
}

// --- Ours at a server on grpc-go -----------------------------------------------------------------

class OursAtGoServerTest : public testing::Test {
 public:
  void Begin() {
    NSTANCE_GO_PROGRAM_OR_SKIP(program, "bench/baseline_go", "baseline-server");
    fs::create_directories(dir.path() / "server");
    auto started = BaselineServer::Start(loop, program, (dir.path() / "server").string(),
                                         {"-instances", "1", "-keys", "node"});
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    server.emplace(*std::move(started));
    JsonLines lines(server->File("tokens.jsonl"));
    token = lines.Read().at(0);
  }
  fs::path Home() const { return dir.path() / "agent"; }
  std::string Log() const { return ReadAll(dir.path() / "agent.log"); }
  void StartAgent() {
    for (const char* name : {"identity", "keys", "recv"}) fs::create_directories(Home() / name);
    fs::copy_file(server->File("ca.crt"), Home() / "identity/ca.crt");
    std::ofstream(Home() / "identity/nonce.jwt") << TextOf(token, "token");
    auto started = BackgroundProcess::Start(
        {.argv = {NSTANCE_AGENT_PROGRAM},
         .environment = {"NSTANCE_SERVER_REGISTRATION_ADDR=" + server->Address("registration"),
                         "NSTANCE_SERVER_AGENT_ADDR=" + server->Address("agent"),
                         "NSTANCE_INSTANCE_ID=" + TextOf(token, "instance_id"),
                         "NSTANCE_IDENTITY_DIR=" + (Home() / "identity").string(),
                         "NSTANCE_KEYS_DIR=" + (Home() / "keys").string(),
                         "NSTANCE_RECV_DIR=" + (Home() / "recv").string(),
                         "NSTANCE_INSTANCE_IPV4=127.0.0.1", "NSTANCE_PROVIDER=none",
                         "NSTANCE_REPORT_INTERVAL=1s"}},
        (dir.path() / "agent.log").string());
    ASSERT_TRUE(started.has_value()) << started.error().ToString();
    agent = *std::move(started);
  }
  // The sum of a counter of the server's page.
  double Metric(const std::string& name) const {
    const std::string page = HttpGet(server->Address("health"), "/metrics").body;
    const std::size_t at = page.find("\n" + name);
    const std::size_t number = at == std::string::npos ? at : page.find(' ', at);
    return number == std::string::npos ? 0 : std::stod(page.substr(number));
  }

  TempDir dir;
  RealLoop loop;
  std::optional<BaselineServer> server;
  json::Value token;
  std::unique_ptr<BackgroundProcess> agent;
};

TEST_F(OursAtGoServerTest, OurAgentJoinsReportsAndStops) {
  Begin();
  if (!server.has_value()) return;
  StartAgent();
  const std::string reports = "nstance_health_reports_total";
  ASSERT_TRUE(RunUntil(loop, [&] { return Metric(reports) >= 3; }, kSoon)) << Log();
  EXPECT_TRUE(agent->Running()) << Log();
  EXPECT_FALSE(fs::exists(Home() / "identity/nonce.jwt"));
  EXPECT_THAT(ReadAll(Home() / "identity/identity.crt"), HasSubstr("BEGIN CERTIFICATE"));
  // The hash that the token named.
  EXPECT_THAT(ReadAll(Home() / "identity/config.hash"), HasSubstr("sha256:"));
  agent->Signal(SIGTERM);
  ASSERT_TRUE(RunUntil(loop, [&] { return !agent->Running(); }, kSoon));
  EXPECT_EQ(agent->exit_code(), 0) << Log();
}

TEST_F(OursAtGoServerTest, WeReadTheCertificatesAndTokensThatGoMakes) {
  Begin();
  if (!server.has_value()) return;
  const std::string id = TextOf(token, "instance_id");
  const auto claims =
      crypto::ReadUnverifiedToken(TextOf(token, "token"), crypto::TokenKind::kAgent);
  ASSERT_TRUE(claims.has_value()) << claims.error().ToString();
  EXPECT_EQ(claims->subject, id);
  EXPECT_EQ(claims->cluster, "bench");
  const auto roots = crypto::TrustBundleFromPem(ReadAll(server->File("ca.crt")));
  ASSERT_TRUE(roots.has_value()) << roots.error().ToString();
  EXPECT_TRUE(roots->front().facts().is_ca);
  StartAgent();
  const fs::path file = Home() / "identity/identity.crt";
  ASSERT_TRUE(RunUntil(loop, [&] { return fs::exists(file); }, kSoon)) << Log();
  const auto leaf = crypto::Certificate::FromPem(ReadAll(file));
  ASSERT_TRUE(leaf.has_value()) << leaf.error().ToString();
  EXPECT_EQ(leaf->OnlyPart(crypto::SubjectAttribute::kCommonName), id);
  EXPECT_EQ(leaf->OnlyPart(crypto::SubjectAttribute::kOrganization), "default");
  EXPECT_TRUE(leaf->facts().client_auth);
  ASSERT_EQ(leaf->facts().roles.size(), 1U);
  const auto role = crypto::RoleExtension(crypto::Role::kAgent);
  EXPECT_EQ(leaf->facts().roles.front(), Bytes(role.begin(), role.end()));
}

TEST(GoRecords, WhatGoWritesIsReadAndStaysReadableForGoWhenWeWriteItAgain) {
  NSTANCE_GO_PROGRAM_OR_SKIP(program, "test/go_peers", "go-records");
  const std::string id = "knc06bgm7733st2576nx5jht4ecjw";
  const auto written = RunProcess({.argv = {program, "write", id, "default", "workers"}});
  ASSERT_TRUE(written.has_value() && written->exit_code == 0);
  const RecordKey key = {.tenant = DefaultTenant(), .instance_id = *ParsePuidv7(id)};
  const Result<InstanceRecord> record = DecodeInstanceRecord(written->out, key);
  ASSERT_TRUE(record.has_value()) << record.error().ToString();
  EXPECT_EQ(record->phase, InstancePhase::kRegistered);
  EXPECT_EQ(FormatTimestamp(record->created_at), "2026-03-01T11:30:00.123456789Z");
  EXPECT_EQ(record->nonce_sha256,
            crypto::TokenSha256Hex("eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl"));
  EXPECT_EQ(record->cert_serial, "1767225600000000000");

  const TempDir bucket;
  fs::create_directories(bucket.path() / "instance/a");
  static_cast<void>(
      bucket.Write(fmt::format("instance/a/default.{}.json", id), EncodeInstanceRecord(*record)));
  const auto read = RunProcess({.argv = {program, "read", bucket.path().string(), "a"}});
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->exit_code, 0) << read->out;
  const Result<json::Value> line = json::Parse(read->out);
  ASSERT_TRUE(line.has_value()) << read->out;
  EXPECT_EQ(TextAt(*line, {"value", "created_at"}), "2026-03-01T11:30:00.123456789Z");
  EXPECT_EQ(TextAt(*line, {"value", "config", "vars", "A"}), "<x> & y");
  EXPECT_EQ(TextAt(*line, {"value", "status"}), "pending");
  EXPECT_EQ(TextAt(*line, {"value", "registration_jwt"}), "") << "only its hash is kept";
}

}  // namespace
}  // namespace nstance::test
