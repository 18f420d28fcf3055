#include "adapters/rpc/h2_session.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include "base/check.h"

namespace nstance::grpc {
namespace {

// Counted for each header on top of its bytes, as SETTINGS_MAX_HEADER_LIST_SIZE has it.
constexpr std::size_t kHeaderOverhead = 32;
constexpr std::size_t kFrameHeadBytes = 9;
constexpr std::uint32_t kNoReserved = 0x7fffffff;
// What the buffers of a header block may keep between blocks.
constexpr std::size_t kKeptHeaders = 16;
// A client that skips ids more often is no longer held to the ones that it skipped first.
constexpr std::size_t kMaxSkippedRanges = 16;

std::string_view View(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// nghttp2 does not write to what it is given, but says so only in prose.
std::vector<nghttp2_nv> ToNative(std::span<const H2Header> headers) {
  std::vector<nghttp2_nv> list;
  list.reserve(headers.size());
  for (const H2Header& header : headers) {
    list.push_back(
        {.name = reinterpret_cast<std::uint8_t*>(const_cast<char*>(header.name.data())),
         .value = reinterpret_cast<std::uint8_t*>(const_cast<char*>(header.value.data())),
         .namelen = header.name.size(),
         .valuelen = header.value.size(),
         .flags = NGHTTP2_NV_FLAG_NONE});
  }
  return list;
}

// A reset that we send because the other side did something wrong.
bool IsTheirFault(std::uint32_t code) {
  return code != NGHTTP2_NO_ERROR && code != NGHTTP2_CANCEL && code != NGHTTP2_INTERNAL_ERROR;
}

bool EndsStream(const nghttp2_frame& frame) {
  return (frame.hd.type == NGHTTP2_DATA || frame.hd.type == NGHTTP2_HEADERS) &&
         (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
}

bool IsFirstBlock(const nghttp2_frame& frame) {
  return frame.headers.cat == NGHTTP2_HCAT_REQUEST || frame.headers.cat == NGHTTP2_HCAT_RESPONSE;
}

}  // namespace

// nghttp2 calls these; they find their session and hand over.
struct H2Callbacks {
  static H2Session& Of(void* user) { return *static_cast<H2Session*>(user); }

  static int BeginHeaders(nghttp2_session* /*native*/, const nghttp2_frame* /*frame*/, void* user) {
    H2Session& self = Of(user);
    self.block_headers_ = 0;
    self.block_bytes_ = 0;
    return 0;
  }

  // NOLINTNEXTLINE(readability-function-size): nghttp2's signature.
  static int Header(nghttp2_session* /*native*/, const nghttp2_frame* /*frame*/,
                    const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                    std::size_t value_size, std::uint8_t /*flags*/, void* user) {
    return Of(user).AddHeader(View(name, name_size), View(value, value_size))
               ? 0
               : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  // NOLINTNEXTLINE(readability-function-size): nghttp2's signature.
  static int InvalidHeader(nghttp2_session* /*native*/, const nghttp2_frame* /*frame*/,
                           const std::uint8_t* /*name*/, std::size_t /*name_size*/,
                           const std::uint8_t* /*value*/, std::size_t /*value_size*/,
                           std::uint8_t /*flags*/, void* user) {
    Of(user).source_.Bad("h2_header");
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // Resets the stream.
  }

  static int FrameReceived(nghttp2_session* native, const nghttp2_frame* frame, void* user) {
    H2Session& self = Of(user);
    const StreamId stream = frame->hd.stream_id;
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
        if (frame->headers.cat == NGHTTP2_HCAT_HEADERS || IsFirstBlock(*frame)) {
          self.EndOfHeaders(stream, IsFirstBlock(*frame));
        }
        break;
      case NGHTTP2_SETTINGS:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) self.settings_received_ = true;
        break;
      case NGHTTP2_GOAWAY:
        self.handler_.OnGoaway(
            {.last_stream = frame->goaway.last_stream_id,
             .code = static_cast<H2Code>(frame->goaway.error_code),
             .debug = std::string(
                 View(frame->goaway.opaque_data, frame->goaway.opaque_data_len).substr(0, 256))});
        break;
      default: break;
    }
    if (EndsStream(*frame) && nghttp2_session_find_stream(native, stream) != nullptr) {
      self.handler_.OnEnd(stream);
    }
    return self.closing_ ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }

  // NOLINTNEXTLINE(readability-function-size): nghttp2's signature.
  static int Data(nghttp2_session* native, std::uint8_t /*flags*/, StreamId stream,
                  const std::uint8_t* data, std::size_t size, void* user) {
    H2Session& self = Of(user);
    nghttp2_session_consume_connection(native, size);
    self.handler_.OnData(stream, {data, size});
    return self.closing_ ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }

  static int StreamClosed(nghttp2_session* /*native*/, StreamId stream, std::uint32_t code,
                          void* user) {
    Of(user).handler_.OnClosed(stream, static_cast<H2Code>(code));
    return 0;
  }

  static int FrameSent(nghttp2_session* native, const nghttp2_frame* frame, void* user) {
    H2Session& self = Of(user);
    const StreamId stream = frame->hd.stream_id;
    if (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) {
      self.ping_free_ = true;
      if (frame->hd.type == NGHTTP2_DATA) {
        self.rates_.DataSent(self.now_);
      } else {
        self.handler_.OnHeadersSent(stream);
      }
      if (EndsStream(*frame) && nghttp2_session_find_stream(native, stream) != nullptr) {
        self.handler_.OnEndSent(stream);
      }
    } else if (frame->hd.type == NGHTTP2_RST_STREAM && IsTheirFault(frame->rst_stream.error_code)) {
      self.CountRate(Rate::kReset, 1, self.now_);
    }
    return 0;
  }

  static int FrameNotSent(nghttp2_session* /*native*/, const nghttp2_frame* frame, int /*error*/,
                          void* user) {
    // A request that could not go out: no stream was opened, so no close would be told.
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      Of(user).handler_.OnClosed(frame->hd.stream_id, H2Code::kRefusedStream);
    }
    return 0;
  }

