#include "test/interop/test_service.h"

#include <array>
#include <deque>
#include <utility>

#include "base/check.h"
#include "test/interop/testing.pb.h"

namespace nstance::interop {
namespace {

namespace pb = ::grpc::testing;

template <class Proto>
RpcMessageCodec CodecOf() {
  return {.decode = [](std::string_view bytes, const InputSource&) -> Result<RpcMessage> {
            Proto message;
            if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
              return Fail(InvalidArgument("not this message"));
            }
            return RpcMessage::Of(std::move(message));
          },
          .encode =
              [](const RpcMessage& message) {
                const Proto* value = message.As<Proto>();
                CHECK(value != nullptr, "another message than {}", Proto::descriptor()->name());
                return value->SerializeAsString();
              }};
}

template <class Request, class Response>
RpcMethod MethodOf(std::string_view path, RpcKind kind) {
  return {.path = std::string(path),
          .kind = kind,
          .request = CodecOf<Request>(),
          .response = CodecOf<Response>()};
}

constexpr std::array kEchoed = {kEchoInitial, kEchoTrailing};

RpcPolicyRow RowOf(const RpcMethod& method, RpcPort port) {
  RpcPolicyRow row = {.path = method.path, .port = port, .kind = method.kind, .metadata = kEchoed};
  switch (port) {
    case RpcPort::kRegistration: break;
    case RpcPort::kAgent:
      row.caller = RpcCaller::kAgent;
      row.limits = RpcLimitsClass::kAgentStream;
      break;
    case RpcPort::kOperator:
      row.caller = RpcCaller::kOperator;
      row.limits = RpcLimitsClass::kOperatorUnary;
      break;
  }
  if (method.path == kUnimplementedCall) row.offer = RpcOffer::kNotOffered;
  return row;
}

// Nothing if it cannot be made.
Result<pb::Payload> PayloadOf(pb::PayloadType type, std::int32_t size) {
  if (size < 0 || static_cast<std::size_t>(size) >= kMaxRpcMessageBytes) {
    return Fail(InvalidArgument("the size asked for is out of range"));
  }
  if (type != pb::COMPRESSABLE) return Fail(InvalidArgument("there is no such kind of payload"));
  pb::Payload payload;
  payload.set_type(type);
  payload.set_body(std::string(static_cast<std::size_t>(size), '\0'));
  return payload;
}

Status StatusOf(const pb::EchoStatus& echo) {
  if (echo.code() == 0) return {};
  return Fail(Error{.code = static_cast<Code>(echo.code()), .message = echo.message()});
}

}  // namespace

std::span<const RpcMethod> Methods() {
  static const std::vector<RpcMethod> methods = {
      MethodOf<pb::Empty, pb::Empty>(kEmptyCall, RpcKind::kUnary),
      MethodOf<pb::SimpleRequest, pb::SimpleResponse>(kUnaryCall, RpcKind::kUnary),
      MethodOf<pb::StreamingOutputCallRequest, pb::StreamingOutputCallResponse>(
          kOutputCall, RpcKind::kServerStream),
      MethodOf<pb::StreamingInputCallRequest, pb::StreamingInputCallResponse>(
          kInputCall, RpcKind::kClientStream),
      MethodOf<pb::StreamingOutputCallRequest, pb::StreamingOutputCallResponse>(
          kFullDuplexCall, RpcKind::kBidirectional),
      MethodOf<pb::StreamingOutputCallRequest, pb::StreamingOutputCallResponse>(
          kHalfDuplexCall, RpcKind::kBidirectional),
      MethodOf<pb::Empty, pb::Empty>(kUnimplementedCall, RpcKind::kUnary),
      MethodOf<pb::Empty, pb::Empty>(kUnimplementedService, RpcKind::kUnary),
  };
  return methods;
}

std::span<const RpcPolicyRow> Policy() {
  static const std::vector<RpcPolicyRow> rows = [] {
    std::vector<RpcPolicyRow> list;
    for (const RpcPort port : {RpcPort::kRegistration, RpcPort::kAgent, RpcPort::kOperator}) {
      for (const RpcMethod& method : Methods()) {
        if (method.path != kUnimplementedService) list.push_back(RowOf(method, port));
      }
    }
    return list;
  }();
  return rows;
}

// One call. `over` runs once, when it has ended; the object may go then.
class TestService::Active final {
 public:
  using Over = std::function<void(const Error* cancelled)>;
  Active(Loop& loop, std::unique_ptr<RpcServerCall> call, Over over)
      : loop_(loop),
        call_(std::move(call)),
        path_(call_->info().policy->path),
        over_(std::move(over)) {}

