// ServerSession: the calls of one connection, server side, over memory buffers.
//
// It stands on H2Session and owns no socket, clock or thread. Above it is a ServerCallHandler that
// judges each call at its headers and gets its events; the verbs below are what a handler does.
// Calls are named by their stream id; verbs for a call that is gone do nothing.
//
// Guarantees, each held by a test:
//   - requests that are no gRPC get HTTP 405 or 415 with a short text; their client may finish what
//     it sends, for kAnswerLinger, before the stream is reset
//   - OnMessage() and OnHalfClose() come in the order sent; after OnCancelled() or Finish() nothing
//     comes for that call but OnGone()
//   - a method with a single request that gets none or two ends with UNIMPLEMENTED
//   - a call that ends before the client has half-closed is reset with NO_ERROR, after its trailers
//     were written
//   - the end of a call needs no window: a client that gives none is told all the same
//   - stream credit is withheld while a call pauses or the connection is held up; bytes of
//     unfinished messages are bounded over all streams together
//
// Time: every call that may need it takes `now`; OnTime() must be called at NextDue().
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
#include <vector>

#include "adapters/rpc/call_queues.h"
#include "adapters/rpc/grpc_metadata.h"
#include "adapters/rpc/h2_session.h"
#include "adapters/rpc/header_list.h"
#include "base/result.h"
#include "base/time.h"
#include "core/rpc_policy.h"

namespace nstance::grpc {

inline constexpr Duration kAnswerLinger = Duration::Seconds(1);

struct RequestHead {
  std::string path;
  Metadata metadata;
  std::optional<Duration> timeout;
};

struct ServerCallRules {
  RpcKind kind = RpcKind::kUnary;
  Instant deadline = Instant::Never();
};

class ServerCallHandler {
 public:
  ServerCallHandler() = default;
  ServerCallHandler(const ServerCallHandler&) = delete;
  ServerCallHandler& operator=(const ServerCallHandler&) = delete;
  virtual ~ServerCallHandler() = default;

  // At the request's headers. An error is the answer, and no other event comes.
  [[nodiscard]] virtual Result<ServerCallRules> OnCall(StreamId call, RequestHead head) = 0;
  // An error ends the call with it, and OnCancelled() says so. The handler counts it.
  [[nodiscard]] virtual Status OnMessage(StreamId call, std::span<const std::uint8_t> message) = 0;
  virtual void OnHalfClose(StreamId call) = 0;
  virtual void OnCancelled(StreamId call, const Error& why) = 0;
  // So many more bytes have left the send queue (messages and their prefixes).
  virtual void OnWritten(StreamId call, std::size_t bytes) = 0;
  virtual void OnDrained(StreamId call) = 0;
  // The last event of every call that OnCall() let in.
  virtual void OnGone(StreamId call) = 0;
};

class ServerSession final : private H2Handler {
 public:
  // `handler` outlives the session.
  ServerSession(const SessionLimits& limits, ServerCallHandler& handler, InputSource source);
  ~ServerSession() override;

  [[nodiscard]] Status Receive(std::span<const std::uint8_t> bytes, Instant now);
  void Collect(Bytes& out, std::size_t limit, Instant now);

  // Entries of metadata that HTTP/2 cannot carry are left out and counted as bad input.
  void SetMetadata(StreamId call, Metadata metadata);
  // kFull: the sender stops now and wants OnDrained().
  enum class Queue : std::uint8_t { kBelow, kFull };
  void Send(StreamId call, RpcMessage::Encoded message, Queue queue, Instant now);
  void Finish(StreamId call, const Status& status, const Metadata& trailing);
  // Nobody takes the call: it is reset as refused, which says that nothing was done.
  void Refuse(StreamId call);
  // Ends the call with a status although its handler has not finished; queued messages are dropped
  // and OnCancelled() comes.
  void Abort(StreamId call, const Error& why);
  void AbortAll(const Error& why);
  void Pause(StreamId call);
  void Resume(StreamId call, Instant now);
  // No message is decoded until GoOn(), for any call: the handler has enough of them.
  void HoldUp() { held_up_ = true; }
  void GoOn(Instant now);

  // The connection is gone: every call that has not ended is cancelled.
  void Lost(const Error& why);

  [[nodiscard]] Instant NextDue() const;
  void OnTime(Instant now);
  [[nodiscard]] std::size_t calls() const { return streams_.size(); }
  [[nodiscard]] H2Session& h2() { return h2_; }

 private:
  struct Stream {
    Stream(const ServerCallRules& rules, const FrameRules& frame, const bool* held_up)
        : kind(rules.kind), deadline(rules.deadline), inbox(frame, held_up) {}
    // Something waits for the client to read.
    [[nodiscard]] bool Waits() const { return !queue.empty() || !body.empty(); }
    RpcKind kind;
    Instant deadline;
    Inbox inbox;
    SendQueue queue;
    Metadata metadata;                     // Of the response, until it has begun.
    std::unique_ptr<HeaderList> trailers;  // Once finished.
    Instant progress;                      // Of the send queue.
    std::size_t messages = 0;
    std::size_t unfinished = 0;  // As counted in the session's sum.
    bool let_in = false;         // The handler knows it.
    bool told = true;            // The handler still gets events.
    bool response_begun = false;
    bool peer_ended = false;
    bool half_close_told = false;
    bool owes_drained = false;
    bool end_sent = false;
    bool counted = false;  // What is wrong with its input, by the handler.
    std::string body;      // Of an answer that is no gRPC.
    bool plain = false;    // The answer is no gRPC.
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
  Stream& Add(StreamId stream, const ServerCallRules& rules, Encoding encoding);
  void AnswerHttp(StreamId stream, std::string_view status, std::string_view text);
  void Open(StreamId id, RequestHead head, Encoding encoding);
  void AfterInput(StreamId id, Stream& stream, Result<std::size_t> credit);
  void TellHalfClose(StreamId id, Stream& stream);
  [[nodiscard]] Status Deliver(StreamId id, Stream& stream, std::span<const std::uint8_t> message);
  void CountUnfinished(Stream& stream, std::size_t bytes);
  // Ends the call with a status; the handler hears of it unless it said so itself.
  enum class Tell : std::uint8_t { kNo, kYes };
  void EndCall(StreamId id, Stream& stream, const Error& why, Tell tell);
  void WriteEnd(StreamId id, Stream& stream, const Status& status, const Metadata& trailing);
  void SubmitHead(StreamId id, Stream& stream);
  void BeginWaiting(Stream& stream);
  void DropQueue(Stream& stream);
  void Progress(StreamId id, Stream& stream, std::size_t bytes);
  void ForgetDeadline(StreamId id, Stream& stream);
  void CheckStalls();

  SessionLimits limits_;
  ServerCallHandler& handler_;
  InputSource source_;
  Streams streams_;
  std::set<std::pair<Instant, StreamId>> deadlines_;
  std::size_t queued_streams_ = 0;  // Those that wait.
  Instant stall_check_ = Instant::Never();
  std::size_t unfinished_ = 0;
  bool held_up_ = false;
  StreamId last_continued_ = 0;  // By GoOn().
  Instant now_;
  H2Session h2_;  // Last: it calls back while it is destroyed.
};

}  // namespace nstance::grpc