  // NOLINTNEXTLINE(readability-function-size): nghttp2's signature.
  static ssize_t ReadBody(nghttp2_session* /*native*/, StreamId stream, std::uint8_t* room,
                          std::size_t size, std::uint32_t* flags, nghttp2_data_source* /*source*/,
                          void* user) {
    const H2Handler::BodyPart part = Of(user).handler_.ReadBody(stream, {room, size});
    switch (part.then) {
      case H2Handler::Body::kWait:
        if (part.size == 0) return NGHTTP2_ERR_DEFERRED;
        break;
      case H2Handler::Body::kMore: break;
      case H2Handler::Body::kEnd: *flags |= NGHTTP2_DATA_FLAG_EOF; break;
      case H2Handler::Body::kTrailers:
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        break;
    }
    return static_cast<ssize_t>(part.size);
  }

  static nghttp2_session_callbacks* Table() {
    static nghttp2_session_callbacks* const table = [] {
      nghttp2_session_callbacks* made = nullptr;
      CHECK(nghttp2_session_callbacks_new(&made) == 0);
      nghttp2_session_callbacks_set_on_begin_headers_callback(made, BeginHeaders);
      nghttp2_session_callbacks_set_on_header_callback(made, Header);
      nghttp2_session_callbacks_set_on_invalid_header_callback(made, InvalidHeader);
      nghttp2_session_callbacks_set_on_frame_recv_callback(made, FrameReceived);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, Data);
      nghttp2_session_callbacks_set_on_stream_close_callback(made, StreamClosed);
      nghttp2_session_callbacks_set_on_frame_send_callback(made, FrameSent);
      nghttp2_session_callbacks_set_on_frame_not_send_callback(made, FrameNotSent);
      return made;
    }();
    return table;
  }

  static nghttp2_option* Options() {
    static nghttp2_option* const options = [] {
      nghttp2_option* made = nullptr;
      CHECK(nghttp2_option_new(&made) == 0);
      nghttp2_option_set_no_auto_window_update(made, 1);
      nghttp2_option_set_max_deflate_dynamic_table_size(made, kEncoderTableBytes);
      nghttp2_option_set_max_continuations(made, kMaxContinuations);
      nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(made, 1);
      return made;
    }();
    return options;
  }

