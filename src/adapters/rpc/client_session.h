// ClientSession: the calls of one connection, client side, over memory buffers.
//
// The mirror image of ServerSession: it owns no socket, clock or thread. Calls are named by their
// stream id; verbs for a call that has ended do nothing.
//
// Guarantees, each held by a test:
//   - OnEnd() is the last event of every call and comes exactly once, unless the call is cancelled
//   - messages come in the order sent and before the server's own end, which waits for the messages
//     in front of it and while the call pauses; any other end overtakes them
//   - a method with a single response that gets none together with OK, or two, ends with
//     UNIMPLEMENTED
//   - the outcome is kNotDone when the request cannot have been heard, or when the status says that
//     nothing was done
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "adapters/rpc/call_queues.h"
#include "adapters/rpc/grpc_metadata.h"
#include "adapters/rpc/h2_session.h"
#include "base/result.h"
#include "base/time.h"
#include "core/rpc_policy.h"

namespace nstance::grpc {

struct CallStart {
  std::string_view path;
  std::string_view authority;
  RpcKind kind = RpcKind::kUnary;
  std::optional<Duration> timeout;
  const Metadata& metadata;
};

class ClientCallHandler {
 public:
  ClientCallHandler() = default;
  ClientCallHandler(const ClientCallHandler&) = delete;
  ClientCallHandler& operator=(const ClientCallHandler&) = delete;
  virtual ~ClientCallHandler() = default;

  virtual void OnMetadata(StreamId call, Metadata metadata) = 0;
  // An error ends the call with it.
  [[nodiscard]] virtual Status OnMessage(StreamId call, std::span<const std::uint8_t> message) = 0;
  virtual void OnDrained(StreamId call) = 0;
  virtual void OnEnd(StreamId call, const Status& status, Metadata trailing) = 0;
  // The server will take no more calls on this connection.
  virtual void OnGoaway(const H2Goaway& goaway) = 0;
};

class ClientSession final : private H2Handler {
 public:
  // `handler` outlives the session.
  ClientSession(const SessionLimits& limits, ClientCallHandler& handler, InputSource source);
  ~ClientSession() override;

  [[nodiscard]] Status Receive(std::span<const std::uint8_t> bytes, Instant now);
  void Collect(Bytes& out, std::size_t limit, Instant now);

  // 0 when the connection takes no more calls: nothing was sent and no event comes.
  [[nodiscard]] StreamId Start(const CallStart& start, Instant now);
  enum class Taken : std::uint8_t { kBelow, kNowFull, kRefused };
  Taken Send(StreamId call, RpcMessage::Encoded message, Instant now);
  void HalfClose(StreamId call);
  // No event comes any more.
  void Cancel(StreamId call);
  void Pause(StreamId call);
  void Resume(StreamId call, Instant now);

  // The connection is gone: every call ends with `why`, kMaybeDone where its request may have been
  // heard.
  enum class Heard : std::uint8_t { kMaybe, kSurelyNot };
  void Lost(const Error& why, Heard heard);

  [[nodiscard]] Instant NextDue() const;
  void OnTime(Instant now);
  [[nodiscard]] std::size_t calls() const { return streams_.size(); }
  [[nodiscard]] H2Session& h2() { return h2_; }

 private:
  struct End {
    Status status;
    Metadata trailing;
  };
  struct Stream {
    Stream(RpcKind kind_of_call, std::size_t max_message)
        : kind(kind_of_call), inbox({.max_message = max_message}) {}
    RpcKind kind;
    Instant deadline = Instant::Never();
    Inbox inbox;
    SendQueue queue;
    std::optional<Error> http_error;  // The answer is no gRPC.
    std::unique_ptr<End> end;         // Known, but messages are in front of it.
    Instant progress;
    std::size_t messages = 0;
    std::size_t unfinished = 0;
    bool told = true;  // The handler still gets events.
    bool request_sent = false;
    bool response_begun = false;
    bool half_closed = false;
    bool owes_drained = false;
    bool closed = false;  // HTTP/2 is done with it; it waits for its reader.
  };
  using Streams = std::unordered_map<StreamId, std::unique_ptr<Stream>>;

  void OnHeaders(StreamId stream, const H2Block& block) override;
  void OnData(StreamId stream, std::span<const std::uint8_t> bytes) override;
  void OnEnd(StreamId stream) override;
  void OnHeadersSent(StreamId stream) override;
  void OnEndSent(StreamId stream) override;
  void OnClosed(StreamId stream, H2Code code) override;
  void OnGoaway(const H2Goaway& goaway) override;
  BodyPart ReadBody(StreamId stream, std::span<std::uint8_t> room) override;

  [[nodiscard]] Stream* Find(StreamId stream);
  void ReadResponseHead(StreamId id, Stream& stream, std::span<const H2Header> headers);
  void ReadTrailers(StreamId id, Stream& stream, std::span<const H2Header> headers);
  [[nodiscard]] Status Deliver(StreamId id, Stream& stream, std::span<const std::uint8_t> message);
  void AfterInput(StreamId id, Stream& stream, Result<std::size_t> credit);
  void TellEnd(StreamId id, Stream& stream);
  // Ends the call from our side: reset, and tell.
  void Break(StreamId id, Stream& stream, Error why);
  void CountUnfinished(Stream& stream, std::size_t bytes);
  void ForgetDeadline(StreamId id, Stream& stream);
  void Quiet(StreamId id, Stream& stream);
  void EraseIfClosed(StreamId id);
  void CheckStalls();
  [[nodiscard]] static Outcome OutcomeFor(const Stream& stream);
  [[nodiscard]] static bool Withholds(const Stream& stream);

  SessionLimits limits_;
  ClientCallHandler& handler_;
  InputSource source_;
  Streams streams_;
  std::set<std::pair<Instant, StreamId>> deadlines_;
  std::size_t queued_streams_ = 0;
  Instant stall_check_ = Instant::Never();
  std::size_t unfinished_ = 0;
  bool told_to_go_ = false;
  Instant now_;
  H2Session h2_;  // Last: it calls back while it is destroyed.
};

}  // namespace nstance::grpc
