// A real server and raw sockets on one loop. Clients are descriptors that say any bytes; limits are
// made short, so that reaching them takes no time.
#include "adapters/http_server/loop_http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/loop_runner.h"

namespace nstance {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Client final {
 public:
  explicit Client(std::uint16_t port) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::fcntl(socket_, F_SETFL, O_NONBLOCK), 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { Close(); }

  void Close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  // As much as the kernel takes.
  std::size_t Say(std::string_view bytes) const {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }
  // Reads what there is; true at the end of the connection.
  bool Ended() {
    char buffer[4096];
    for (;;) {
      const ssize_t count = ::recv(socket_, buffer, sizeof(buffer), 0);
      if (count < 0) return errno != EAGAIN;
      if (count == 0) return true;
      heard.append(buffer, static_cast<std::size_t>(count));
    }
  }
  std::string heard = {};

 private:
  int socket_ = -1;
};

class LoopHttpServerTest : public testing::Test {
 public:
  void Listen(HttpServerLimits limits = {}) {
    server = std::make_unique<LoopHttpServer>(
        loop, LoopHttpServer::Options{.limits = limits,
                                      .source = {.interface = "test", .probe = &probe}});
    const auto bound =
        server->Listen("127.0.0.1", 0, [this](const HttpQuestion& question, HttpReply reply) {
          paths.push_back(question.path);
          if (question.path == "/later") {
            waiting = std::move(reply);
          } else if (question.path == "/large") {
            reply({.body = std::string(std::size_t{8} * 1024 * 1024, 'x')});
          } else if (question.path != "/dropped") {
            reply({.body = "ok\n"});
          }
        });
    ASSERT_TRUE(bound) << bound.error().ToString();
    port = *bound;
  }
  [[nodiscard]] bool Until(const std::function<bool()>& done) { return test::RunUntil(loop, done); }
  std::string Ask(std::string_view request) {
    Client client(port);
    client.Say(request);
    EXPECT_TRUE(Until([&] { return client.Ended(); }));
    return client.heard;
  }
  static std::string Get(std::string_view path) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n";
  }

  RealLoop loop;
  metrics::Registry registry;
  InputProbe probe{registry};
  std::unique_ptr<LoopHttpServer> server;
  std::uint16_t port = 0;
  std::vector<std::string> paths;
  HttpReply waiting;
};

TEST_F(LoopHttpServerTest, AnswersAndCloses) {
  Listen();
  EXPECT_THAT(Ask(Get("/x")), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nok\n")));
  EXPECT_THAT(Ask("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n"), EndsWith("\r\n\r\n"));
  EXPECT_TRUE(Until([&] { return server->connections() == 0; }));
}

TEST_F(LoopHttpServerTest, ARequestMayComeInPieces) {
  Listen();
  Client client(port);
  for (const char c : Get("/slow")) {
    client.Say(std::string_view(&c, 1));
    (void)Until([&] { return true; });
  }
  ASSERT_TRUE(Until([&] { return client.Ended(); }));
  EXPECT_THAT(client.heard, HasSubstr("200 OK"));
}

TEST_F(LoopHttpServerTest, ALaterReplyIsStillAnAnswer) {
  Listen();
  Client client(port);
  client.Say(Get("/later"));
  ASSERT_TRUE(Until([&] { return waiting != nullptr; }));
  EXPECT_FALSE(client.Ended());
  waiting({.status = 503, .body = "now\n"});
  ASSERT_TRUE(Until([&] { return client.Ended(); }));
  EXPECT_THAT(client.heard, HasSubstr("503"));
}

TEST_F(LoopHttpServerTest, AReplyMayOutliveItsConnectionAndItsServer) {
  Listen();
  {
    Client client(port);
    client.Say(Get("/later"));
    ASSERT_TRUE(Until([&] { return waiting != nullptr; }));
  }
  waiting({});
  waiting = nullptr;
  Client client(port);
  client.Say(Get("/later"));
  ASSERT_TRUE(Until([&] { return waiting != nullptr; }));
  server.reset();
  waiting({});
}

TEST_F(LoopHttpServerTest, ADroppedOrLateReplyClosesTheConnection) {
  Listen({.handler = Duration::Milliseconds(5)});
  EXPECT_EQ(Ask(Get("/dropped")), "");
  EXPECT_EQ(Ask(Get("/later")), "");
}

TEST_F(LoopHttpServerTest, BI112_WhatIsTooLongOrWrongHearsWhy) {
  Listen();
  EXPECT_THAT(Ask("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"), HasSubstr(" 405 "));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\nContent-Length: 1\r\n\r\n"),
              HasSubstr(" 400 "));
  EXPECT_THAT(Ask("GET /" + std::string(std::size_t{32} * 1024, 'a')), HasSubstr(" 431 "));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" +
                  std::string(10'000, 'b')),
              HasSubstr(" 413 "));
  EXPECT_TRUE(paths.empty());
}

TEST_F(LoopHttpServerTest, BI112_AMebibyteOfTargetIsCutOff) {
  Listen();
  Client client(port);
  client.Say("GET /");
  const std::string more(std::size_t{64} * 1024, 'a');
  std::size_t said = 0;
  ASSERT_TRUE(Until([&] {
    if (said < std::size_t{1024} * 1024) said += client.Say(more);
    return client.Ended();
  }));
  EXPECT_TRUE(Until([&] { return server->connections() == 0; }));
}

TEST_F(LoopHttpServerTest, BI112_WhoIsTooSlowIsToldAndClosed) {
  Listen({.head = Duration::Milliseconds(5)});
  EXPECT_THAT(Ask("GET / HT"), HasSubstr(" 408 "));
}

TEST_F(LoopHttpServerTest, WhoDoesNotReadIsClosed) {
  Listen({.answer = Duration::Milliseconds(20)});
  Client client(port);
  client.Say(Get("/large"));
  ASSERT_TRUE(Until([&] { return !paths.empty(); }));
  EXPECT_TRUE(Until([&] { return server->connections() == 0; }));
}

TEST_F(LoopHttpServerTest, ALargeAnswerArrivesWhole) {
  Listen({.answer = Duration::Minutes(1)});  // This machine may be slow; nobody waits for it.
  EXPECT_GT(Ask(Get("/large")).size(), std::size_t{8} * 1024 * 1024);
}

TEST_F(LoopHttpServerTest, SilentConnectionsMakeRoomForNewOnes) {
  Listen({.connections = 4});
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(std::make_unique<Client>(port));
  EXPECT_THAT(Ask(Get("/x")), HasSubstr("200 OK"));
  EXPECT_LE(server->connections(), 4U);
  const metrics::Snapshot counted = registry.Take();
  const auto& hits = counted.at("limit_hits_total").series;
  ASSERT_EQ(hits.size(), 1U);
  EXPECT_EQ(hits[0].labels.back(), "http_connections");
  EXPECT_EQ(hits[0].value, 17) << "twenty, and the one that asks, in four places";
}

TEST_F(LoopHttpServerTest, AnAddressInUseIsAnError) {
  Listen();
  LoopHttpServer second(loop);
  const auto bound = second.Listen("127.0.0.1", port, [](const HttpQuestion&, HttpReply) {});
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, Code::kUnavailable);
  LoopHttpServer third(loop);
  EXPECT_FALSE(third.Listen("a name", 0, [](const HttpQuestion&, HttpReply) {}));
}

}  // namespace
}  // namespace nstance
