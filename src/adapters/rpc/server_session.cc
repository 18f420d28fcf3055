#include "adapters/rpc/server_session.h"

#include <algorithm>

#include <fmt/format.h>

#include "adapters/rpc/grpc_status.h"
#include "adapters/rpc/header_list.h"
#include "base/check.h"

namespace nstance::grpc {
namespace {

constexpr std::string_view kContentType = "application/grpc";

// What counts in a request's first header block. Views into the block.
struct RawHead {
  std::string_view method, scheme, path, content_type, timeout;
  bool has_timeout = false;
  Encoding encoding = Encoding::kIdentity;
};

RawHead ReadHead(std::span<const H2Header> headers) {
  RawHead head;
  for (const H2Header& header : headers) {
    if (header.name == ":method") head.method = header.value;
    if (header.name == ":scheme") head.scheme = header.value;
    if (header.name == ":path") head.path = header.value;
    if (header.name == "content-type") head.content_type = header.value;
    if (header.name == "grpc-timeout") {
      head.timeout = header.value;
      head.has_timeout = true;
    }
    if (header.name == "grpc-encoding" && header.value != "identity") {
      head.encoding = Encoding::kOther;
    }
  }
  return head;
}

Result<RequestHead> ToRequest(const RawHead& raw, std::span<const H2Header> headers) {
  RequestHead head{.path = std::string(raw.path), .metadata = {}, .timeout = std::nullopt};
  if (raw.has_timeout) {
    ASSIGN_OR_RETURN(head.timeout, ParseTimeout(raw.timeout));
    if (*head.timeout <= Duration()) {
      return Fail(DeadlineExceeded("the deadline had passed when the call arrived"));
    }
  }
  for (const H2Header& header : headers) {
    RETURN_IF_ERROR(AppendReceived(head.metadata, header.name, header.value));
  }
  return head;
}

}  // namespace

ServerSession::ServerSession(const SessionLimits& limits, ServerCallHandler& handler,
                             InputSource source)
    : limits_(limits),
      handler_(handler),
      source_(source),
      h2_(H2Side::kServer, limits, *this, source) {}

ServerSession::~ServerSession() = default;

Status ServerSession::Receive(std::span<const std::uint8_t> bytes, Instant now) {
  now_ = now;
  return h2_.Receive(bytes, now);
}

void ServerSession::Collect(Bytes& out, std::size_t limit, Instant now) {
  now_ = now;
  h2_.Collect(out, limit, now);
}

ServerSession::Stream* ServerSession::Find(StreamId stream) {
  const auto at = streams_.find(stream);
  return at == streams_.end() ? nullptr : at->second.get();
}

ServerSession::Stream& ServerSession::Add(StreamId stream, const ServerCallRules& rules,
                                          Encoding encoding) {
  auto made = std::make_unique<Stream>(
      rules, FrameRules{.max_message = limits_.max_message, .encoding = encoding}, &held_up_);
  return *streams_.insert_or_assign(stream, std::move(made)).first->second;
}

// --- Requests -----------------------------------------------------------------------------------

void ServerSession::OnHeaders(StreamId stream, const H2Block& block) {
  if (!block.first) return;  // Trailers of a request mean nothing in gRPC.
  const RawHead raw = ReadHead(block.headers);
  if (raw.method != "POST") {
    source_.Bad("http_method");
    return AnswerHttp(stream, "405", "gRPC calls are POST requests\n");
  }
  if (!IsGrpcContentType(raw.content_type)) {
    source_.Bad("content_type");
    return AnswerHttp(stream, "415", "the content type of gRPC is application/grpc\n");
  }
  if (raw.scheme != "https") return h2_.Reset(stream, H2Code::kProtocolError);
  Result<RequestHead> head = ToRequest(raw, block.headers);
  if (!head.has_value()) {
    if (head.error().code == Code::kInvalidArgument) source_.Bad("grpc_headers");
    WriteEnd(stream, Add(stream, {}, raw.encoding), Fail(std::move(head).error()), {});
    return;
  }
  Open(stream, std::move(head).value(), raw.encoding);
}

void ServerSession::AnswerHttp(StreamId stream, std::string_view status, std::string_view text) {
  Stream& made = Add(stream, {}, Encoding::kIdentity);
  made.told = false;
  made.response_begun = true;
  BeginWaiting(made);
  made.body = text;
  made.plain = true;
  std::vector<H2Header> headers = {{.name = ":status", .value = status},
                                   {.name = "content-type", .value = "text/plain"}};
  if (status == "405") headers.push_back({.name = "allow", .value = "POST"});
  h2_.SubmitResponse(stream, headers, StreamEnd::kNo);
}

void ServerSession::Open(StreamId id, RequestHead head, Encoding encoding) {
  const Result<ServerCallRules> rules = handler_.OnCall(id, std::move(head));
  Stream& stream = Add(id, rules.value_or(ServerCallRules{}), encoding);
  if (!rules.has_value()) return WriteEnd(id, stream, Fail(rules.error()), {});
  stream.let_in = true;
  if (stream.deadline == Instant::Never()) return;
  deadlines_.emplace(stream.deadline, id);
}

void ServerSession::OnData(StreamId id, std::span<const std::uint8_t> bytes) {
  Stream* stream = Find(id);
  // What still comes for a call that has ended is dropped; its window stays shut.
  if (stream == nullptr || !stream->told) return;
  Result<std::size_t> credit = stream->inbox.Feed(
      bytes, [&](std::span<const std::uint8_t> message) { return Deliver(id, *stream, message); });
  AfterInput(id, *stream, std::move(credit));
}

Status ServerSession::Deliver(StreamId id, Stream& stream, std::span<const std::uint8_t> message) {
  if (++stream.messages > 1 && HasSingleRequest(stream.kind)) {
    return Fail({.code = Code::kUnimplemented,
                 .message = "more than one message in a call with a single request"});
  }
  if (!stream.told) return {};
  Status taken = handler_.OnMessage(id, message);
  stream.counted = !taken.has_value();
  return taken;
}

void ServerSession::CountUnfinished(Stream& stream, std::size_t bytes) {
  unfinished_ += bytes - stream.unfinished;
  stream.unfinished = bytes;
}

void ServerSession::AfterInput(StreamId id, Stream& stream, Result<std::size_t> credit) {
  if (!credit.has_value()) {
    if (!stream.told) return;  // The handler ended it meanwhile.
    const Error& error = credit.error();
    if (!stream.counted) {
      if (error.code == Code::kResourceExhausted) {
        source_.Limit("grpc_message");
      } else {
        source_.Bad("grpc_message");
      }
    }
    return EndCall(id, stream, error, Tell::kYes);
  }
  if (!stream.told) return;
  CountUnfinished(stream, stream.inbox.unfinished());
  if (unfinished_ > limits_.max_unfinished) {
    source_.Limit("grpc_unfinished");
    return EndCall(id, stream,
                   ResourceExhausted(fmt::format("more than {} bytes of unfinished messages",
                                                 limits_.max_unfinished)),
                   Tell::kYes);
  }
  h2_.Consume(id, *credit);
  TellHalfClose(id, stream);
}

void ServerSession::OnEnd(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr) return;
  stream->peer_ended = true;
  TellHalfClose(id, *stream);
}

