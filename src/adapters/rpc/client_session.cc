#include "adapters/rpc/client_session.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "adapters/rpc/grpc_status.h"
#include "adapters/rpc/header_list.h"
#include "base/check.h"

namespace nstance::grpc {
namespace {

constexpr std::string_view kUserAgent = "nstance-cpp";

std::string_view FindHeader(std::span<const H2Header> headers, std::string_view name) {
  const auto at = std::ranges::find(headers, name, &H2Header::name);
  return at == headers.end() ? std::string_view() : at->value;
}

bool HasHeader(std::span<const H2Header> headers, std::string_view name) {
  return std::ranges::find(headers, name, &H2Header::name) != headers.end();
}

// What a server says about itself is kept as far as it can be read.
Metadata ReadMetadata(std::span<const H2Header> headers) {
  Metadata metadata;
  for (const H2Header& header : headers) {
    static_cast<void>(AppendReceived(metadata, header.name, header.value));
  }
  return metadata;
}

}  // namespace

ClientSession::ClientSession(const SessionLimits& limits, ClientCallHandler& handler,
                             InputSource source)
    : limits_(limits),
      handler_(handler),
      source_(source),
      h2_(H2Side::kClient, limits, *this, source) {}

ClientSession::~ClientSession() = default;

Status ClientSession::Receive(std::span<const std::uint8_t> bytes, Instant now) {
  now_ = now;
  return h2_.Receive(bytes, now);
}

void ClientSession::Collect(Bytes& out, std::size_t limit, Instant now) {
  now_ = now;
  h2_.Collect(out, limit, now);
}

ClientSession::Stream* ClientSession::Find(StreamId stream) {
  const auto at = streams_.find(stream);
  return at == streams_.end() ? nullptr : at->second.get();
}

Outcome ClientSession::OutcomeFor(const Stream& stream) {
  return stream.request_sent ? Outcome::kMaybeDone : Outcome::kNotDone;
}

// --- What the caller does -----------------------------------------------------------------------

StreamId ClientSession::Start(const CallStart& start, Instant now) {
  now_ = now;
  if (h2_.closing() || told_to_go_ || streams_.size() >= kMaxClientCalls) return 0;
  HeaderList list = {{":method", "POST"},
                     {":scheme", "https"},
                     {":path", std::string(start.path)},
                     {":authority", std::string(start.authority)},
                     {"te", "trailers"},
                     {"content-type", "application/grpc"},
                     {"user-agent", std::string(kUserAgent)}};
  if (start.timeout) list.emplace_back("grpc-timeout", FormatTimeout(*start.timeout));
  AppendMetadata(list, start.metadata, source_);
  const StreamId id = h2_.SubmitRequest(ToHeaders(list));
  if (id == 0) return 0;
  auto stream = std::make_unique<Stream>(start.kind, limits_.max_message);
  if (start.timeout) {
    stream->deadline = now + *start.timeout;
    deadlines_.emplace(stream->deadline, id);
  }
  streams_.emplace(id, std::move(stream));
  return id;
}

ClientSession::Taken ClientSession::Send(StreamId call, RpcMessage::Encoded message, Instant now) {
  Stream* stream = Find(call);
  if (stream == nullptr || !stream->told || stream->half_closed || stream->owes_drained) {
    return Taken::kRefused;
  }
  if (stream->queue.empty()) {
    stream->progress = now;
    if (queued_streams_++ == 0) stall_check_ = now + kSendStall;
  }
  stream->queue.Push(std::move(message));
  h2_.Wake(call);
  if (stream->queue.bytes() < limits_.queue_full) return Taken::kBelow;
  stream->owes_drained = true;
  return Taken::kNowFull;
}

void ClientSession::HalfClose(StreamId call) {
  Stream* stream = Find(call);
  if (stream == nullptr || stream->half_closed) return;
  stream->half_closed = true;
  h2_.Wake(call);
}

// Nothing is told from here on; the stream itself goes when HTTP/2 has closed it.
void ClientSession::Quiet(StreamId id, Stream& stream) {
  stream.told = false;
  ForgetDeadline(id, stream);
  CountUnfinished(stream, 0);
}

void ClientSession::Cancel(StreamId call) {
  Stream* stream = Find(call);
  if (stream == nullptr || !stream->told) return;
  Quiet(call, *stream);
  h2_.Reset(call, H2Code::kCancel);
  EraseIfClosed(call);
}

void ClientSession::EraseIfClosed(StreamId id) {
  const auto at = streams_.find(id);
  if (at != streams_.end() && at->second->closed && !at->second->told) streams_.erase(at);
}

void ClientSession::Pause(StreamId call) {
  if (Stream* stream = Find(call); stream != nullptr) stream->inbox.Pause();
}

void ClientSession::Resume(StreamId call, Instant now) {
  Stream* stream = Find(call);
  if (stream == nullptr || !stream->told || !stream->inbox.paused()) return;
  now_ = now;
  Result<std::size_t> credit = stream->inbox.Resume(
      [&](std::span<const std::uint8_t> message) { return Deliver(call, *stream, message); });
  AfterInput(call, *stream, std::move(credit));
  EraseIfClosed(call);
}

H2Handler::BodyPart ClientSession::ReadBody(StreamId id, std::span<std::uint8_t> room) {
  Stream* stream = Find(id);
  if (stream == nullptr) return {.size = 0, .then = Body::kEnd};
  const std::size_t size = stream->queue.Read(room);
  if (size > 0) {
    stream->progress = now_;
    if (stream->queue.empty()) --queued_streams_;
    if (stream->owes_drained && stream->told && stream->queue.bytes() <= limits_.queue_drained) {
      stream->owes_drained = false;
      handler_.OnDrained(id);
    }
  }
  if (!stream->queue.empty()) return {.size = size, .then = Body::kMore};
  return {.size = size, .then = stream->half_closed ? Body::kEnd : Body::kWait};
}

// --- What the server does -----------------------------------------------------------------------

void ClientSession::OnHeaders(StreamId id, const H2Block& block) {
  Stream* stream = Find(id);
  if (stream == nullptr || !stream->told) return;
  if (!stream->response_begun) {
    stream->response_begun = true;
    ReadResponseHead(id, *stream, block.headers);
  } else {
    ReadTrailers(id, *stream, block.headers);
  }
}

void ClientSession::ReadResponseHead(StreamId id, Stream& stream,
                                     std::span<const H2Header> headers) {
  const std::string_view status = FindHeader(headers, ":status");
  if (HasHeader(headers, "grpc-status")) return ReadTrailers(id, stream, headers);
  if (status != "200" || !IsGrpcContentType(FindHeader(headers, "content-type"))) {
    stream.http_error = FromHttpStatus(status);
    return;
  }
  handler_.OnMetadata(id, ReadMetadata(headers));
}

void ClientSession::ReadTrailers(StreamId /*id*/, Stream& stream,
                                 std::span<const H2Header> headers) {
  if (stream.end != nullptr) return;
  stream.end = std::make_unique<End>();
  stream.end->trailing = ReadMetadata(headers);
  if (HasHeader(headers, "grpc-status")) {
    stream.end->status =
        StatusFromTrailers(FindHeader(headers, "grpc-status"), FindHeader(headers, "grpc-message"));
  } else {
    stream.end->status =
        Fail(stream.http_error.value_or(Error{.code = Code::kUnknown,
                                              .outcome = Outcome::kMaybeDone,
                                              .message = "trailers without grpc-status"}));
  }
}

Status ClientSession::Deliver(StreamId id, Stream& stream, std::span<const std::uint8_t> message) {
  if (!stream.told) return {};
  if (++stream.messages > 1 && HasSingleResponse(stream.kind)) {
    return Fail({.code = Code::kUnimplemented,
                 .outcome = Outcome::kMaybeDone,
                 .message = "more than one message in a call with a single response"});
  }
  return handler_.OnMessage(id, message);
}

void ClientSession::OnData(StreamId id, std::span<const std::uint8_t> bytes) {
  Stream* stream = Find(id);
  if (stream == nullptr || !stream->told) return;
  if (stream->http_error) return h2_.Consume(id, bytes.size());  // A page for people.
  Result<std::size_t> credit = stream->inbox.Feed(
      bytes, [&](std::span<const std::uint8_t> message) { return Deliver(id, *stream, message); });
  AfterInput(id, *stream, std::move(credit));
}

void ClientSession::CountUnfinished(Stream& stream, std::size_t bytes) {
  unfinished_ += bytes - stream.unfinished;
  stream.unfinished = bytes;
}

void ClientSession::AfterInput(StreamId id, Stream& stream, Result<std::size_t> credit) {
  if (!stream.told) return;
  if (!credit.has_value()) {
    Error error = std::move(credit).error();
    error.outcome = Outcome::kMaybeDone;
    return Break(id, stream, std::move(error));
  }
  CountUnfinished(stream, stream.inbox.unfinished());
  if (unfinished_ > limits_.max_unfinished) {
    source_.Limit("grpc_unfinished");
    return Break(id, stream,
                 ResourceExhausted("more bytes of unfinished messages than allowed").MaybeDone());
  }
  h2_.Consume(id, *credit);
  TellEnd(id, stream);
}

void ClientSession::OnEnd(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr || !stream->told) return;
  if (stream->end == nullptr) {
    stream->end = std::make_unique<End>();
    stream->end->status =
        Fail(stream->http_error.value_or(Error{.code = Code::kInternal,
                                               .outcome = Outcome::kMaybeDone,
                                               .message = "the server ended without a status"}));
  }
  // Our half may still be open; the server will read no more of it.
  if (!stream->half_closed || !stream->queue.empty()) h2_.Reset(id, H2Code::kNoError);
  TellEnd(id, *stream);
}

