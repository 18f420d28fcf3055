#include "agent/link.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "agent/registrar.h"
#include "base/check.h"
#include "ports/api/common.h"
#include "ports/api/methods.h"

namespace nstance::agent {
namespace {

constexpr Duration kRetireAfter = Duration::Seconds(2);
constexpr Duration kUsualQuiet = Duration::Minutes(1);
constexpr Duration kRefusedQuiet = Duration::Hours(1);

std::string_view PathOf(Stream stream) {
  switch (stream) {
    case Stream::kHealth: return api::kSubmitHealthReport.path;
    case Stream::kKeys: return api::kReceiveKeyRequests.path;
    case Stream::kFiles: return api::kReceiveFiles.path;
  }
  return {};
}

std::string_view NameOf(Stream stream) {
  switch (stream) {
    case Stream::kHealth: return "health";
    case Stream::kKeys: return "keys";
    case Stream::kFiles: return "files";
  }
  return {};
}

// How long an end of that kind is not worth a line again.
Duration QuietAfter(Code code) {
  switch (code) {
    case Code::kUnauthenticated: return kRefusedQuiet;
    case Code::kUnimplemented: return Duration::Max();
    default: return kUsualQuiet;
  }
}

}  // namespace

struct Link::Connection {
  std::uint64_t certificate = 0;
  std::unique_ptr<RpcChannel> channel = nullptr;
  // After the channel, so that they go before it.
  std::array<std::unique_ptr<RpcCall>, kStreams> calls = {};
  Instant ready_at = {};

