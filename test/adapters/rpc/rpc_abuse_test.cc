// The abuser: sockets that speak TLS and HTTP/2 by hand, or nothing at all, against a real server
// (bad-input rows BI-39 to BI-57 as far as the transport answers them). After each attack a good
// client must still be served.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/rpc/tls_connection.h"
#include "test/adapters/rpc/raw_frames.h"
#include "test/adapters/rpc/rpc_fixture.h"

namespace nstance::grpc {
namespace {

using test::AppendFrame;
using test::FrameType;
using test::RawFrame;
using test::Who;

// A blocking socket that gives up after ten seconds.
class RawClient {
 public:
  explicit RawClient(const RpcAddress& address)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    connected_ = connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }

  [[nodiscard]] bool connected() const { return connected_; }
  bool Write(std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // What is there, at least a byte; empty when the other side has closed.
  Bytes Read() {
    Bytes room(65'536);
    const ssize_t got = recv(socket_.get(), room.data(), room.size(), 0);
    room.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    timed_out_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    return room;
  }
  // Reads to the end; false when it does not come in time.
  bool ReadToEnd(Bytes& all) {
    for (;;) {
      const Bytes more = Read();
      if (more.empty()) return !timed_out_;
      all.insert(all.end(), more.begin(), more.end());
    }
  }

 private:
  Descriptor socket_;
  bool connected_ = false;
  bool timed_out_ = false;
};

// A client that has been through TLS and then does as it likes.
class RawTlsClient {
 public:
  RawTlsClient(const RpcAddress& address, Who who)
      : raw_(address),
        tls_(*TlsContext::ForClient(test::ClientMaterial(who)), {.host = address.host}) {
    for (;;) {
      const Result<bool> done = tls_.Handshake(test::Materials().now);
      raw_.Write(std::exchange(tls_.output(), {}));
      if (!done.has_value() || *done) {
        open_ = done.has_value();
        return;
      }
      input_ = raw_.Read();
      if (input_.empty()) return;
      tls_.Feed(input_);
    }
  }

  [[nodiscard]] bool open() const { return open_; }
  bool Write(std::span<const std::uint8_t> plain) {
    tls_.Write(plain);
    return raw_.Write(std::exchange(tls_.output(), {}));
  }
  // All frames until the server closes; empty optional when it does not.
  std::optional<std::vector<RawFrame>> ReadToEnd() {
    Bytes plain;
    Bytes room(65'536);
    Bytes cipher;
    const bool ended = raw_.ReadToEnd(cipher);
    tls_.Feed(cipher);
    for (;;) {
      const Result<std::size_t> size = tls_.Read(room);
      if (!size.has_value() || *size == 0) break;
      plain.insert(plain.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(*size));
    }
    if (!ended) return std::nullopt;
    return test::ParseFrames(plain);
  }

 private:
  RawClient raw_;
  TlsSession tls_;
  Bytes input_;
  bool open_ = false;
};

class RpcAbuseTest : public test::RpcFixture {
 public:
  // Runs the attack beside the loop, then asks as a good client.
  void Attack(const std::function<void()>& attack) {
    std::atomic<bool> done = false;
    std::thread attacker([&] {
      attack();
      done = true;
    });
    EXPECT_TRUE(Until([&] { return done.load(); }));
    attacker.join();
    test::TestClient& good = Ready(agents_, Who::kAgent);
    EXPECT_TRUE(Unary(good, test::kUnary, "still there").end->status.has_value());
  }

  // GOAWAY's code when the server ends the connection after these frames; -1 when it does not.
  int GoawayAfter(const Bytes& bytes) {
    int code = -1;
    Attack([&] {
      RawTlsClient client(agents_, Who::kAgent);
      ASSERT_TRUE(client.open());
      Bytes all = test::ClientOpening();
      all.insert(all.end(), bytes.begin(), bytes.end());
      client.Write(all);  // The server may have enough before the end.
      const auto frames = client.ReadToEnd();
      ASSERT_TRUE(frames.has_value()) << "the server did not close";
      for (const RawFrame& frame : *frames) {
        if (frame.type == FrameType::kGoaway) {
          code = static_cast<unsigned char>(frame.payload.at(7));
        }
      }
    });
    return code;
  }

  RpcAddress agents_ = Open(RpcPort::kAgent);
};

TEST_F(RpcAbuseTest, PlainHttpOldTlsAndNoiseAreRefused) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(test::kPreface),
        std::string("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", 11),
        std::string(70'000, 'x')}) {
    Attack([&] {
      RawClient client(agents_);
      ASSERT_TRUE(client.connected());
      client.Write(AsBytes(bytes));
      Bytes answer;
      EXPECT_TRUE(client.ReadToEnd(answer));
      EXPECT_LT(answer.size(), 64U) << "an alert at most";
    });
  }
}

TEST_F(RpcAbuseTest, SilentConnectionsAreClosedAtTheHelloLimit) {
  Attack([&] {
    RawClient silent(agents_);
    RawClient slow(agents_);
    ASSERT_TRUE(silent.connected() && slow.connected());
    slow.Write(AsBytes("\x16\x03"));
    Bytes answer;
    EXPECT_TRUE(silent.ReadToEnd(answer));
    EXPECT_TRUE(slow.ReadToEnd(answer));
    EXPECT_TRUE(answer.empty());
  });
}

TEST_F(RpcAbuseTest, FloodsOfManyKindsEndTheirConnectionOnly) {
  const auto flood = [](const std::function<RawFrame(std::uint32_t)>& make, std::uint32_t count) {
    Bytes bytes;
    for (std::uint32_t i = 0; i < count; ++i) AppendFrame(bytes, make(i));
    return bytes;
  };
  EXPECT_EQ(GoawayAfter(flood(
                [](std::uint32_t) {
                  return RawFrame{.type = FrameType::kPing, .payload = std::string(8, 'x')};
                },
                1'000)),
            11);
  EXPECT_EQ(GoawayAfter(
                flood([](std::uint32_t) { return RawFrame{.type = FrameType::kSettings}; }, 1'000)),
            11);
  Bytes rapid;
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    AppendFrame(rapid, {.type = FrameType::kHeaders,
                        .flags = test::kEndHeaders,
                        .stream = 2 * i + 1,
                        .payload = test::RequestFields(test::kEcho)});
    AppendFrame(
        rapid,
        {.type = FrameType::kReset, .stream = 2 * i + 1, .payload = std::string("\0\0\0\x08", 4)});
  }
  EXPECT_EQ(GoawayAfter(rapid), 11);
  // WINDOW_UPDATE of 0 is a protocol error of the connection.
  EXPECT_EQ(GoawayAfter(flood(
                [](std::uint32_t) {
                  return RawFrame{.type = FrameType::kWindowUpdate, .payload = std::string(4, 0)};
                },
                1)),
            1);
  // CONTINUATION without end.
  Bytes endless;
  AppendFrame(
      endless,
      {.type = FrameType::kHeaders, .stream = 1, .payload = test::RequestFields(test::kEcho)});
  for (int i = 0; i < 100; ++i) {
    AppendFrame(
        endless,
        {.type = FrameType::kContinuation, .stream = 1, .payload = test::LiteralField("x", "y")});
  }
  EXPECT_EQ(GoawayAfter(endless), 11);
}

TEST_F(RpcAbuseTest, ManySilentConnectionsOfOneAddressCloseTheOldest) {
  Attack([&] {
    std::vector<std::unique_ptr<RawClient>> silent;
    for (int i = 0; i < 600; ++i) silent.push_back(std::make_unique<RawClient>(agents_));
    Bytes answer;
    EXPECT_TRUE(silent.front()->ReadToEnd(answer));
  });
}

}  // namespace
}  // namespace nstance::grpc