// The server's own end waits behind its messages, and while the reader pauses.
bool ClientSession::Withholds(const Stream& stream) {
  return stream.inbox.paused() || !stream.inbox.empty();
}

// Tells the end once nothing is in front of it.
void ClientSession::TellEnd(StreamId id, Stream& stream) {
  if (stream.end == nullptr || !stream.told || Withholds(stream)) return;
  const std::unique_ptr<End> end = std::move(stream.end);
  if (end->status.has_value() && !stream.inbox.AtBoundary()) {
    end->status = Fail(Error{.code = Code::kInternal,
                             .outcome = Outcome::kMaybeDone,
                             .message = "the server ended inside a message"});
  } else if (end->status.has_value() && HasSingleResponse(stream.kind) && stream.messages == 0) {
    end->status = Fail(Error{.code = Code::kUnimplemented,
                             .outcome = Outcome::kMaybeDone,
                             .message = "OK without a message in a call with a single response"});
  }
  Quiet(id, stream);
  handler_.OnEnd(id, end->status, std::move(end->trailing));
}

void ClientSession::Break(StreamId id, Stream& stream, Error why) {
  if (!stream.told) return;
  Quiet(id, stream);
  h2_.Reset(id, H2Code::kCancel);
  handler_.OnEnd(id, Fail(std::move(why)), {});
}

