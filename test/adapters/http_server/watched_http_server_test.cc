// A server on its own thread and a home loop that is held up by the test. Clients block; what takes
// time is asked for again and again, so nothing depends on how long it takes.
#include "adapters/http_server/watched_http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"

namespace nstance {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// The whole answer; empty: none came.
std::string Get(std::uint16_t port, const std::string& path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string heard;
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n";
    (void)::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    char buffer[4096];
    for (;;) {
      const ssize_t count = ::recv(socket, buffer, sizeof(buffer), 0);
      if (count <= 0) break;
      heard.append(buffer, static_cast<std::size_t>(count));
    }
  }
  ::close(socket);
  return heard;
}

class WatchedHttpServerTest : public testing::Test {
 public:
  // The server is made on the home loop's thread, which runs from then on.
  void Start(WatchedHttpServer::Options options) {
    server = std::make_unique<WatchedHttpServer>(home, std::move(options));
    const auto bound =
        server->Listen("127.0.0.1", 0, [this](const HttpQuestion& question, HttpReply reply) {
          EXPECT_TRUE(home.OnLoopThread());
          if (question.path == "/dropped") return;
          if (question.path == "/later") {
            home.Post([held = std::make_shared<HttpReply>(std::move(reply))] {
              (*held)({.body = "later\n"});
            });
            return;
          }
          reply({.status = 404, .body = "no " + question.path + "\n"});
        });
    ASSERT_TRUE(bound) << bound.error().ToString();
    port = *bound;
    thread = std::thread([this] { home.Run(); });
  }
  void TearDown() override {
    if (!thread.joinable()) return;
    home.Post([this] {
      server.reset();
      home.Stop();
    });
    thread.join();
  }
  void UntilAnswer(const std::string& part) {
    std::string heard;
    do heard = Get(port, "/healthz");
    while (!heard.contains(part));
  }

  RealLoop home;
  std::unique_ptr<WatchedHttpServer> server;
  std::uint16_t port = 0;
  std::thread thread;
};

TEST_F(WatchedHttpServerTest, PagesAreAnsweredOnTheHomeLoop) {
  Start({});
  EXPECT_THAT(Get(port, "/x"), AllOf(StartsWith("HTTP/1.1 404"), EndsWith("no /x\n")));
  EXPECT_THAT(Get(port, "/later"), EndsWith("later\n"));
  EXPECT_THAT(Get(port, "/healthz"), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("ok\n")));
}

TEST_F(WatchedHttpServerTest, AReplyThatIsDroppedClosesTheConnection) {
  Start({});
  EXPECT_THAT(Get(port, "/dropped"), IsEmpty());
}

TEST_F(WatchedHttpServerTest, ALoopThatIsStuckIsToldUntilItTurnsAgain) {
  Start({.watchdog = Duration::Milliseconds(100), .beat = Duration::Milliseconds(5)});
  UntilAnswer("200 OK");
  std::binary_semaphore held(0);
  home.Post([&] { held.acquire(); });
  UntilAnswer("503 Service Unavailable");
  EXPECT_THAT(Get(port, "/healthz"), HasSubstr("the loop has not turned for"));
  held.release();
  UntilAnswer("200 OK");
}

TEST_F(WatchedHttpServerTest, AServerThatGoesTakesItsQuestionsAlong) {
  Start({});
  std::binary_semaphore held(0);
  home.Post([&] { held.acquire(); });
  std::string heard = "?";
  std::thread client([&] { heard = Get(port, "/x"); });
  // The question waits for the home loop, or has not come yet: both must end well.
  home.Post([this] { server.reset(); });
  held.release();
  client.join();
  EXPECT_THAT(heard, testing::AnyOf(IsEmpty(), StartsWith("HTTP/1.1 404")));
}

TEST(WatchedHttpServerAlone, ItMayGoWithoutEverHavingListened) {
  RealLoop home;
  const WatchedHttpServer server(home);
}

}  // namespace
}  // namespace nstance