void ServerSession::TellHalfClose(StreamId id, Stream& stream) {
  if (!stream.told || !stream.peer_ended || stream.half_close_told || stream.inbox.paused() ||
      !stream.inbox.empty()) {
    return;
  }
  if (!stream.inbox.AtBoundary()) {
    source_.Bad("grpc_message_cut");
    return EndCall(id, stream, InvalidArgument("the call ended inside a message"), Tell::kYes);
  }
  if (HasSingleRequest(stream.kind) && stream.messages == 0) {
    return EndCall(
        id, stream,
        {.code = Code::kUnimplemented, .message = "no message in a call with a single request"},
        Tell::kYes);
  }
  stream.half_close_told = true;
  handler_.OnHalfClose(id);
}

// --- Answers ------------------------------------------------------------------------------------

void ServerSession::SetMetadata(StreamId call, Metadata metadata) {
  if (Stream* stream = Find(call); stream != nullptr) stream->metadata = std::move(metadata);
}

void ServerSession::SubmitHead(StreamId id, Stream& stream) {
  stream.response_begun = true;
  HeaderList list;
  AppendMetadata(list, std::exchange(stream.metadata, {}), source_);
  std::vector<H2Header> headers = {{.name = ":status", .value = "200"},
                                   {.name = "content-type", .value = kContentType}};
  for (const H2Header& header : ToHeaders(list)) headers.push_back(header);
  h2_.SubmitResponse(id, headers, StreamEnd::kNo);
}

void ServerSession::Send(StreamId call, RpcMessage::Encoded message, Queue queue, Instant now) {
  Stream* stream = Find(call);
  if (stream == nullptr || !stream->told) return;
  now_ = now;
  BeginWaiting(*stream);
  stream->queue.Push(std::move(message));
  if (queue == Queue::kFull) stream->owes_drained = true;
  if (stream->response_begun) {
    h2_.Wake(call);
  } else {
    SubmitHead(call, *stream);
  }
}

void ServerSession::Finish(StreamId call, const Status& status, const Metadata& trailing) {
  Stream* stream = Find(call);
  if (stream == nullptr || !stream->told) return;
  WriteEnd(call, *stream, status, trailing);
}

