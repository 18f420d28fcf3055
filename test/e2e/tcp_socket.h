// TcpSocket: a descriptor that closes itself, and the few things that end-to-end tests do with
// loopback sockets.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/result.h"

namespace nstance::test {

class TcpSocket final {
 public:
  TcpSocket() = default;
  explicit TcpSocket(int number) : number_(number) {}
  TcpSocket(TcpSocket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  TcpSocket(const TcpSocket&) = delete;
  TcpSocket& operator=(const TcpSocket&) = delete;
  ~TcpSocket() {
    if (number_ >= 0) ::close(number_);
  }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool open() const { return number_ >= 0; }

  // Listens on 127.0.0.1; port 0: one that is free.
  [[nodiscard]] static Result<TcpSocket> Listen(std::uint16_t port) {
    TcpSocket made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int one = 1;
    ::setsockopt(made.number_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    const sockaddr_in address = Loopback(port);
    if (::bind(made.number_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(made.number_, 256) != 0) {
      return Fail(Unavailable(fmt::format("listening on port {}: error {}", port, errno)));
    }
    return made;
  }

  // Begins to connect, without waiting; kUnavailable when that fails at once.
  [[nodiscard]] static Result<TcpSocket> BeginConnect(std::uint16_t port) {
    TcpSocket made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int one = 1;
    ::setsockopt(made.number_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    const sockaddr_in address = Loopback(port);
    if (::connect(made.number_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
            0 &&
        errno != EINPROGRESS) {
      return Fail(Unavailable(fmt::format("connecting to port {}: error {}", port, errno)));
    }
    return made;
  }

  // Connected, with so many milliseconds for each step that follows.
  [[nodiscard]] static Result<TcpSocket> Connect(std::uint16_t port, int milliseconds) {
    TcpSocket made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit = {.tv_sec = milliseconds / 1'000,
                           .tv_usec = (milliseconds % 1'000) * 1'000};
    ::setsockopt(made.number_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(made.number_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    const sockaddr_in address = Loopback(port);
    if (::connect(made.number_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
        0) {
      return Fail(Unavailable(fmt::format("connecting to port {}: error {}", port, errno)));
    }
    return made;
  }

  // 0 when it is not bound.
  [[nodiscard]] std::uint16_t port() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    if (::getsockname(number_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
    return ntohs(address.sin_port);
  }

  // All of it, or false.
  [[nodiscard]] bool Write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(number_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Up to the next newline (left out), the end, or the time limit.
  [[nodiscard]] std::string ReadLine() const {
    std::string line;
    char next = 0;
    while (line.size() < 4'096 && ::recv(number_, &next, 1, 0) == 1 && next != '\n') line += next;
    return line;
  }
  // Up to the end or the time limit, at most 64 KiB.
  [[nodiscard]] std::string ReadAll() const {
    std::string text;
    std::array<char, 4'096> buffer{};
    ssize_t got = 0;
    while (text.size() < 65'536 && (got = ::recv(number_, buffer.data(), buffer.size(), 0)) > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  static sockaddr_in Loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }

  int number_ = -1;
};

// The port of "host:port"; 0 when there is none.
[[nodiscard]] inline std::uint16_t PortOf(std::string_view address) {
  const std::string_view text = address.substr(address.rfind(':') + 1);
  std::uint16_t port = 0;
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port;
}

struct HttpAnswer {
  int status = 0;  // 0: nobody answered.
  std::string body = {};
};

// One GET to a program on this machine, within a second per step.
[[nodiscard]] inline HttpAnswer HttpGet(std::string_view address, std::string_view path) {
  const Result<TcpSocket> socket = TcpSocket::Connect(PortOf(address), 1'000);
  if (!socket.has_value() ||
      !socket->Write(
          fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", path, address))) {
    return {};
  }
  const std::string text = socket->ReadAll();
  HttpAnswer answer;
  const std::size_t blank = text.find(' ');
  if (!text.starts_with("HTTP/1.") || blank == std::string::npos) return {};
  std::from_chars(text.data() + blank + 1, text.data() + text.size(), answer.status);
  const std::size_t body = text.find("\r\n\r\n");
  if (body != std::string::npos) answer.body = text.substr(body + 4);
  return answer;
}

}  // namespace nstance::test
