// Link: the agent's connection to its server and the three streams on it, for as long as the
// process runs.
//
// One connection at a time carries the streams; each is opened again when it ends, for whatever
// reason, after its own back-off (core/agent/backoff.h). Connections have a back-off of their own;
// a stream that ended because its connection went waits for nothing else. A renewed certificate is
// shown on a second connection: when that is up the streams begin anew there, and 2 s later the old
// one is closed, so the server sees the new streams before the old ones end.
//
// Guarantees, each held by a test:
//   - nothing that a server says or does ends it
//   - no more than one connection is tried at a time
//   - ready() is never a connection that shows an older certificate than the present one
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/prng.h"
#include "core/agent/backoff.h"
#include "ports/api/agent.h"
#include "ports/loop.h"
#include "ports/rpc.h"

namespace nstance::agent {

enum class Stream : std::uint8_t { kHealth, kKeys, kFiles };
inline constexpr std::size_t kStreams = 3;

class Link final {
 public:
  struct Deps {
    Loop& loop;
    RpcDialer& dialer;
    Prng& jitter;
    log::Logger log;
  };
  // What the owner is asked and told; all on the loop, none from inside a verb but for `tls` and
  // `expired`.
  struct Owner {
    // What to show and trust, asked before each attempt.
    std::function<RpcTls()> tls;
    // Whether our certificate has ended: then attempts are 30 to 60 s apart.
    std::function<bool()> expired;
    std::function<void()> connected;
    std::function<void()> health_opened;
    std::function<void()> health_closed;
    std::function<void()> health_drained;
    std::function<void(const api::KeyGenerationRequest&)> key_request;
    std::function<void(const api::FileTransfer&)> file;
  };

  Link(const Deps& deps, RpcAddress server, Owner owner);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link();

  void Start() { Dial(); }
  // There is a newer certificate: connect with it and move over.
  void Renewed();
  // Ends everything: half-closes the health stream and waits for the server, at most until
  // `deadline`. `stopped` runs once, never from inside; nothing else is told afterwards.
  void Stop(Instant deadline, Task stopped);

  // The connection, if it is up and shows the present certificate; else null.
  [[nodiscard]] RpcChannel* ready() const;
  [[nodiscard]] bool health_open() const;
  // REQUIRES: health_open().
  RpcSend SendReport(api::HealthReportRequest report);

  // Why there is no connection; empty when there is one.
  [[nodiscard]] std::string Problem() const;

 private:
  struct Connection;
  struct StreamState {
    Backoff backoff;
    std::optional<Code> last_end = std::nullopt;  // kUnavailable too for a clean end.
    Instant not_before;
    Pending timer;
    Instant quiet_until;  // Before that its ends are logged for debugging only.
  };
  static constexpr std::array kAll = {Stream::kHealth, Stream::kKeys, Stream::kFiles};

  [[nodiscard]] StreamState& StateOf(Stream stream) {
    return streams_[static_cast<std::size_t>(stream)];
  }
  void Dial();
  void DialLater(std::optional<Code> code);
  void OnState(Connection& connection, RpcChannelState state, const Status& why);
  void OnReady();
  void OnGone(Connection& connection, const Status& why);
  void OpenWhenDue(Stream stream);
  void Open(Stream stream);
  void OnMessage(const RpcMessage& message) const;
  void OnEnd(const Connection& connection, Stream stream, const RpcEnd& end);
  void LogEnd(Stream stream, const RpcEnd& end);
  void LogGone(const Error& why);
  void Stopped();

  Deps deps_;
  RpcAddress server_;
  Owner owner_;
  std::uint64_t certificate_ = 1;          // Counts renewals.
  std::unique_ptr<Connection> active_;     // Up, with the streams.
  std::unique_ptr<Connection> candidate_;  // On its way.
  std::unique_ptr<Connection> retired_;    // The one before, for a moment.
  Backoff backoff_;
  Pending dial_timer_;
  Pending retire_timer_;
  std::array<StreamState, kStreams> streams_;
  Instant quiet_until_;
  std::string problem_ = "not connected yet";
  bool stopping_ = false;
  Pending stop_timer_;
  Task stopped_;
};

}  // namespace nstance::agent
