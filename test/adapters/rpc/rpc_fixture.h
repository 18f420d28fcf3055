// A server and clients on loopback whose messages are plain texts, and a loop that runs until
// something is true.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc/rpc_server.h"
#include "adapters/rpc/untaken.h"
#include "test/adapters/rpc/rpc_materials.h"
#include "test/support/loop_runner.h"

namespace nstance::grpc::test {

// How many messages have been decoded, by all threads.
inline std::atomic<std::size_t>& Decoded() {
  static std::atomic<std::size_t> count = 0;
  return count;
}

inline RpcMessageCodec TextCodec() {
  return {.decode = [](std::string_view bytes, const InputSource&) -> Result<RpcMessage> {
            if (bytes == "undecodable") return Fail(InvalidArgument("not a message"));
            ++Decoded();
            RpcMessage message = RpcMessage::Of(std::string(bytes));
            if (bytes == "heavy") message.SetWeight(kMaxUntakenBytes / 4);
            return message;
          },
          .encode = [](const RpcMessage& message) { return *message.As<std::string>(); }};
}

inline RpcMessage Text(std::string text) { return RpcMessage::Of(std::move(text)); }

inline constexpr std::string_view kUnary = "/t.Agent/Unary";
inline constexpr std::string_view kEcho = "/t.Agent/Echo";
inline constexpr std::string_view kWatch = "/t.Operator/Watch";
inline constexpr std::string_view kJoin = "/t.Registration/Join";
inline constexpr std::string_view kLater = "/t.Agent/Later";
inline constexpr std::string_view kMissing = "/t.Agent/Missing";

inline const std::vector<RpcMethod>& Methods() {
  static const std::vector<RpcMethod> methods = [] {
    std::vector<RpcMethod> list;
    for (const auto& [path, kind] :
         std::vector<std::pair<std::string_view, RpcKind>>{{kUnary, RpcKind::kUnary},
                                                           {kEcho, RpcKind::kBidirectional},
                                                           {kWatch, RpcKind::kServerStream},
                                                           {kJoin, RpcKind::kUnary},
                                                           {kLater, RpcKind::kUnary},
                                                           {kMissing, RpcKind::kUnary}}) {
      list.push_back({.path = std::string(path),
                      .kind = kind,
                      .request = TextCodec(),
                      .response = TextCodec()});
    }
    return list;
  }();
  return methods;
}

inline const std::vector<RpcPolicyRow>& Policy() {
  static constexpr std::array<std::string_view, 1> kNames = {"x-asked"};
  static const std::vector<RpcPolicyRow> rows = {{.path = kUnary,
                                                  .port = RpcPort::kAgent,
                                                  .kind = RpcKind::kUnary,
                                                  .caller = RpcCaller::kAgent,
                                                  .limits = RpcLimitsClass::kAgentUnary,
                                                  .time_limit = Duration::Seconds(60),
                                                  .metadata = kNames},
                                                 {.path = kEcho,
                                                  .port = RpcPort::kAgent,
                                                  .kind = RpcKind::kBidirectional,
                                                  .caller = RpcCaller::kAgent,
                                                  .limits = RpcLimitsClass::kAgentStream},
                                                 {.path = kWatch,
                                                  .port = RpcPort::kOperator,
                                                  .kind = RpcKind::kServerStream,
                                                  .caller = RpcCaller::kOperator,
                                                  .limits = RpcLimitsClass::kWatch},
                                                 {.path = kJoin,
                                                  .port = RpcPort::kRegistration,
                                                  .kind = RpcKind::kUnary,
                                                  .caller = RpcCaller::kAnybody,
                                                  .limits = RpcLimitsClass::kRegistration},
                                                 {.path = kLater,
                                                  .port = RpcPort::kAgent,
                                                  .kind = RpcKind::kUnary,
                                                  .caller = RpcCaller::kAgent,
                                                  .offer = RpcOffer::kNotOffered}};
  return rows;
}

class QuietSink final : public log::Sink {
 public:
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return false; }
  void Write(const log::Record& /*record*/) override {}
};

