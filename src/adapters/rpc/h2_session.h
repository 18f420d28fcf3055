// H2Session: one HTTP/2 connection over memory buffers, server or client, on nghttp2.
//
// It owns no socket and reads no clock: bytes and the time come in with Receive(), bytes go out
// with Collect(). nghttp2 does framing, HPACK, flow control and the states of streams; this class
// adds the limits that it lacks, each of which ends the connection with GOAWAY and a reason:
//   - frames and header lists above 16 KiB, the latter counted while they are decoded; more than 8
//     CONTINUATIONs
//   - the rates of h2_limits.h; PINGs that come too often (`too_many_pings`, as gRPC has it)
//   - (server) more than 1,000 frames that wait because the other side does not read
//   - a request on a stream id below an earlier one that was never used, and a WINDOW_UPDATE of 0
//     on any stream (nghttp2 would ignore them on closed ones)
// After such an end input is dropped; Collect() still gives what is to be written, then closing()
// tells the owner to close.
//
// Flow control: the connection's credit is returned as bytes arrive, a stream's only by Consume().
//
// Events come from inside Receive(), Collect() (OnEndSent, ReadBody, OnClosed) and Reset(). The
// handler may call every verb from them, but Receive() and Collect().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/rpc/h2_limits.h"
#include "base/input_probe.h"
#include "base/result.h"
#include "base/text.h"
#include "base/time.h"

struct nghttp2_session;

namespace nstance::grpc {

using StreamId = std::int32_t;

// The codes of RFC 9113 section 7 that are spoken of here.
enum class H2Code : std::uint32_t {
  kNoError = 0,
  kProtocolError = 1,
  kInternalError = 2,
  kFlowControlError = 3,
  kStreamClosed = 5,
  kFrameSizeError = 6,
  kRefusedStream = 7,
  kCancel = 8,
  kCompressionError = 9,
  kEnhanceYourCalm = 11,
  kInadequateSecurity = 12,
};

// Names and values live as long as the call that they are passed to.
struct H2Header {
  std::string_view name;
  std::string_view value;
};

enum class StreamEnd : std::uint8_t { kNo, kYes };

struct H2Block {
  std::span<const H2Header> headers;
  // The first block of a stream (request or response); else trailers. Informational responses
  // (1xx) are not passed on.
  bool first = false;
};

struct H2Goaway {
  StreamId last_stream = 0;
  H2Code code = H2Code::kNoError;
  std::string debug;
};

class H2Handler {
 public:
  H2Handler() = default;
  H2Handler(const H2Handler&) = delete;
  H2Handler& operator=(const H2Handler&) = delete;
  virtual ~H2Handler() = default;

  virtual void OnHeaders(StreamId stream, const H2Block& block) = 0;
  virtual void OnData(StreamId stream, std::span<const std::uint8_t> bytes) = 0;
  // The other side has ended its half.
  virtual void OnEnd(StreamId stream) = 0;
  // Headers of a stream of ours have been written.
  virtual void OnHeadersSent(StreamId stream) = 0;
  // The frame that ends our half has been written.
  virtual void OnEndSent(StreamId stream) = 0;
  // The last event of a stream. kNoError: both halves have ended.
  virtual void OnClosed(StreamId stream, H2Code code) = 0;
  virtual void OnGoaway(const H2Goaway& goaway) = 0;

  enum class Body : std::uint8_t {
    kMore,      // Ask again as soon as there is room; at least one byte was given.
    kWait,      // Nothing now; Wake() when there is.
    kEnd,       // With these bytes the stream ends.
    kTrailers,  // With these bytes the body ends; SubmitTrailers() has been called.
  };
  struct BodyPart {
    std::size_t size = 0;
    Body then = Body::kWait;
  };
  virtual BodyPart ReadBody(StreamId stream, std::span<std::uint8_t> room) = 0;
};

enum class H2Side : std::uint8_t { kServer, kClient };

class H2Session final {
 public:
  // `handler` outlives the session.
  H2Session(H2Side side, const SessionLimits& limits, H2Handler& handler, InputSource source);
  H2Session(const H2Session&) = delete;
  H2Session& operator=(const H2Session&) = delete;
  ~H2Session();