void ServerSession::Refuse(StreamId call) {
  Stream* stream = Find(call);
  if (stream == nullptr || !stream->told) return;
  stream->told = false;
  ForgetDeadline(call, *stream);
  CountUnfinished(*stream, 0);
  h2_.Reset(call, H2Code::kRefusedStream);
}

void ServerSession::Abort(StreamId call, const Error& why) {
  Stream* stream = Find(call);
  if (stream != nullptr && stream->told) EndCall(call, *stream, why, Tell::kYes);
}

void ServerSession::AbortAll(const Error& why) {
  std::vector<StreamId> open;
  for (const auto& [id, stream] : streams_) open.push_back(id);
  std::ranges::sort(open);
  for (const StreamId id : open) Abort(id, why);
}

void ServerSession::EndCall(StreamId id, Stream& stream, const Error& why, Tell tell) {
  DropQueue(stream);  // Messages under way are overtaken.
  const bool knows = stream.let_in && stream.told;
  WriteEnd(id, stream, Fail(why), {});
  if (knows && tell == Tell::kYes) handler_.OnCancelled(id, why);
}

void ServerSession::WriteEnd(StreamId id, Stream& stream, const Status& status,
                             const Metadata& trailing) {
  stream.told = false;
  ForgetDeadline(id, stream);
  CountUnfinished(stream, 0);
  HeaderList list;
  const bool trailers_only = !stream.response_begun;
  if (trailers_only) {
    list.emplace_back(":status", "200");
    list.emplace_back("content-type", kContentType);
    AppendMetadata(list, std::exchange(stream.metadata, {}), source_);
  }
  list.emplace_back("grpc-status", StatusNumber(status));
  if (!status.has_value()) {
    list.emplace_back("grpc-message", EncodeStatusMessage(status.error().message));
    if (status.error().code == Code::kUnimplemented) {
      list.emplace_back("grpc-accept-encoding", "identity");
    }
  }
  AppendMetadata(list, trailing, source_);
  if (trailers_only) {
    stream.response_begun = true;
    h2_.SubmitResponse(id, ToHeaders(list), StreamEnd::kYes);
    return;
  }
  // With nothing in front of them they go at once: a body would need a window first.
  if (stream.queue.empty()) return h2_.SubmitTrailers(id, ToHeaders(list));
  stream.trailers = std::make_unique<HeaderList>(std::move(list));
  h2_.Wake(id);
}

// REQUIRES: something will wait afterwards.
void ServerSession::BeginWaiting(Stream& stream) {
  if (stream.Waits()) return;
  stream.progress = now_;
  if (queued_streams_++ == 0) stall_check_ = now_ + kSendStall;
}

void ServerSession::DropQueue(Stream& stream) {
  if (!stream.Waits()) return;
  --queued_streams_;
  stream.queue.Clear();
  stream.body.clear();
}

void ServerSession::Progress(StreamId id, Stream& stream, std::size_t bytes) {
  if (bytes == 0) return;
  stream.progress = now_;
  if (stream.queue.empty()) --queued_streams_;
  if (!stream.let_in) return;
  handler_.OnWritten(id, bytes);
  if (stream.owes_drained && stream.told && stream.queue.bytes() <= limits_.queue_drained) {
    stream.owes_drained = false;
    handler_.OnDrained(id);
  }
}

H2Handler::BodyPart ServerSession::ReadBody(StreamId id, std::span<std::uint8_t> room) {
  Stream* stream = Find(id);
  CHECK(stream != nullptr, "stream {}", id);
  if (!stream->body.empty()) {
    const std::size_t size = std::min(room.size(), stream->body.size());
    std::copy_n(stream->body.begin(), size, room.begin());
    stream->body.erase(0, size);
    stream->progress = now_;
    if (stream->body.empty()) --queued_streams_;
    return {.size = size, .then = stream->body.empty() ? Body::kEnd : Body::kMore};
  }
  const std::size_t size = stream->queue.Read(room);
  Progress(id, *stream, size);
  if (!stream->queue.empty()) return {.size = size, .then = Body::kMore};
  if (stream->trailers == nullptr) return {.size = size, .then = Body::kWait};
  h2_.SubmitTrailers(id, ToHeaders(*stream->trailers));
  stream->trailers.reset();
  return {.size = size, .then = Body::kTrailers};
}

void ServerSession::OnHeadersSent(StreamId /*stream*/) {}

void ServerSession::OnEndSent(StreamId id) {
  Stream* stream = Find(id);
  if (stream == nullptr) return;
  stream->end_sent = true;
  if (stream->peer_ended) return;
  // Only now: a reset that is submitted earlier would swallow the trailers.
  if (!stream->plain) return h2_.Reset(id, H2Code::kNoError);
  // Plain HTTP clients take a reset while they are sending for a failure. What they still send is
  // dropped, and bounded by the window, which stays shut.
  stream->deadline = now_ + kAnswerLinger;
  deadlines_.emplace(stream->deadline, id);
}

