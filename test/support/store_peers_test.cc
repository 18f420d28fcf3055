// The fixtures of real stores and of the proxy, tried out: they start, serve, misbehave on demand
// and leave nothing behind.
#include "test/support/store_peers.h"

#include <signal.h>

#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include "test/support/background_process.h"
#include "test/support/peer_client.h"
#include "test/support/raw_http_server.h"
#include "test/support/temp_dir.h"
#include "test/support/toxiproxy.h"

namespace nstance::test {
namespace {

bool IsAlive(pid_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

HttpRequest GetOf(std::string url, Duration deadline = Duration::Seconds(20)) {
  HttpRequest request;
  request.url = std::move(url);
  request.deadline = deadline;
  return request;
}

TEST(BackgroundProcessTest, EndsWithTheObjectAndTakesItsChildrenAlong) {
  const TempDir folder;
  const std::string output = (folder.path() / "output").string();
  auto process =
      BackgroundProcess::Start({.argv = {"sh", "-c", "sleep 1000 & echo child $!; wait"}}, output);
  ASSERT_TRUE(process) << process.error().ToString();
  PeerClient clock;
  (void)clock.SendUntil(
      GetOf("http://127.0.0.1:1/"),
      [&](const auto&) { return (*process)->OutputTail().ends_with("\n"); }, Duration::Seconds(30));
  const std::string told = (*process)->OutputTail();
  ASSERT_TRUE(told.starts_with("child ")) << told;
  const pid_t child = std::stoi(told.substr(6));
  const pid_t pid = (*process)->pid();
  EXPECT_TRUE((*process)->Running());
  EXPECT_TRUE(IsAlive(child));
  process->reset();
  EXPECT_FALSE(IsAlive(pid));
  // Whoever adopts the child reaps it in a moment.
  EXPECT_TRUE(clock.SendUntil(
      GetOf("http://127.0.0.1:1/"), [&](const auto&) { return !IsAlive(child); },
      Duration::Seconds(30)));
}

TEST(BackgroundProcessTest, TellsWhatCannotBeStartedAndWhatHasEnded) {
  const TempDir folder;
  const std::string output = (folder.path() / "output").string();
  const auto missing = BackgroundProcess::Start({.argv = {"/no/such/program"}}, output);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  auto ended = BackgroundProcess::Start({.argv = {"true"}}, output);
  ASSERT_TRUE(ended) << ended.error().ToString();
  PeerClient clock;
  EXPECT_TRUE(clock.SendUntil(
      GetOf("http://127.0.0.1:1/"), [&](const auto&) { return !(*ended)->Running(); },
      Duration::Seconds(30)));
}

class StorePeerTest : public testing::TestWithParam<StorePeer> {};

TEST_P(StorePeerTest, StartsAndIsGoneAfterwards) {
  auto store = RunningStore::Start(GetParam());
  if (!store && store.error().code == Code::kNotFound) GTEST_SKIP() << store.error().message;
  ASSERT_TRUE(store) << store.error().ToString();
  const pid_t pid = (*store)->process().pid();
  EXPECT_TRUE(IsAlive(pid));
  store->reset();
  EXPECT_FALSE(IsAlive(pid));
}

INSTANTIATE_TEST_SUITE_P(Peers, StorePeerTest,
                         testing::Values(StorePeer::kMinio, StorePeer::kVersitygw,
                                         StorePeer::kMinistack, StorePeer::kFakeGcs,
                                         StorePeer::kGcpStorageEmulator),
                         [](const auto& peer) {
                           std::string name(PeerName(peer.param));
                           std::erase(name, '-');
                           return name;
                         });

class ToxiproxyTest : public testing::Test {
 public:
  void SetUp() override {
    auto started = Toxiproxy::Start();
    if (!started && started.error().code == Code::kNotFound) {
      GTEST_SKIP() << started.error().message;
    }
    ASSERT_TRUE(started) << started.error().ToString();
    toxiproxy = *std::move(started);
    const auto address = toxiproxy->AddProxy("peer", "127.0.0.1:" + std::to_string(server.port()));
    ASSERT_TRUE(address) << address.error().ToString();
    url = "http://" + *address + "/";
  }

  Result<HttpResponse> Get(Duration deadline = Duration::Seconds(20)) {
    PeerClient client;  // Without connections from before.
    return client.Send(GetOf(url, deadline));
  }

  RawHttpServer server{AnswerAll(Answer(200, std::string(10'000, 'x')))};
  std::unique_ptr<Toxiproxy> toxiproxy;
  std::string url;
};

TEST_F(ToxiproxyTest, CutsAndHeals) {
  EXPECT_TRUE(Get());
  ASSERT_TRUE(toxiproxy->Cut("peer"));
  EXPECT_FALSE(Get());
  ASSERT_TRUE(toxiproxy->Heal("peer"));
  const auto healed = Get();
  EXPECT_TRUE(healed) << healed.error().ToString();
}

TEST_F(ToxiproxyTest, DelaysSilencesResetsAndCutsShort) {
  const Toxic silence = Toxic::Timeout(Duration());
  ASSERT_TRUE(toxiproxy->AddToxic("peer", silence));
  const auto silent = Get(Duration::Milliseconds(300));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, Code::kDeadlineExceeded) << silent.error().ToString();
  ASSERT_TRUE(toxiproxy->RemoveToxic("peer", silence.name));

  const Toxic latency = Toxic::Latency(Duration::Seconds(5));
  ASSERT_TRUE(toxiproxy->AddToxic("peer", latency));
  EXPECT_FALSE(Get(Duration::Milliseconds(300)));
  ASSERT_TRUE(toxiproxy->RemoveToxic("peer", latency.name));

  const Toxic reset = Toxic::ResetPeer(Duration());
  ASSERT_TRUE(toxiproxy->AddToxic("peer", reset));
  EXPECT_FALSE(Get());
  ASSERT_TRUE(toxiproxy->RemoveToxic("peer", reset.name));

  const Toxic cut = Toxic::LimitData(5'000);
  ASSERT_TRUE(toxiproxy->AddToxic("peer", cut));
  EXPECT_FALSE(Get());
  ASSERT_TRUE(toxiproxy->RemoveToxic("peer", cut.name));
  EXPECT_TRUE(Get());
}

}  // namespace
}  // namespace nstance::test