  void Start() {
    const RpcMetadata& asked = call_->info().metadata;
    if (const std::string* value = FindMetadata(asked, kEchoInitial); value != nullptr) {
      call_->SetResponseMetadata({{.name = std::string(kEchoInitial), .value = *value}});
    }
    if (const std::string* value = FindMetadata(asked, kEchoTrailing); value != nullptr) {
      trailing_ = {{.name = std::string(kEchoTrailing), .value = *value}};
    }
    call_->Listen({.message = [this](RpcMessage message) { OnMessage(std::move(message)); },
                   .half_close = [this] { OnHalfClose(); },
                   .cancelled = [this](const Error& why) { over_(&why); },
                   .drained =
                       [this] {
                         full_ = false;
                         Answer();
                       }});
  }

 private:
  struct Part {
    pb::PayloadType type = pb::COMPRESSABLE;
    std::int32_t size = 0;
    Duration wait = {};
  };

  void OnMessage(RpcMessage message) {
    if (const auto* in = message.As<pb::StreamingInputCallRequest>(); in != nullptr) {
      received_ += static_cast<std::int32_t>(in->payload().body().size());
    } else if (const auto* simple = message.As<pb::SimpleRequest>(); simple != nullptr) {
      AnswerSimple(*simple);
    } else if (const auto* out = message.As<pb::StreamingOutputCallRequest>(); out != nullptr) {
      TakeParts(*out);
    }
  }

  void AnswerSimple(const pb::SimpleRequest& request) {
    if (Status status = StatusOf(request.response_status()); !status) return Finish(status);
    Result<pb::Payload> payload = PayloadOf(request.response_type(), request.response_size());
    if (!payload) return Finish(Fail(payload.error()));
    pb::SimpleResponse response;
    *response.mutable_payload() = *std::move(payload);
    call_->Send(RpcMessage::Of(std::move(response)));
    Finish({});
  }

  void TakeParts(const pb::StreamingOutputCallRequest& request) {
    if (Status status = StatusOf(request.response_status()); !status) return Finish(status);
    for (const pb::ResponseParameters& one : request.response_parameters()) {
      parts_.push_back({.type = request.response_type(),
                        .size = one.size(),
                        .wait = Duration::Microseconds(one.interval_us())});
    }
    if (path_ != kHalfDuplexCall) Answer();
  }

  void OnHalfClose() {
    half_closed_ = true;
    if (path_ == kEmptyCall) {
      call_->Send(RpcMessage::Of(pb::Empty()));
      Finish({});
    } else if (path_ == kInputCall) {
      pb::StreamingInputCallResponse response;
      response.set_aggregated_payload_size(received_);
      call_->Send(RpcMessage::Of(std::move(response)));
      Finish({});
    } else if (path_ != kUnaryCall) {
      Answer();
    }
  }

  // Sends what is due; goes on when the queue has drained or the pause is over.
  void Answer() {
    if (waiting_) return;
    while (!parts_.empty() && !full_) {
      Part& part = parts_.front();
      if (part.wait > Duration()) {
        waiting_ = true;
        timer_ = loop_.CallAfter(std::exchange(part.wait, {}), [this] {
          waiting_ = false;
          Answer();
        });
        return;
      }
      Result<pb::Payload> payload = PayloadOf(part.type, part.size);
      parts_.pop_front();
      if (!payload) return Finish(Fail(payload.error()));
      pb::StreamingOutputCallResponse response;
      *response.mutable_payload() = *std::move(payload);
      full_ = call_->Send(RpcMessage::Of(std::move(response))) == RpcSend::kTakenNowFull;
    }
    if (parts_.empty() && half_closed_) Finish({});
  }

  void Finish(Status status) {
    call_->Finish(std::move(status), std::move(trailing_));
    over_(nullptr);
  }

  Loop& loop_;
  std::unique_ptr<RpcServerCall> call_;
  std::string path_;
  Over over_;
  RpcMetadata trailing_;
  std::int32_t received_ = 0;
  std::deque<Part> parts_;
  Pending timer_;
  bool waiting_ = false;
  bool full_ = false;
  bool half_closed_ = false;
};

TestService::TestService(Loop& loop) : loop_(loop) {}
TestService::~TestService() = default;

int TestService::calls(std::string_view path) const {
  const auto found = calls_.find(path);
  return found == calls_.end() ? 0 : found->second;
}

void TestService::Accept(std::unique_ptr<RpcServerCall> call) {
  ++calls_[std::string(call->info().policy->path)];
  const std::uint64_t id = next_++;
  auto active =
      std::make_unique<Active>(loop_, std::move(call), [this, id](const Error* cancelled) {
        if (cancelled != nullptr) cancelled_.push_back(*cancelled);
        // Not from inside its own event: the rest of it still runs.
        loop_.Post([this, id] { active_.erase(id); });
      });
  Active& started = *active;
  active_.emplace(id, std::move(active));
  started.Start();
}

}  // namespace nstance::interop
