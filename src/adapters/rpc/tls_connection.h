// TlsConnection: one TCP socket with TLS on a RealLoop, between the kernel and an HTTP/2 session.
//
// It reads at most once per turn and socket, writes at most once per Flush() where the kernel takes
// it, and holds no buffer while idle. When more than 256 KiB wait to be sent it stops reading, so a
// peer that asks but never listens cannot make us hoard answers.
//
// Closing lingers: what there is to say (an alert, GOAWAY) is sent, our sending side is shut down,
// and at most 64 KiB or 1 s of input are read and dropped before the socket goes; otherwise the
// kernel's reset could destroy what we said. A peer that reads nothing is reset, so that the kernel
// holds nothing for it either.
//
// State         Next                       When
// kConnecting   kHandshaking, kClosed      client only: the TCP connection is up; refused
// kHandshaking  kOpen, kLingering, kClosed TLS is up; failed with an alert; lost
// kOpen         kLingering, kClosed        Close(), a TLS failure; lost
// kLingering    kClosed                    the other side closed, or a limit
// kClosed       -                          OnClosed() has been called
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/tls_context.h"
#include "base/result.h"
#include "base/text.h"

namespace nstance::grpc {

inline constexpr std::size_t kLingerBytes = std::size_t{64} * 1024;
inline constexpr Duration kLingerTime = Duration::Seconds(1);

// A descriptor that closes itself.
class Descriptor final {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool valid() const { return value_ >= 0; }

 private:
  int value_ = -1;
};

class TlsConnection final {
 public:
  class Owner {
   public:
    Owner() = default;
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    virtual ~Owner() = default;

    // Keeps the owner, and with it this connection, alive while an event is handled.
    [[nodiscard]] virtual std::shared_ptr<void> KeepAlive() = 0;
    // Asked when handshake bytes are there. False: nothing is read until ContinueHandshake().
    [[nodiscard]] virtual bool MayHandshake() { return true; }
    // TLS is up.
    virtual void OnOpen() = 0;
    // Plaintext. The owner calls Close() when it has had enough.
    virtual void OnPlain(std::span<const std::uint8_t> bytes) = 0;
    // Input has been handled, or the kernel took what waited: time for Flush() and second thoughts.
    virtual void OnInputDone() = 0;
    // Appends plaintext to be sent, about `limit` bytes at most.
    virtual void Produce(Bytes& out, std::size_t limit) = 0;
    // No more events but OnClosed(); when the other side has only closed its half, also that.
    virtual void OnLost(const Error& why) = 0;
    // The socket is closed.
    virtual void OnClosed() = 0;
  };

  enum class State : std::uint8_t { kConnecting, kHandshaking, kOpen, kLingering, kClosed };
  struct Parts {
    RealLoop& loop;
    Owner& owner;
    std::shared_ptr<const TlsContext> tls;
    TlsSession::Target target = {};  // Empty for a server.
  };

  // `socket` is connected, or connecting when `state` says so.
  TlsConnection(Parts parts, Descriptor socket, State state);
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;
  ~TlsConnection();

  // A client's first step when the socket is connected already.
  void StartHandshake();
  void ContinueHandshake();
  // Writes what Produce() gives and the kernel takes.
  void Flush();
  // Stops and starts reading, for an owner that is overloaded.
  void SetReading(bool on);
  // Sends what there is, then closes with a linger. OnLost() does not come.
  void Close();
  // At once, without a word to anybody.
  void Abandon();

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] TlsSession& tls() { return tls_; }
  // Since when the connection has been silent.
  [[nodiscard]] Instant last_read() const { return last_read_; }
  // Since when the kernel has taken nothing of what waits to be sent.
  [[nodiscard]] std::optional<Instant> stuck_since() const { return stuck_since_; }
  // The other side reads nothing: the end is a reset, whatever the kernel still takes until then.
  void GiveUp() { given_up_ = true; }
  // Whether TLS has answered the other side's hello.
  [[nodiscard]] bool hello_answered() const { return hello_answered_; }

 private:
  void OnReady(Readiness ready);
  void OnReadable();
  void OnConnected();
  void HandleInput(std::span<const std::uint8_t> bytes);
  [[nodiscard]] bool StepHandshake();
  void ReadPlain();
  void Drop();
  // Sends out_; false when the connection was lost by it.
  [[nodiscard]] bool WriteOut();
  void Fail(const Error& why);
  void Lose(const Error& why);
  void Linger();
  void Finish();
  void SetInterest();

  RealLoop& loop_;
  Owner& owner_;
  TlsSession tls_;
  Descriptor socket_;
  std::unique_ptr<DescriptorWatch> watch_;
  State state_;
  Bytes out_;
  std::size_t out_offset_ = 0;
  Instant last_read_;
  std::optional<Instant> stuck_since_;
  Pending linger_timer_;
  std::size_t dropped_ = 0;
  bool reading_ = true;
  bool gated_ = false;  // Waits for ContinueHandshake().
  bool hello_answered_ = false;
  bool shut_ = false;  // Our sending side.
  bool given_up_ = false;
  bool flushing_ = false;
  bool more_ = false;  // Flush() made room for other sockets and goes on next turn.
};

}  // namespace nstance::grpc
