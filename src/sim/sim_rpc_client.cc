#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/overloaded.h"
#include "base/text.h"
#include "crypto/verify_peer.h"
#include "sim/sim_rpc.h"
#include "sim/sim_rpc_parts.h"

namespace nstance::sim {
namespace {

class Channel;

// A call, shared between its holder and its channel.
struct ClientCall {
  ClientCall(Loop& loop, SimCallId number, std::string_view method, RpcKind call_kind)
      : id(number),
        path(method),
        kind(call_kind),
        teller(std::make_shared<SimTeller>(loop, SimTeller::Begin::kAtOnce)) {}

  SimCallId id = 0;
  std::string path;
  RpcKind kind = RpcKind::kUnary;
  RpcCallEvents events = {};
  std::shared_ptr<SimTeller> teller;
  SimSendQueue queue = {};
  bool finished_sending = false;
  bool ended = false;      // Nothing more will be told than what the teller holds.
  bool abandoned = false;  // Its holder is gone.
  RpcMetadata metadata = {};
  std::vector<RpcMessage> single_response = {};
  Pending deadline = {};
};

using CallPtr = std::shared_ptr<ClientCall>;

void TellEnd(const CallPtr& call, RpcEnd end) {
  CallEvent(call->events.end, [] { return false; }, std::as_const(end));
}

Error LocalEnd(Code code, Outcome outcome, std::string message) {
  return {.code = code, .outcome = outcome, .message = std::move(message)};
}

// The part of a channel that frames and calls refer to; the holder's part is ChannelHandle.
class Channel final : public SimWireUser, public std::enable_shared_from_this<Channel> {
 public:
  struct Deps {
    SimNetwork& network;
    Loop& loop;
    std::string process;
    std::span<const RpcPolicyRow> policy;
    std::function<RpcMessage(std::string_view, RpcMessage)> instead;
  };
  Channel(Deps deps, RpcTarget target, RpcChannelEvents events)
      : deps_(std::move(deps)),
        target_(std::move(target)),
        events_(std::move(events)),
        teller_(std::make_shared<SimTeller>(deps_.loop, SimTeller::Begin::kAtOnce)) {}

  [[nodiscard]] RpcChannelState state() const { return told_; }

  void Connect() {
    CHECK(phase_ == RpcChannelState::kIdle);
    Enter(RpcChannelState::kResolving);
    Enter(RpcChannelState::kConnecting);
    limit_ = deps_.loop.CallAfter(target_.connect_limit, [this] {
      Die(Unavailable(fmt::format("{}:{}: no connection within {}", target_.address.host,
                                  target_.address.port, FormatDuration(target_.connect_limit))));
    });
    wire_ = deps_.network.Dial(deps_.process, target_.address, deps_.loop, *this);
    wire_->Send(
        SimEnd::kClient,
        SimConnect{.chain = target_.tls ? target_.tls->chain : std::vector<crypto::Certificate>()});
  }

  void Close() { Die(Unavailable("channel closed")); }

  // The holder is gone: nobody is told anything.
  void Abandon() {
    events_ = {};
    for (const CallPtr& call : Started()) {
      call->ended = true;
      call->teller->Stop();
      call->events = {};
    }
    calls_.clear();
    teller_->Stop();
    Disconnect();
    phase_ = told_ = RpcChannelState::kGone;
  }

  CallPtr Start(std::string_view path, RpcCallOptions options, RpcCallEvents events) {
    const RpcPolicyRow* row = FindRpcPolicy(deps_.policy, path);
    auto call = std::make_shared<ClientCall>(deps_.loop, next_call_++, path,
                                             row == nullptr ? RpcKind::kBidirectional : row->kind);
    call->events = std::move(events);
    std::erase_if(started_, [](const auto& weak) { return weak.expired(); });
    started_.push_back(call);
    if (told_ != RpcChannelState::kReady || phase_ != RpcChannelState::kReady || going_away_) {
      EndCall(call, {.status = Fail(Unavailable("not connected"))});
      return call;
    }
    calls_.emplace(call->id, call);
    if (options.timeout) {
      call->deadline = deps_.loop.CallAfter(*options.timeout, [this, id = call->id] {
        EndLocally(id, LocalEnd(Code::kDeadlineExceeded, Outcome::kMaybeDone, "deadline exceeded"));
      });
    }
    wire_->Send(SimEnd::kClient, SimHeaders{.call = call->id,
                                            .path = call->path,
                                            .timeout = options.timeout,
                                            .metadata = std::move(options.metadata)});
    return call;
  }

