#include "adapters/rpc/tls_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace nstance::grpc {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} * 1024;
constexpr std::size_t kPlainBytes = std::size_t{16} * 1024;
constexpr std::size_t kProduceBytes = std::size_t{64} * 1024;
// Above this much unsent output nothing more is read.
constexpr std::size_t kMaxUnsent = std::size_t{256} * 1024;
// Rounds of Flush() before other sockets get their turn.
constexpr int kFlushRounds = 16;

// Shared by all connections of a thread: input is handled at once.
std::span<std::uint8_t> ReadBuffer() {
  thread_local const auto buffer = std::make_unique<std::array<std::uint8_t, kReadBytes>>();
  return *buffer;
}
std::span<std::uint8_t> PlainBuffer() {
  thread_local const auto buffer = std::make_unique<std::array<std::uint8_t, kPlainBytes>>();
  return *buffer;
}

Error FromErrno(std::string_view what, int error) {
  return Unavailable(fmt::format("{}: {}", what, std::generic_category().message(error)));
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (value_ >= 0) close(value_);
    value_ = std::exchange(other.value_, -1);
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (value_ >= 0) close(value_);
}

TlsConnection::TlsConnection(Parts parts, Descriptor socket, State state)
    : loop_(parts.loop),
      owner_(parts.owner),
      tls_(std::move(parts.tls), std::move(parts.target)),
      socket_(std::move(socket)),
      state_(state),
      last_read_(parts.loop.Now()) {
  watch_ = loop_.Watch(
      socket_.get(),
      {.readable = state == State::kHandshaking, .writable = state == State::kConnecting},
      [this](Readiness ready) { OnReady(ready); });
}

TlsConnection::~TlsConnection() = default;

void TlsConnection::SetInterest() {
  if (watch_ == nullptr) return;
  const std::size_t unsent = out_.size() - out_offset_;
  const bool wants_input =
      state_ == State::kLingering ||
      (state_ != State::kConnecting && reading_ && !gated_ && unsent < kMaxUnsent);
  watch_->SetInterest(
      {.readable = wants_input, .writable = unsent > 0 || more_ || state_ == State::kConnecting});
}

void TlsConnection::OnReady(Readiness ready) {
  const std::shared_ptr<void> alive = owner_.KeepAlive();
  if (state_ == State::kConnecting) return OnConnected();
  if (ready.writable && (more_ || out_offset_ < out_.size())) {
    Flush();
    if (state_ == State::kOpen) owner_.OnInputDone();
    if (state_ == State::kClosed) return;
  }
  if (!ready.readable) return;
  if (state_ == State::kLingering) return Drop();
  if (!reading_ || gated_) return;
  if (state_ == State::kHandshaking && !owner_.MayHandshake()) {
    gated_ = true;
    return SetInterest();
  }
  OnReadable();
}

void TlsConnection::OnConnected() {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return Lose(FromErrno("connect", error));
  StartHandshake();
}

void TlsConnection::StartHandshake() {
  state_ = State::kHandshaking;
  last_read_ = loop_.Now();
  if (StepHandshake()) SetInterest();
}

void TlsConnection::ContinueHandshake() {
  if (!gated_) return;
  gated_ = false;
  const std::shared_ptr<void> alive = owner_.KeepAlive();
  OnReadable();
  if (state_ != State::kClosed) SetInterest();
}

void TlsConnection::OnReadable() {
  const std::span<std::uint8_t> buffer = ReadBuffer();
  const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) {
    if (!WouldBlock(errno)) Lose(FromErrno("read", errno));
    return;
  }
  if (got == 0) return Lose(Unavailable("the other side closed the connection"));
  last_read_ = loop_.Now();
  HandleInput(buffer.first(static_cast<std::size_t>(got)));
}

void TlsConnection::HandleInput(std::span<const std::uint8_t> bytes) {
  tls_.Feed(bytes);
  if (state_ == State::kHandshaking && !StepHandshake()) return;
  if (state_ != State::kOpen) return;
  ReadPlain();
  if (state_ == State::kOpen) owner_.OnInputDone();
}

// False when the connection ended by it.
bool TlsConnection::StepHandshake() {
  const Result<bool> done = tls_.Handshake(loop_.WallNow());
  if (!done.has_value()) {
    Fail(done.error());
    return false;
  }
  if (!tls_.output().empty()) hello_answered_ = true;
  if (*done) {
    state_ = State::kOpen;
    owner_.OnOpen();
  }
  if (state_ == State::kOpen || state_ == State::kHandshaking) Flush();
  return state_ != State::kClosed && state_ != State::kLingering;
}