  static nghttp2_data_provider Body() {
    return {.source = {.ptr = nullptr}, .read_callback = ReadBody};
  }
};

H2Session::H2Session(H2Side side, const SessionLimits& limits, H2Handler& handler,
                     InputSource source)
    : side_(side), handler_(handler), source_(source) {
  const int made = side == H2Side::kServer
                       ? nghttp2_session_server_new2(&native_, H2Callbacks::Table(), this,
                                                     H2Callbacks::Options())
                       : nghttp2_session_client_new2(&native_, H2Callbacks::Table(), this,
                                                     H2Callbacks::Options());
  CHECK(made == 0, "{}", nghttp2_strerror(made));
  if (side == H2Side::kServer) skip_ = NGHTTP2_CLIENT_MAGIC_LEN;
  SubmitSettings(limits);
}

H2Session::~H2Session() { nghttp2_session_del(native_); }

void H2Session::SubmitSettings(const SessionLimits& limits) {
  std::vector<nghttp2_settings_entry> entries = {
      {.settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, .value = limits.stream_window},
      {.settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, .value = kMaxHeaderListBytes}};
  if (side_ == H2Side::kServer) {
    entries.push_back(
        {.settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, .value = limits.max_streams});
  } else {
    entries.push_back({.settings_id = NGHTTP2_SETTINGS_ENABLE_PUSH, .value = 0});
  }
  CHECK(nghttp2_submit_settings(native_, NGHTTP2_FLAG_NONE, entries.data(), entries.size()) == 0);
  CHECK(nghttp2_session_set_local_window_size(
            native_, NGHTTP2_FLAG_NONE, 0, static_cast<std::int32_t>(limits.connection_window)) ==
        0);
}

// --- What comes in ------------------------------------------------------------------------------

Status H2Session::Receive(std::span<const std::uint8_t> bytes, Instant now) {
  now_ = now;
  if (closing_) return {};
  if (!Scan(bytes)) return Fail(Unavailable(reason_));
  const ssize_t taken = nghttp2_session_mem_recv(native_, bytes.data(), bytes.size());
  if (closing_) return Fail(Unavailable(reason_));
  if (taken < 0) {
    const int error = static_cast<int>(taken);
    source_.Bad("h2");
    if (error == NGHTTP2_ERR_FLOODED || error == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS) {
      Exceeded(error == NGHTTP2_ERR_FLOODED ? "h2_flood" : "h2_continuations",
               H2Code::kEnhanceYourCalm, nghttp2_strerror(error));
    } else {
      End(H2Code::kProtocolError, nghttp2_strerror(error));
    }
    return Fail(Unavailable(reason_));
  }
  // nghttp2 found an error itself and has queued the GOAWAY.
  if (nghttp2_session_want_read(native_) == 0 && !closing_) {
    closing_ = true;
    reason_ = "HTTP/2 ended";
  }
  return {};
}

// How many bytes the head under way has, as far as it can be told.
std::size_t H2Session::HeadSize() const {
  const bool update = head_bytes_ >= kFrameHeadBytes && head_[3] == NGHTTP2_WINDOW_UPDATE &&
                      head_[0] == 0 && head_[1] == 0 && head_[2] == 4;
  return update ? head_.size() : kFrameHeadBytes;
}

bool H2Session::Scan(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const std::size_t skipped = std::min(skip_, bytes.size());
    skip_ -= skipped;
    bytes = bytes.subspan(skipped);
    const std::size_t wanted = HeadSize();
    const std::size_t taken = std::min(wanted - head_bytes_, bytes.size());
    std::copy_n(bytes.begin(), taken, head_.begin() + static_cast<std::ptrdiff_t>(head_bytes_));
    head_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (head_bytes_ < HeadSize()) continue;
    const auto number = [&](std::size_t from, std::size_t size) {
      std::uint32_t value = 0;
      for (std::size_t i = 0; i < size; ++i) value = (value << 8U) | head_.at(from + i);
      return value;
    };
    const bool has_increment = head_bytes_ > kFrameHeadBytes;
    const FrameHead head = {.length = number(0, 3),
                            .type = head_[3],
                            .flags = head_[4],
                            .stream = static_cast<StreamId>(number(5, 4) & kNoReserved),
                            .increment = has_increment ? number(9, 4) & kNoReserved : 1};
    skip_ = head.length - (head_bytes_ - kFrameHeadBytes);
    head_bytes_ = 0;
    if (!JudgeFrame(head)) return false;
  }
  return true;
}