  RpcSend Send(const CallPtr& call, RpcMessage message) {
    if (call->ended || call->finished_sending || call->queue.full()) return RpcSend::kRefused;
    if (deps_.instead) message = deps_.instead(call->path, std::move(message));
    auto carried =
        deps_.network.Carry(call->path, SimNetwork::Direction::kRequest, std::move(message));
    if (!carried) return RpcSend::kTooLarge;
    const RpcSend taken = call->queue.Take();
    wire_->Send(SimEnd::kClient, SimData{.call = call->id, .message = *std::move(carried)});
    if (HasSingleRequest(call->kind)) HalfClose(call);
    return taken;
  }

  void HalfClose(const CallPtr& call) {
    if (call->ended || call->finished_sending) return;
    call->finished_sending = true;
    wire_->Send(SimEnd::kClient, SimHalfClose{.call = call->id});
  }

  // The call's holder is gone.
  void Drop(const CallPtr& call) {
    call->abandoned = true;
    call->teller->Stop();
    call->events = {};
    call->deadline.Cancel();
    if (call->ended) return;
    call->ended = true;
    wire_->Send(SimEnd::kClient, SimReset{.call = call->id});
    calls_.erase(call->id);
    CheckGoneAway();
  }

  void OnFrame(SimFrame frame) override {
    const auto self = shared_from_this();  // An event may let go of the channel.
    if (keepalive_ != nullptr) keepalive_->Heard();
    std::visit(Overloaded{[this](SimAccepted& accepted) { OnAccepted(accepted); },
                          [this](SimResponseHead& head) { OnHead(head); },
                          [this](SimData& data) { OnData(data); },
                          [this](SimTrailers& trailers) { OnTrailers(trailers); },
                          [this](SimCredit& credit) { OnCredit(credit); },
                          [this](SimPing&) { wire_->Send(SimEnd::kClient, SimPong{}); },
                          [this](SimGoAway&) {
                            going_away_ = true;
                            CheckGoneAway();
                          },
                          [this](SimClosed& closed) { Die(closed.why); }, [](auto&) {}},
               frame);
  }

 private:
  [[nodiscard]] CallPtr Find(SimCallId id) const {
    const auto found = calls_.find(id);
    return found == calls_.end() ? nullptr : found->second;
  }

  void Enter(RpcChannelState state) {
    phase_ = state;
    teller_->Tell([this, state] { TellState(state, {}); });
  }
  void TellState(RpcChannelState state, const Status& why) {
    const auto self = shared_from_this();
    told_ = state;
    CallEvent(events_.state, [this] { return told_ != RpcChannelState::kGone; }, state, why);
  }

  [[nodiscard]] Status CheckServer(const std::vector<crypto::Certificate>& chain) const {
    const crypto::PeerVerdict verdict = deps_.network.Verify({.chain = chain,
                                                              .roots = target_.tls->roots,
                                                              .now = deps_.loop.WallNow(),
                                                              .usage = crypto::PeerUsage::kServer});
    if (!verdict.chain) return Fail(PermissionDenied(verdict.chain.error().message));
    const crypto::AlternativeNames& names = chain.front().facts().names;
    const std::string& host = target_.address.host;
    if (std::ranges::count(names.dns, host) + std::ranges::count(names.ip, host) > 0) return {};
    return Fail(PermissionDenied(fmt::format("the server's certificate is not for {}", host)));
  }