  // The bytes received. An error ends the connection; what Collect() gives then is the last.
  [[nodiscard]] Status Receive(std::span<const std::uint8_t> bytes, Instant now);
  // Appends frames to `out` until nothing is left or `out` holds `limit` bytes or a little more.
  void Collect(Bytes& out, std::size_t limit, Instant now);
  [[nodiscard]] bool WantsToWrite() const;

  // Server: the answer to a request. With a body, ReadBody() is asked for it.
  void SubmitResponse(StreamId stream, std::span<const H2Header> headers, StreamEnd end);
  // Ends a response whose head was submitted; they need no window. REQUIRES: ReadBody() has given
  // all bytes of the body, or is about to return the last ones with kTrailers.
  void SubmitTrailers(StreamId stream, std::span<const H2Header> headers);
  // Client: a new stream, whose body ReadBody() is asked for. It may wait for the server's limit of
  // streams. 0 when there can be no more streams on this connection.
  [[nodiscard]] StreamId SubmitRequest(std::span<const H2Header> headers);
  void Wake(StreamId stream);
  void Reset(StreamId stream, H2Code code);
  void Consume(StreamId stream, std::size_t bytes);
  void Ping();

  // No new streams from now on; those open go on. Server only.
  void Drain();
  // GOAWAY with a code and text; the connection ends once it is written.
  void End(H2Code code, std::string_view reason);
  // Counts an event that is not a frame.
  void CountRate(Rate rate, std::uint32_t n, Instant now);

  // The connection is to be closed as soon as Collect() has nothing left.
  [[nodiscard]] bool closing() const { return closing_; }
  // Why; for the log.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] bool settings_received() const { return settings_received_; }

 private:
  friend struct H2Callbacks;
  struct PendingHeader {
    std::string name;
    std::string value;
  };

  struct FrameHead {
    std::size_t length = 0;
    std::uint8_t type = 0;
    std::uint8_t flags = 0;
    StreamId stream = 0;
    std::uint32_t increment = 1;  // Of a WINDOW_UPDATE.
  };

  [[nodiscard]] std::size_t HeadSize() const;
  // Looks at the head of every frame in front of nghttp2, which does not tell of those that it
  // ignores. False when the connection ended by it.
  [[nodiscard]] bool Scan(std::span<const std::uint8_t> bytes);
  [[nodiscard]] bool JudgeFrame(const FrameHead& head);
  [[nodiscard]] bool CountFrame(const FrameHead& head);
  [[nodiscard]] bool CountPing();
  [[nodiscard]] bool CheckStreamOrder(StreamId stream);
  [[nodiscard]] bool AddHeader(std::string_view name, std::string_view value);
  void EndOfHeaders(StreamId stream, bool first);
  void CheckQueue();
  void TakeOwnGoaway(std::uint32_t code, std::string_view debug);
  void Exceeded(std::string_view limit, H2Code code, std::string_view reason);
  void SubmitSettings(const SessionLimits& limits);

  H2Side side_;
  H2Handler& handler_;
  InputSource source_;
  nghttp2_session* native_ = nullptr;
  Instant now_;
  RateCounters rates_;
  Instant last_ping_ = Instant::FromClock(Duration::Min());
  int ping_strikes_ = 0;
  bool ping_free_ = true;  // HEADERS or DATA went out since the last PING.
  int pings_out_ = 0;
  bool settings_received_ = false;
  bool closing_ = false;
  std::string reason_;

  // Of the scan: the head under way (of a WINDOW_UPDATE with its increment), and what is skipped
  // before the next one.
  std::array<std::uint8_t, 13> head_{};
  std::size_t head_bytes_ = 0;
  std::size_t skip_ = 0;

  // Of the header block under way. The strings keep their room from block to block.
  std::vector<PendingHeader> block_;
  std::size_t block_headers_ = 0;
  std::size_t block_bytes_ = 0;
  // Ids that the client skipped when it opened a stream with a higher one: first and last.
  StreamId highest_ = 0;
  std::vector<std::pair<StreamId, StreamId>> skipped_;
};

}  // namespace nstance::grpc