void ClientSession::OnHeadersSent(StreamId stream) {
  if (Stream* found = Find(stream); found != nullptr) found->request_sent = true;
}

void ClientSession::OnEndSent(StreamId /*stream*/) {}

void ClientSession::OnClosed(StreamId id, H2Code code) {
  const auto at = streams_.find(id);
  if (at == streams_.end()) return;
  Stream& stream = *at->second;
  if (!stream.queue.empty()) {
    --queued_streams_;
    stream.queue.Clear();
  }
  // An end that waits for a paused reader outlives its stream.
  if (stream.told && stream.end != nullptr && Withholds(stream)) {
    stream.closed = true;
    return;
  }
  const std::unique_ptr<Stream> gone = std::move(at->second);
  streams_.erase(at);
  ForgetDeadline(id, *gone);
  CountUnfinished(*gone, 0);
  if (!gone->told) return;
  gone->told = false;
  if (gone->end != nullptr) {
    handler_.OnEnd(id, gone->end->status, std::move(gone->end->trailing));
    return;
  }
  Error error = FromReset(code);
  if (!gone->request_sent) error.outcome = Outcome::kNotDone;
  handler_.OnEnd(id, Fail(std::move(error)), {});
}

void ClientSession::OnGoaway(const H2Goaway& goaway) {
  told_to_go_ = true;
  handler_.OnGoaway(goaway);
}