// A channel and what it was told.
struct TestClient {
  std::unique_ptr<RpcChannel> channel;
  std::vector<RpcChannelState> states;
  Status gone;
  [[nodiscard]] bool ready() const { return channel->state() == RpcChannelState::kReady; }
  [[nodiscard]] bool is_gone() const { return channel->state() == RpcChannelState::kGone; }
};

// A call and what it was told.
struct TestCall {
  std::unique_ptr<RpcCall> call;
  std::vector<std::string> messages;
  std::size_t bytes = 0;
  int drained = 0;
  std::optional<RpcEnd> end;
};

// Whatever arrives is kept; `unary` answers at once with the text in brackets, streams are echoed.
struct TestHandler {
  std::unique_ptr<RpcServerCall> call;
  std::vector<std::string> messages;
  std::size_t bytes = 0;
  int drained = 0;
  bool half_closed = false;
  std::optional<Error> cancelled;
};

class RpcFixture : public testing::Test {
 public:
  ~RpcFixture() override {
    // What is still open goes before the loop.
    clients_.clear();
    calls_.clear();
    for (const auto& handler : handlers_) handler->call.reset();  // Its events hold the handler.
    handlers_.clear();
  }

  [[nodiscard]] bool Until(const std::function<bool()>& condition) {
    return nstance::test::RunUntil(loop_, condition);
  }

  RpcAddress Open(RpcPort port) {
    std::optional<Result<RpcAddress>> opened;
    const Pending pending = server_->Open(
        {.port = port,
         .bind = {.host = "127.0.0.1", .port = 0},
         .accept = [this](std::unique_ptr<RpcServerCall> call) { Accept(std::move(call)); }},
        [&](Result<RpcAddress> address) { opened = std::move(address); });
    EXPECT_TRUE(Until([&] { return opened.has_value(); }));
    EXPECT_TRUE(opened->has_value()) << opened->error().ToString();
    return opened->value_or(RpcAddress{});
  }

  void Accept(std::unique_ptr<RpcServerCall> call) {
    auto handler = std::make_shared<TestHandler>();
    handler->call = std::move(call);
    handlers_.push_back(handler);
    const std::string path(handler->call->info().policy->path);
    const bool echo = path == kEcho && echo_;
    const bool single = path == kUnary || path == kJoin;
    handler->call->Listen({.message =
                               [handler, echo, single](RpcMessage message) {
                                 const std::string& text = *message.As<std::string>();
                                 handler->bytes += text.size();
                                 handler->messages.push_back(text.size() < 100 ? text : "");
                                 if (text == "hang") return;
                                 if (text == "drop") return handler->call.reset();
                                 if (echo) handler->call->Send(std::move(message));
                                 if (!single) return;
                                 handler->call->SetResponseMetadata(
                                     {{.name = "x-head", .value = "1"}});
                                 handler->call->Send(Text("[" + text + "]"));
                                 handler->call->Finish({}, {{.name = "x-tail", .value = "2"}});
                               },
                           .half_close =
                               [handler, echo] {
                                 handler->half_closed = true;
                                 if (echo) handler->call->Finish({}, {});
                               },
                           .cancelled = [handler](const Error& why) { handler->cancelled = why; },
                           .drained = [handler] { ++handler->drained; }});
  }