void TlsConnection::ReadPlain() {
  const std::span<std::uint8_t> buffer = PlainBuffer();
  while (state_ == State::kOpen) {
    const Result<std::size_t> got = tls_.Read(buffer);
    if (!got.has_value()) return Fail(got.error());
    if (*got == 0) break;
    owner_.OnPlain(buffer.first(*got));
  }
  if (state_ == State::kOpen && tls_.closed()) {
    Lose(Unavailable("the other side closed the connection"));
  }
}

void TlsConnection::Flush() {
  if (flushing_ || state_ == State::kClosed) return;
  flushing_ = true;
  more_ = true;
  for (int round = 0; round < kFlushRounds; ++round) {
    if (out_offset_ == out_.size() && state_ == State::kOpen) {
      Bytes plain;
      owner_.Produce(plain, kProduceBytes);
      tls_.Write(plain);
    }
    if (!tls_.output().empty()) {
      if (out_.empty()) {
        out_ = std::exchange(tls_.output(), {});
      } else {
        const Bytes more = std::exchange(tls_.output(), {});
        out_.insert(out_.end(), more.begin(), more.end());
      }
    }
    more_ = out_offset_ < out_.size();
    if (!more_) break;
    if (!WriteOut()) {
      flushing_ = false;
      return;
    }
    if (out_offset_ < out_.size()) break;  // The kernel is full.
  }
  flushing_ = false;
  if (state_ == State::kLingering && out_offset_ == out_.size() && !shut_) {
    shut_ = true;
    shutdown(socket_.get(), SHUT_WR);
  }
  SetInterest();
}

bool TlsConnection::WriteOut() {
  while (out_offset_ < out_.size()) {
    const ssize_t sent =
        send(socket_.get(), out_.data() + out_offset_, out_.size() - out_offset_, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (WouldBlock(errno)) {
        if (!stuck_since_) stuck_since_ = loop_.Now();
        return true;
      }
      const Error why = FromErrno("write", errno);
      // Input that the other side sent before it went, such as an alert, is still to be read.
      out_ = {};
      out_offset_ = 0;
      if (state_ == State::kOpen || state_ == State::kHandshaking) {
        OnReadable();
        if (state_ == State::kOpen || state_ == State::kHandshaking) Lose(why);
      } else {
        Finish();
        owner_.OnClosed();
      }
      return false;
    }
    out_offset_ += static_cast<std::size_t>(sent);
    stuck_since_.reset();
  }
  out_ = {};  // Idle connections hold no buffer.
  out_offset_ = 0;
  return true;
}

void TlsConnection::SetReading(bool on) {
  reading_ = on;
  SetInterest();
}

// TLS failed: its alert, if any, is sent before the socket closes.
void TlsConnection::Fail(const Error& why) {
  if (state_ == State::kClosed || state_ == State::kLingering) return;
  state_ = State::kLingering;
  owner_.OnLost(why);
  if (state_ == State::kLingering) Linger();
}

// The other side is gone.
void TlsConnection::Lose(const Error& why) {
  if (state_ == State::kClosed) return;
  const bool tell = state_ != State::kLingering;
  Finish();
  if (tell) owner_.OnLost(why);
  owner_.OnClosed();
}

void TlsConnection::Close() {
  if (state_ == State::kClosed || state_ == State::kLingering) return;
  if (state_ != State::kOpen) {
    Finish();
    owner_.OnClosed();
    return;
  }
  Bytes plain;
  owner_.Produce(plain, kProduceBytes);
  tls_.Write(plain);
  tls_.Close();
  state_ = State::kLingering;
  Linger();
}

void TlsConnection::Linger() {
  const std::shared_ptr<void> alive = owner_.KeepAlive();
  linger_timer_ = loop_.CallAfter(kLingerTime, [this] {
    const std::shared_ptr<void> kept = owner_.KeepAlive();
    Finish();
    owner_.OnClosed();
  });
  if (flushing_) {
    // Inside Flush(): its end sends and shuts down.
    return;
  }
  Flush();
}

void TlsConnection::Drop() {
  const std::span<std::uint8_t> buffer = ReadBuffer();
  const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && WouldBlock(errno)) return;
  if (got > 0) {
    dropped_ += static_cast<std::size_t>(got);
    if (dropped_ <= kLingerBytes) return;
  }
  Finish();
  owner_.OnClosed();
}

void TlsConnection::Finish() {
  state_ = State::kClosed;
  if (stuck_since_ || given_up_) {
    // Nobody reads: what the kernel still holds is dropped with the socket.
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  watch_.reset();
  linger_timer_.Cancel();
  socket_ = Descriptor();
  out_ = {};
  out_offset_ = 0;
}

void TlsConnection::Abandon() {
  if (state_ != State::kClosed) Finish();
}

}  // namespace nstance::grpc