  void OnAccepted(const SimAccepted& accepted) {
    if (phase_ != RpcChannelState::kConnecting) return;
    if (target_.tls == nullptr) return Die(PermissionDenied("no roots to check the server with"));
    if (const Status sound = CheckServer(accepted.chain); !sound) return Die(sound.error());
    limit_.Cancel();
    Enter(RpcChannelState::kReady);
    keepalive_ = std::make_unique<SimKeepalive>(
        deps_.loop,
        SimKeepalive::Options{.after = target_.ping_after,
                              .limit = target_.ping_limit,
                              .ping = [this] { wire_->Send(SimEnd::kClient, SimPing{}); },
                              .dead = [this] { Die(Unavailable("no answer to a ping")); }});
  }

  void OnHead(SimResponseHead& head) {
    const CallPtr call = Find(head.call);
    if (call == nullptr) return;
    call->metadata = std::move(head.metadata);
    call->teller->TellAtOnce([call] {
      CallEvent(call->events.metadata, [] { return false; }, std::as_const(call->metadata));
    });
  }

  void OnData(SimData& data) {
    const CallPtr call = Find(data.call);
    if (call == nullptr) return;
    if (!data.message) {
      return EndLocally(
          call->id, LocalEnd(Code::kInternal, Outcome::kMaybeDone, data.message.error().message));
    }
    if (HasSingleResponse(call->kind)) {
      call->single_response.push_back(*std::move(data.message));
      wire_->Send(SimEnd::kClient, SimCredit{.call = call->id});
      return;
    }
    call->teller->Tell([this, call, message = *std::move(data.message)]() mutable {
      if (!call->ended) wire_->Send(SimEnd::kClient, SimCredit{.call = call->id});
      TellMessage(call, std::move(message));
    });
  }

  static void TellMessage(const CallPtr& call, RpcMessage message) {
    CallEvent(call->events.message, [&] { return !call->abandoned; }, std::move(message));
  }

  void OnTrailers(SimTrailers& trailers) {
    const CallPtr call = Find(trailers.call);
    if (call == nullptr) return;
    Status status = std::move(trailers.status);
    if (!status) {
      status.error().outcome = trailers.refused == SimRefused::kBeforeHandling
                                   ? Outcome::kNotDone
                                   : OutcomeOfRpcStatus(status.error().code);
    }
    if (status && HasSingleResponse(call->kind)) {
      if (call->single_response.size() != 1) {
        return EndLocally(call->id, LocalEnd(Code::kUnimplemented, Outcome::kMaybeDone,
                                             "not exactly one response message"));
      }
      call->teller->Tell([call] { TellMessage(call, call->single_response.front()); });
    }
    // Behind the messages that came before, which the holder may not have taken yet.
    calls_.erase(call->id);
    call->ended = true;
    call->deadline.Cancel();
    call->teller->Tell([call, end = RpcEnd{.status = std::move(status),
                                           .metadata = call->metadata,
                                           .trailing = std::move(trailers.trailing)}]() mutable {
      TellEnd(call, std::move(end));
    });
    CheckGoneAway();
  }

  void OnCredit(const SimCredit& credit) {
    const CallPtr call = Find(credit.call);
    if (call == nullptr || !call->queue.Credit()) return;
    call->teller->TellAtOnce(
        [call] { CallEvent(call->events.drained, [&] { return !call->abandoned; }); });
  }

  // Ends overtake everything that the holder has not taken yet.
  static void EndCall(const CallPtr& call, RpcEnd end) {
    call->ended = true;
    call->deadline.Cancel();
    call->teller->End([call, end = std::move(end)]() mutable { TellEnd(call, std::move(end)); });
  }
  void EndLocally(SimCallId id, Error why) {
    const CallPtr call = Find(id);
    if (call == nullptr) return;
    calls_.erase(id);
    wire_->Send(SimEnd::kClient, SimReset{.call = id});
    RpcEnd end{.status = Fail(std::move(why)), .metadata = call->metadata};
    EndCall(call, std::move(end));
    CheckGoneAway();
  }

  void CheckGoneAway() {
    if (going_away_ && calls_.empty()) Die(Unavailable("the server is going away"));
  }

  void Disconnect() {
    limit_.Cancel();
    keepalive_.reset();
    if (wire_ == nullptr) return;
    wire_->Send(SimEnd::kClient, SimClosed{.why = Unavailable("the client has gone")});
    wire_->Detach(SimEnd::kClient);
  }