  [[nodiscard]] std::unique_ptr<RpcCall>& CallOf(Stream stream) {
    return calls[static_cast<std::size_t>(stream)];
  }
};

Link::Link(const Deps& deps, RpcAddress server, Owner owner)
    : deps_(deps), server_(std::move(server)), owner_(std::move(owner)) {}

Link::~Link() = default;

RpcChannel* Link::ready() const {
  if (active_ == nullptr || active_->certificate != certificate_) return nullptr;
  return active_->channel.get();
}

bool Link::health_open() const {
  return active_ != nullptr && active_->CallOf(Stream::kHealth) != nullptr;
}

std::string Link::Problem() const { return active_ == nullptr ? problem_ : std::string(); }

// --- Connections --------------------------------------------------------------------------------

void Link::Dial() {
  CHECK(candidate_ == nullptr, "one attempt at a time");
  candidate_ = std::make_unique<Connection>();
  candidate_->certificate = certificate_;
  candidate_->channel = deps_.dialer.Dial(
      {.address = server_, .tls = owner_.tls()},
      {.state = [this, connection = candidate_.get()](RpcChannelState state, const Status& why) {
        OnState(*connection, state, why);
      }});
  candidate_->channel->Connect();
}

void Link::DialLater(std::optional<Code> code) {
  Duration wait = backoff_.Ended(deps_.loop.Now(), code, deps_.jitter);
  if (owner_.expired()) {
    wait = Duration::Seconds(30) + deps_.jitter.UpTo(Duration::Seconds(30));
  }
  dial_timer_ = deps_.loop.CallAfter(wait, [this] { Dial(); });
}

void Link::Renewed() {
  ++certificate_;
  if (stopping_) return;
  dial_timer_.Cancel();
  candidate_.reset();  // It would show the certificate before this one.
  Dial();
}

void Link::OnState(Connection& connection, RpcChannelState state, const Status& why) {
  if (state == RpcChannelState::kReady && &connection == candidate_.get()) return OnReady();
  if (state == RpcChannelState::kGone) OnGone(connection, why);
}

void Link::OnReady() {
  std::array<bool, kStreams> moves{};
  if (active_ != nullptr) {
    for (std::size_t i = 0; i < kStreams; ++i) moves[i] = active_->calls[i] != nullptr;
    retired_ = std::move(active_);
    retire_timer_ = deps_.loop.CallAfter(kRetireAfter, [this] { retired_.reset(); });
  }
  active_ = std::move(candidate_);
  active_->ready_at = deps_.loop.Now();
  quiet_until_ = {};
  deps_.log.Info("connected", {{"server", server_.host}, {"port", server_.port}});
  owner_.connected();
  for (const Stream stream : kAll) {
    StreamState& state = StateOf(stream);
    // Lost with its connection, never opened, or moved: nothing to wait for.
    const bool at_once = state.last_end.value_or(Code::kUnavailable) == Code::kUnavailable;
    if (at_once || moves[static_cast<std::size_t>(stream)]) state.not_before = {};
    OpenWhenDue(stream);
  }
}

void Link::OnGone(Connection& connection, const Status& why) {
  // What is taken out goes when this event has returned.
  if (&connection == retired_.get()) {
    const std::unique_ptr<Connection> gone = std::move(retired_);
    return;
  }
  const bool was_active = &connection == active_.get();
  const std::unique_ptr<Connection> gone = std::move(was_active ? active_ : candidate_);
  if (stopping_) return Stopped();
  const Error error = why ? Unavailable("the connection ended") : why.error();
  if (active_ == nullptr) problem_ = error.ToString();
  LogGone(error);
  if (candidate_ != nullptr) return;
  if (was_active) backoff_.Opened(gone->ready_at);
  // Only a refusal of our certificate is the server's word; all else is a failure to connect.
  const bool refused = error.code == Code::kUnauthenticated;
  DialLater(refused ? Code::kUnauthenticated : Code::kUnavailable);
}

// --- Streams ------------------------------------------------------------------------------------

void Link::OpenWhenDue(Stream stream) {
  StreamState& state = StateOf(stream);
  state.timer.Cancel();
  if (active_ == nullptr || stopping_) return;
  if (state.not_before <= deps_.loop.Now()) return Open(stream);
  state.timer = deps_.loop.CallAt(state.not_before, [this, stream] { OpenWhenDue(stream); });
}

void Link::Open(Stream stream) {
  Connection* connection = active_.get();
  StateOf(stream).backoff.Opened(deps_.loop.Now());
  auto& call = connection->CallOf(stream);
  call = connection->channel->Start(
      PathOf(stream), {.metadata = Features()},
      {.message = [this](const RpcMessage& message) { OnMessage(message); },
       .drained =
           [this, stream, connection] {
             const bool current = connection == active_.get() && stream == Stream::kHealth;
             if (current) owner_.health_drained();
           },
       .end = [this, stream, connection](const RpcEnd& end) { OnEnd(*connection, stream, end); }});
  if (stream != Stream::kHealth) {
    call->Send(RpcMessage::Of(api::Empty{}));
  } else {
    owner_.health_opened();
  }
}

void Link::OnMessage(const RpcMessage& message) const {
  if (stopping_) return;
  if (const auto* request = message.As<api::KeyGenerationRequest>()) owner_.key_request(*request);
  if (const auto* file = message.As<api::FileTransfer>()) owner_.file(*file);
}

void Link::OnEnd(const Connection& connection, Stream stream, const RpcEnd& end) {
  if (&connection != active_.get()) return;  // The streams have moved on.
  const std::unique_ptr<RpcCall> ended = std::move(active_->CallOf(stream));
  if (stopping_) {
    if (stream == Stream::kHealth) Stopped();
    return;
  }
  const Code code = end.status ? Code::kUnavailable : end.status.error().code;
  StreamState& state = StateOf(stream);
  state.last_end = code;
  state.not_before = deps_.loop.Now() + state.backoff.Ended(deps_.loop.Now(), code, deps_.jitter);
  LogEnd(stream, end);
  if (stream == Stream::kHealth) owner_.health_closed();
  OpenWhenDue(stream);
}

RpcSend Link::SendReport(api::HealthReportRequest report) {
  CHECK(health_open());
  return active_->CallOf(Stream::kHealth)->Send(RpcMessage::Of(std::move(report)));
}

// --- Words --------------------------------------------------------------------------------------

void Link::LogEnd(Stream stream, const RpcEnd& end) {
  StreamState& state = StateOf(stream);
  const std::string why = end.status ? "OK" : end.status.error().ToString();
  const Duration wait = state.not_before - deps_.loop.Now();
  const Instant now = deps_.loop.Now();
  if (now < state.quiet_until) {
    deps_.log.Debug("stream ended", {{"stream", NameOf(stream)}, {"status", why}, {"wait", wait}});
    return;
  }
  state.quiet_until = now + QuietAfter(*state.last_end);
  deps_.log.Warning("stream ended", {{"stream", NameOf(stream)}, {"status", why}, {"wait", wait}});
}

void Link::LogGone(const Error& why) {
  const Instant now = deps_.loop.Now();
  if (now < quiet_until_) {
    deps_.log.Debug("no connection to the server", {{"error", why}});
    return;
  }
  quiet_until_ = now + QuietAfter(why.code);
  deps_.log.Warning("no connection to the server; trying again", {{"error", why}});
}

// --- The end ------------------------------------------------------------------------------------

void Link::Stop(Instant deadline, Task stopped) {
  stopping_ = true;
  stopped_ = std::move(stopped);
  dial_timer_.Cancel();
  candidate_.reset();
  retired_.reset();
  for (StreamState& state : streams_) state.timer.Cancel();
  if (!health_open()) {
    stop_timer_ = deps_.loop.CallAfter({}, [this] { Stopped(); });
    return;
  }
  active_->CallOf(Stream::kHealth)->HalfClose();
  stop_timer_ = deps_.loop.CallAt(deadline, [this] { Stopped(); });
}

void Link::Stopped() {
  if (stopped_ == nullptr) return;
  Task stopped = std::exchange(stopped_, nullptr);
  stopped();
}

}  // namespace nstance::agent