bool H2Session::JudgeFrame(const FrameHead& head) {
  if (!CountFrame(head)) return false;
  if (head.increment == 0) {
    source_.Bad("h2_window_update");
    End(H2Code::kProtocolError, "WINDOW_UPDATE of 0");
    return false;
  }
  if (side_ == H2Side::kServer && head.type == NGHTTP2_HEADERS && !CheckStreamOrder(head.stream)) {
    source_.Bad("h2_stream_order");
    End(H2Code::kProtocolError, "request on a stream id below an earlier one");
    return false;
  }
  return true;
}

bool H2Session::CountFrame(const FrameHead& head) {
  const auto& [length, type, flags, stream, increment] = head;
  Rate rate = Rate::kIdleFrame;
  switch (type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
    case NGHTTP2_GOAWAY:
    case NGHTTP2_PUSH_PROMISE:  // An error in itself.
      return true;
    case NGHTTP2_DATA:
      if (length > 0 || (flags & NGHTTP2_FLAG_END_STREAM) != 0) return true;
      break;
    case NGHTTP2_RST_STREAM: rate = Rate::kReset; break;
    case NGHTTP2_SETTINGS:
      if ((flags & NGHTTP2_FLAG_ACK) != 0) return true;
      rate = Rate::kSettings;
      break;
    case NGHTTP2_PING:
      if ((flags & NGHTTP2_FLAG_ACK) == 0) return CountPing();
      if (pings_out_ > 0) {
        --pings_out_;
        return true;
      }
      break;
    case NGHTTP2_WINDOW_UPDATE: rate = Rate::kWindowUpdate; break;
    default: break;
  }
  CountRate(rate, 1, now_);
  return !closing_;
}

bool H2Session::CountPing() {
  const Instant former = std::exchange(last_ping_, now_);
  // grpc-go, on either side, probes the bandwidth with one PING per DATA frame that it receives:
  // our own sending bounds them, and a busy watch must not be taken for a flood.
  if (std::exchange(ping_free_, false)) {
    ping_strikes_ = 0;
    return true;
  }
  CountRate(Rate::kPing, 1, now_);
  if (closing_) return false;
  if (side_ == H2Side::kClient) return true;
  if (now_ - former < kPingSpacing) ++ping_strikes_;
  if (ping_strikes_ <= kMaxPingStrikes) return true;
  Exceeded("h2_ping_strikes", H2Code::kEnhanceYourCalm, "too_many_pings");
  return false;
}

// nghttp2 ignores a request whose id lies below an earlier one, since frames of streams that were
// closed may still arrive. Ids that were never used are told apart by the gaps between those that
// were.
bool H2Session::CheckStreamOrder(StreamId stream) {
  if (stream % 2 == 0) return true;  // nghttp2 refuses it.
  if (stream > highest_) {
    const StreamId next = highest_ == 0 ? 1 : highest_ + 2;
    if (stream > next && skipped_.size() < kMaxSkippedRanges) {
      skipped_.emplace_back(next, stream - 2);
    }
    highest_ = stream;
    return true;
  }
  return std::ranges::none_of(
      skipped_, [&](const auto& range) { return range.first <= stream && stream <= range.second; });
}

bool H2Session::AddHeader(std::string_view name, std::string_view value) {
  block_bytes_ += name.size() + value.size() + kHeaderOverhead;
  if (block_bytes_ > kMaxHeaderListBytes) {
    Exceeded("h2_header_list", H2Code::kEnhanceYourCalm, "header list above 16 KiB");
    return false;
  }
  if (block_headers_ == block_.size()) block_.emplace_back();
  PendingHeader& header = block_[block_headers_++];
  header.name.assign(name);
  header.value.assign(value);
  return true;
}