  // All calls that are still held, ended or not.
  [[nodiscard]] std::vector<CallPtr> Started() const {
    std::vector<CallPtr> held;
    for (const auto& weak : started_) {
      if (CallPtr call = weak.lock()) held.push_back(std::move(call));
    }
    return held;
  }

  // The end of the connection: all calls end, then the state is told, all in one turn.
  void Die(const Error& why) {
    if (phase_ == RpcChannelState::kGone) return;
    phase_ = RpcChannelState::kGone;
    Error for_calls = why;
    for_calls.code = why.code == Code::kUnauthenticated ? why.code : Code::kUnavailable;
    for_calls.outcome = OutcomeOfRpcStatus(for_calls.code);
    std::vector<CallPtr> calls;
    for (const auto& [id, call] : std::exchange(calls_, {})) {
      call->ended = true;
      call->deadline.Cancel();
      call->teller->Stop();
      calls.push_back(call);
    }
    // Deferred: this may run inside a verb.
    teller_->Tell([this, self = shared_from_this(), calls = std::move(calls), why, for_calls] {
      // Ends that have come and are not told yet go before the channel's own.
      for (const CallPtr& call : Started()) call->teller->Flush();
      for (const CallPtr& call : calls) {
        TellEnd(call, {.status = Fail(for_calls), .metadata = call->metadata});
      }
      if (told_ != RpcChannelState::kGone) TellState(RpcChannelState::kGone, Fail(why));
    });
    // Not at once: this may run inside one of the timers.
    deps_.loop.Post([weak = weak_from_this()] {
      if (const auto channel = weak.lock()) channel->Disconnect();
    });
  }

  Deps deps_;
  RpcTarget target_;
  RpcChannelEvents events_;
  std::shared_ptr<SimTeller> teller_;
  RpcChannelState phase_ = RpcChannelState::kIdle;  // Where it is.
  RpcChannelState told_ = RpcChannelState::kIdle;   // What its owner knows.
  std::shared_ptr<SimWire> wire_;
  Pending limit_;
  std::unique_ptr<SimKeepalive> keepalive_;
  bool going_away_ = false;
  std::map<SimCallId, CallPtr> calls_;
  std::vector<std::weak_ptr<ClientCall>> started_;
  SimCallId next_call_ = 1;
};

class CallHandle final : public RpcCall {
 public:
  CallHandle(std::shared_ptr<Channel> channel, CallPtr call)
      : channel_(std::move(channel)), call_(std::move(call)) {}
  ~CallHandle() override { channel_->Drop(call_); }

  RpcSend Send(RpcMessage message) override { return channel_->Send(call_, std::move(message)); }
  void HalfClose() override { channel_->HalfClose(call_); }
  void Pause() override { call_->teller->Pause(); }
  void Resume() override { call_->teller->Resume(); }

 private:
  std::shared_ptr<Channel> channel_;
  CallPtr call_;
};

class ChannelHandle final : public RpcChannel {
 public:
  explicit ChannelHandle(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
  ~ChannelHandle() override { channel_->Abandon(); }

  [[nodiscard]] RpcChannelState state() const override { return channel_->state(); }
  void Connect() override { channel_->Connect(); }
  void Close() override { channel_->Close(); }
  [[nodiscard]] std::unique_ptr<RpcCall> Start(std::string_view path, RpcCallOptions options,
                                               RpcCallEvents events) override {
    return std::make_unique<CallHandle>(
        channel_, channel_->Start(path, std::move(options), std::move(events)));
  }

 private:
  std::shared_ptr<Channel> channel_;
};

}  // namespace

std::unique_ptr<RpcChannel> SimRpcDialer::Dial(RpcTarget target, RpcChannelEvents events) {
  return std::make_unique<ChannelHandle>(
      std::make_shared<Channel>(Channel::Deps{.network = network_,
                                              .loop = loop_,
                                              .process = options_.process,
                                              .policy = options_.policy,
                                              .instead = options_.instead},
                                std::move(target), std::move(events)));
}

}  // namespace nstance::sim