void ServerSession::OnClosed(StreamId id, H2Code code) {
  const auto at = streams_.find(id);
  if (at == streams_.end()) return;
  const std::unique_ptr<Stream> stream = std::move(at->second);
  streams_.erase(at);
  ForgetDeadline(id, *stream);
  CountUnfinished(*stream, 0);
  DropQueue(*stream);
  if (!stream->let_in) return;
  if (stream->told) {
    stream->told = false;
    handler_.OnCancelled(id,
                         {.code = Code::kCancelled,
                          .message = fmt::format("the client reset the call with HTTP/2 code {}",
                                                 static_cast<std::uint32_t>(code))});
  }
  handler_.OnGone(id);
}

void ServerSession::OnGoaway(const H2Goaway& /*goaway*/) {}

void ServerSession::Pause(StreamId call) {
  if (Stream* stream = Find(call); stream != nullptr) stream->inbox.Pause();
}

void ServerSession::Resume(StreamId call, Instant now) {
  Stream* stream = Find(call);
  if (stream == nullptr || !stream->told || !stream->inbox.paused()) return;
  now_ = now;
  Result<std::size_t> credit = stream->inbox.Resume(
      [&](std::span<const std::uint8_t> message) { return Deliver(call, *stream, message); });
  AfterInput(call, *stream, std::move(credit));
}

// The streams take turns, so that the first ones cannot keep the others waiting.
void ServerSession::GoOn(Instant now) {
  now_ = now;
  held_up_ = false;
  std::vector<StreamId> waiting;
  for (const auto& [id, stream] : streams_) {
    if (stream->told && !stream->inbox.paused() && !stream->inbox.empty()) waiting.push_back(id);
  }
  std::ranges::sort(waiting);
  const auto next = std::ranges::upper_bound(waiting, last_continued_);
  std::ranges::rotate(waiting, next);
  for (const StreamId id : waiting) {
    if (held_up_) return;
    Stream* stream = Find(id);
    if (stream == nullptr || !stream->told) continue;
    last_continued_ = id;
    Result<std::size_t> credit = stream->inbox.GoOn(
        [&](std::span<const std::uint8_t> message) { return Deliver(id, *stream, message); });
    AfterInput(id, *stream, std::move(credit));
  }
}

void ServerSession::Lost(const Error& why) {
  const Streams lost = std::exchange(streams_, {});
  deadlines_.clear();
  queued_streams_ = 0;
  unfinished_ = 0;
  std::vector<StreamId> open;
  for (const auto& [id, stream] : lost) {
    if (stream->let_in) open.push_back(id);
  }
  std::ranges::sort(open);
  for (const StreamId id : open) {
    if (lost.at(id)->told) handler_.OnCancelled(id, why);
    handler_.OnGone(id);
  }
}

// --- Time ---------------------------------------------------------------------------------------

void ServerSession::ForgetDeadline(StreamId id, Stream& stream) {
  if (stream.deadline == Instant::Never()) return;
  deadlines_.erase({stream.deadline, id});
  stream.deadline = Instant::Never();
}

Instant ServerSession::NextDue() const {
  const Instant deadline = deadlines_.empty() ? Instant::Never() : deadlines_.begin()->first;
  return queued_streams_ == 0 ? deadline : std::min(deadline, stall_check_);
}

void ServerSession::OnTime(Instant now) {
  now_ = now;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const StreamId id = deadlines_.begin()->second;
    Stream* stream = Find(id);
    CHECK(stream != nullptr, "stream {}", id);
    if (stream->plain) {
      ForgetDeadline(id, *stream);
      h2_.Reset(id, H2Code::kNoError);
      continue;
    }
    EndCall(id, *stream, DeadlineExceeded("the call took longer than its deadline"), Tell::kYes);
  }
  if (queued_streams_ > 0 && stall_check_ <= now) CheckStalls();
}

void ServerSession::CheckStalls() {
  Instant next = now_ + kSendStall;
  std::vector<StreamId> stalled;
  for (const auto& [id, stream] : streams_) {
    if (!stream->Waits()) continue;
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
    const bool knows = stream->let_in && stream->told;
    stream->told = false;
    ForgetDeadline(id, *stream);
    CountUnfinished(*stream, 0);
    DropQueue(*stream);  // The reset itself may wait for long, too.
    h2_.Reset(id, H2Code::kCancel);
    if (knows) {
      handler_.OnCancelled(id, ResourceExhausted("the client took nothing for too long"));
    }
  }
}

}  // namespace nstance::grpc