void ClientSession::Lost(const Error& why, Heard heard) {
  Streams lost = std::exchange(streams_, {});
  deadlines_.clear();
  queued_streams_ = 0;
  unfinished_ = 0;
  // An end that the server gave is known, however the connection went: it waits for its reader.
  for (auto& [id, stream] : lost) {
    if (!stream->told || stream->end == nullptr) continue;
    stream->closed = true;
    stream->deadline = Instant::Never();
    stream->unfinished = 0;
    streams_.emplace(id, std::move(stream));
  }
  std::erase_if(lost, [](const auto& entry) { return entry.second == nullptr; });
  std::vector<StreamId> open;
  for (const auto& [id, stream] : lost) {
    if (stream->told) open.push_back(id);
  }
  std::ranges::sort(open);
  for (const StreamId id : open) {
    Stream& stream = *lost.at(id);
    if (!stream.told) continue;  // Cancelled by another's end.
    stream.told = false;
    Error error = why;
    error.outcome = heard == Heard::kSurelyNot ? Outcome::kNotDone : OutcomeFor(stream);
    handler_.OnEnd(id, Fail(std::move(error)), {});
  }
}

// --- Time ---------------------------------------------------------------------------------------

void ClientSession::ForgetDeadline(StreamId id, Stream& stream) {
  if (stream.deadline == Instant::Never()) return;
  deadlines_.erase({stream.deadline, id});
  stream.deadline = Instant::Never();
}

Instant ClientSession::NextDue() const {
  const Instant deadline = deadlines_.empty() ? Instant::Never() : deadlines_.begin()->first;
  return queued_streams_ == 0 ? deadline : std::min(deadline, stall_check_);
}

void ClientSession::OnTime(Instant now) {
  now_ = now;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const StreamId id = deadlines_.begin()->second;
    Stream* stream = Find(id);
    CHECK(stream != nullptr, "stream {}", id);
    Error late = DeadlineExceeded("the call took longer than its deadline");
    late.outcome = OutcomeFor(*stream);
    Break(id, *stream, std::move(late));
    EraseIfClosed(id);
  }
  if (queued_streams_ > 0 && stall_check_ <= now) CheckStalls();
}

void ClientSession::CheckStalls() {
  Instant next = now_ + kSendStall;
  std::vector<StreamId> stalled;
  for (const auto& [id, stream] : streams_) {
    if (stream->queue.empty() || !stream->told) continue;
    if (now_ - stream->progress >= kSendStall) {
      stalled.push_back(id);
    } else {
      next = std::min(next, stream->progress + kSendStall);
    }
  }
  stall_check_ = next;
  for (const StreamId id : stalled) {
    source_.Limit("grpc_send_stall");
    Stream* stream = Find(id);
    if (stream == nullptr) continue;
    Error error = Unavailable("the server took nothing for too long");
    error.outcome = OutcomeFor(*stream);
    Break(id, *stream, std::move(error));
  }
}

}  // namespace nstance::grpc
