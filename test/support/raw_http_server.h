// RawHttpServer: a real TCP server on 127.0.0.1 that says exactly what a test tells it to.
//
// It knows just enough HTTP to read a request; answers are bytes. A script runs for each
// connection, on a thread of its own, and may block: every wait ends when the server is destroyed,
// and none lasts longer than a minute. What was asked and how many connections there were is
// recorded.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nstance::test {

struct RawRequest {
  int connection = 0;  // Counted from 0 in the order of acceptance.
  std::string head;    // Up to and with the empty line, byte for byte.
  std::string body;

  [[nodiscard]] std::string Method() const;
  // "/path?query", as it was sent.
  [[nodiscard]] std::string Target() const;
  // All values of a header (any case), in order.
  [[nodiscard]] std::vector<std::string> Values(std::string_view name) const;
  // The only value of a header; empty if there is none or more than one.
  [[nodiscard]] std::string Value(std::string_view name) const;
};

class RawHttpServer;

// One connection, for its script. The connection is closed when the script returns.
class RawConnection final {
 public:
  RawConnection(RawHttpServer& server, int number, int descriptor);
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  ~RawConnection();

  [[nodiscard]] int number() const { return number_; }

  // The next request with its body, or nothing when the peer is gone. Says "100 Continue" if asked.
  std::optional<RawRequest> ReadRequest();
  // The head alone; the body stays unread.
  std::optional<RawRequest> ReadHead();
  // False when the peer is gone.
  bool Write(std::string_view bytes);
  // Until the peer closes; what it says is thrown away.
  void WaitForClose();
  // True if the peer closes, or says something, within that time.
  bool HeardWithin(int milliseconds) const;
  // Until RawHttpServer::OpenGate().
  void WaitForGate();
  // Closes with a reset instead of an orderly end.
  void Reset();

 private:
  friend class RawHttpServer;
  struct Tls;
  bool Handshake();
  // Bytes read, 0 at the end of the connection, or after a minute.
  std::size_t ReadSome(char* buffer, std::size_t size);
  bool Wait(short events, int milliseconds) const;

  RawHttpServer& server_;
  int number_;
  int descriptor_;
  std::unique_ptr<Tls> tls_;
  std::string unread_;
};

class RawHttpServer final {
 public:
  using Script = std::function<void(RawConnection&)>;

  struct TlsOptions {
    std::string certificate;  // PEM.
    std::string key;          // PEM.
    // PEM; not empty: clients must show a certificate of this authority.
    std::string client_authority = {};
  };
  struct Options {
    std::optional<TlsOptions> tls = {};
  };

  explicit RawHttpServer(Script script);
  RawHttpServer(Script script, Options options);
  RawHttpServer(const RawHttpServer&) = delete;
  RawHttpServer& operator=(const RawHttpServer&) = delete;
  ~RawHttpServer();

  [[nodiscard]] int port() const;
  // "http://127.0.0.1:port" + path, or https.
  [[nodiscard]] std::string Url(std::string_view path) const;

  // Lets every script that waits for the gate go on, now and later.
  void OpenGate();
  // No new connections from here on; they are refused.
  void StopListening();

  [[nodiscard]] std::vector<RawRequest> requests() const;
  // Connections accepted, open now, and open at once at most.
  [[nodiscard]] int accepted() const;
  [[nodiscard]] int open() const;
  [[nodiscard]] int most_open() const;
  // Over all connections; and whether a write is waiting for a peer that does not read.
  [[nodiscard]] std::size_t bytes_written() const;
  [[nodiscard]] bool stalled() const;

 private:
  friend class RawConnection;
  struct State;
  void Accept();
  std::unique_ptr<State> state_;
};

// "HTTP/1.1 200 OK" with that body and its length; `headers` are whole lines with their ends.
[[nodiscard]] std::string Answer(int status, std::string_view body, std::string_view headers = "");

// A script that answers every request on the connection the same way.
[[nodiscard]] RawHttpServer::Script AnswerAll(std::string bytes);

}  // namespace nstance::test