void H2Session::EndOfHeaders(StreamId stream, bool first) {
  std::vector<H2Header> headers;
  headers.reserve(block_headers_);
  for (std::size_t i = 0; i < block_headers_; ++i) {
    headers.push_back({.name = block_[i].name, .value = block_[i].value});
  }
  handler_.OnHeaders(stream, {.headers = headers, .first = first});
  // Most connections wait for hours after their last header block.
  block_headers_ = 0;
  if (block_.size() > kKeptHeaders || block_bytes_ > 1024) {
    block_ = {};
  }
}

// --- What goes out ------------------------------------------------------------------------------

void H2Session::Collect(Bytes& out, std::size_t limit, Instant now) {
  now_ = now;
  while (out.size() < limit) {
    const std::uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(native_, &data);
    if (size == 0) break;
    if (size < 0) {
      closing_ = true;
      if (reason_.empty()) reason_ = nghttp2_strerror(static_cast<int>(size));
      break;
    }
    out.insert(out.end(), data, data + size);
  }
  if (nghttp2_session_want_read(native_) == 0 && nghttp2_session_want_write(native_) == 0) {
    closing_ = true;
  }
}

bool H2Session::WantsToWrite() const { return nghttp2_session_want_write(native_) != 0; }

void H2Session::SubmitResponse(StreamId stream, std::span<const H2Header> headers, StreamEnd end) {
  const std::vector<nghttp2_nv> list = ToNative(headers);
  const nghttp2_data_provider body = H2Callbacks::Body();
  const int error = nghttp2_submit_response(native_, stream, list.data(), list.size(),
                                            end == StreamEnd::kYes ? nullptr : &body);
  CHECK(error == 0 || error == NGHTTP2_ERR_DATA_EXIST, "{}", nghttp2_strerror(error));
}

void H2Session::SubmitTrailers(StreamId stream, std::span<const H2Header> headers) {
  const std::vector<nghttp2_nv> list = ToNative(headers);
  const int error = nghttp2_submit_trailer(native_, stream, list.data(), list.size());
  CHECK(error == 0, "{}", nghttp2_strerror(error));
}

StreamId H2Session::SubmitRequest(std::span<const H2Header> headers) {
  const std::vector<nghttp2_nv> list = ToNative(headers);
  const nghttp2_data_provider body = H2Callbacks::Body();
  const StreamId stream =
      nghttp2_submit_request(native_, nullptr, list.data(), list.size(), &body, nullptr);
  return std::max(stream, 0);
}

void H2Session::Wake(StreamId stream) {
  // Nothing was deferred: it will be asked anyway.
  static_cast<void>(nghttp2_session_resume_data(native_, stream));
}

void H2Session::Reset(StreamId stream, H2Code code) {
  static_cast<void>(nghttp2_submit_rst_stream(native_, NGHTTP2_FLAG_NONE, stream,
                                              static_cast<std::uint32_t>(code)));
}

void H2Session::Consume(StreamId stream, std::size_t bytes) {
  if (bytes > 0) static_cast<void>(nghttp2_session_consume_stream(native_, stream, bytes));
}

void H2Session::Ping() {
  ++pings_out_;
  static_cast<void>(nghttp2_submit_ping(native_, NGHTTP2_FLAG_NONE, nullptr));
}

void H2Session::Drain() {
  if (closing_) return;
  static_cast<void>(nghttp2_submit_goaway(native_, NGHTTP2_FLAG_NONE,
                                          nghttp2_session_get_last_proc_stream_id(native_),
                                          NGHTTP2_NO_ERROR, nullptr, 0));
}

void H2Session::End(H2Code code, std::string_view reason) {
  if (closing_) return;
  closing_ = true;
  reason_ = reason;
  static_cast<void>(nghttp2_submit_goaway(
      native_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(native_),
      static_cast<std::uint32_t>(code), reinterpret_cast<const std::uint8_t*>(reason.data()),
      reason.size()));
}

void H2Session::Exceeded(std::string_view limit, H2Code code, std::string_view reason) {
  if (closing_) return;
  source_.Limit(limit);
  End(code, reason);
}

void H2Session::CountRate(Rate rate, std::uint32_t n, Instant now) {
  if (!rates_.Count(rate, now, n)) {
    Exceeded(RateName(rate), H2Code::kEnhanceYourCalm,
             fmt::format("too many {} in {}", RateName(rate), FormatDuration(kRateWindow)));
  }
}

}  // namespace nstance::grpc