  TestClient& Dial(const RpcAddress& address, RpcTls tls, const std::string& host = "") {
    auto client = std::make_unique<TestClient>();
    TestClient* raw = client.get();
    RpcTarget target = {.address = address, .tls = std::move(tls)};
    if (!host.empty()) target.address.host = host;
    raw->channel = dialer_.Dial(target, {.state = [raw](RpcChannelState state, const Status& why) {
                                  raw->states.push_back(state);
                                  raw->gone = why;
                                }});
    raw->channel->Connect();
    clients_.push_back(std::move(client));
    return *raw;
  }
  TestClient& Ready(const RpcAddress& address, Who who) {
    TestClient& client = Dial(address, ClientMaterial(who));
    EXPECT_TRUE(Until([&] { return client.ready() || client.is_gone(); }));
    EXPECT_TRUE(client.ready()) << (client.gone ? "" : client.gone.error().ToString());
    return client;
  }

  TestCall& Start(TestClient& client, std::string_view path, RpcCallOptions options = {}) {
    auto call = std::make_unique<TestCall>();
    TestCall* raw = call.get();
    raw->call = client.channel->Start(path, std::move(options),
                                      {.metadata = {},
                                       .message =
                                           [raw](RpcMessage message) {
                                             const std::string& text = *message.As<std::string>();
                                             raw->bytes += text.size();
                                             raw->messages.push_back(text.size() < 100 ? text : "");
                                           },
                                       .drained = [raw] { ++raw->drained; },
                                       .end = [raw](const RpcEnd& end) { raw->end = end; }});
    calls_.push_back(std::move(call));
    return *raw;
  }
  TestCall& Unary(TestClient& client, std::string_view path, std::string text,
                  RpcCallOptions options = {}) {
    TestCall& call = Start(client, path, std::move(options));
    call.call->Send(Text(std::move(text)));
    EXPECT_TRUE(Until([&] { return call.end.has_value(); }));
    return call;
  }
  [[nodiscard]] static Code CodeOf(const TestCall& call) {
    return !call.end || call.end->status ? Code::kUnknown : call.end->status.error().code;
  }

  // What the server's threads have counted so far: `bad_input_total` by reason, or
  // `limit_hits_total` by limit.
  [[nodiscard]] std::uint64_t Counted(const std::string& family, std::string_view label) {
    std::optional<metrics::Snapshot> snapshot;
    const Pending taking =
        server_->TakeMetrics([&](metrics::Snapshot taken) { snapshot = std::move(taken); });
    EXPECT_TRUE(Until([&] { return snapshot.has_value(); }));
    double sum = 0;
    for (const metrics::Series& series : (*snapshot)[family].series) {
      if (series.labels.back() == label) sum += series.value;
    }
    return static_cast<std::uint64_t>(sum);
  }
  [[nodiscard]] std::uint64_t LimitHits(std::string_view limit) {
    return Counted("limit_hits_total", limit);
  }
  [[nodiscard]] std::uint64_t BadInput(std::string_view reason) {
    return Counted("bad_input_total", reason);
  }

  // A server with limits_ and rules_ as they are now.
  void Remake() { server_ = MakeServer(); }

  RealLoop loop_;
  QuietSink sink_;
  bool echo_ = true;
  RulesOfListeners rules_;
  AdmissionLimits limits_ = {.loopback = AdmissionLimits::Loopback::kExempt};
  std::vector<std::shared_ptr<TestHandler>> handlers_;
  std::vector<std::unique_ptr<TestCall>> calls_;
  std::vector<std::unique_ptr<TestClient>> clients_;
  std::unique_ptr<SocketRpcServer> server_ = MakeServer();
  SocketRpcDialer dialer_{{.loop = loop_, .methods = Methods()}};

 private:
  std::unique_ptr<SocketRpcServer> MakeServer() {
    auto server =
        std::make_unique<SocketRpcServer>(RpcServerSetup{.loop = loop_,
                                                         .methods = Methods(),
                                                         .policy = Policy(),
                                                         .logger = log::Logger(sink_, "rpc"),
                                                         .limits = limits_,
                                                         .io_threads = 2,
                                                         .rules = rules_});
    const Status set = server->SetTls(ServerMaterial());
    EXPECT_TRUE(set.has_value());
    return server;
  }
};

}  // namespace nstance::grpc::test
