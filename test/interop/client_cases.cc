#include "test/interop/client_cases.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "test/interop/test_service.h"
#include "test/interop/testing.pb.h"
#include "test/support/loop_runner.h"

namespace nstance::interop {
namespace {

namespace pb = ::grpc::testing;

constexpr std::int32_t kLargeRequest = 271828;
constexpr std::int32_t kLargeResponse = 314159;
constexpr std::array<std::int32_t, 4> kRequestSizes = {27182, 8, 1828, 45904};
constexpr std::array<std::int32_t, 4> kResponseSizes = {31415, 9, 2653, 58979};

// A call and what it was told.
struct Call {
  std::unique_ptr<RpcCall> call;
  std::optional<RpcMetadata> metadata;
  std::vector<RpcMessage> messages;
  std::optional<RpcEnd> end;

  [[nodiscard]] bool good() const { return end && end->status.has_value(); }
  [[nodiscard]] std::string told() const {
    if (!end) return "has not ended";
    return end->status ? "OK" : end->status.error().ToString();
  }
};

std::unique_ptr<Call> Start(CaseClient& client, std::string_view path,
                            RpcCallOptions options = {}) {
  auto call = std::make_unique<Call>();
  Call* raw = call.get();
  raw->call = client.channel.Start(
      path, std::move(options),
      {.metadata = [raw](const RpcMetadata& metadata) { raw->metadata = metadata; },
       .message = [raw](RpcMessage message) { raw->messages.push_back(std::move(message)); },
       .drained = {},
       .end = [raw](const RpcEnd& end) { raw->end = end; }});
  return call;
}

bool UntilMessages(CaseClient& client, const Call& call, std::size_t count) {
  return test::RunUntil(client.loop, [&] { return call.messages.size() >= count || call.end; }) &&
         call.messages.size() == count;
}

bool UntilEnd(CaseClient& client, const Call& call) {
  return test::RunUntil(client.loop, [&] { return call.end.has_value(); });
}

std::unique_ptr<Call> Unary(CaseClient& client, std::string_view path, RpcMessage message,
                            RpcCallOptions options = {}) {
  auto call = Start(client, path, std::move(options));
  EXPECT_EQ(call->call->Send(std::move(message)) == RpcSend::kRefused, false);
  EXPECT_TRUE(UntilEnd(client, *call));
  return call;
}

pb::Payload Zeros(std::int32_t size) {
  pb::Payload payload;
  payload.set_body(std::string(static_cast<std::size_t>(size), '\0'));
  return payload;
}

pb::SimpleRequest LargeRequest() {
  pb::SimpleRequest request;
  request.set_response_size(kLargeResponse);
  *request.mutable_payload() = Zeros(kLargeRequest);
  return request;
}

pb::StreamingOutputCallRequest Asking(std::int32_t response, std::int32_t payload) {
  pb::StreamingOutputCallRequest request;
  request.add_response_parameters()->set_size(response);
  *request.mutable_payload() = Zeros(payload);
  return request;
}

std::size_t SizeOf(const RpcMessage& message) {
  const auto* response = message.As<pb::StreamingOutputCallResponse>();
  return response == nullptr ? 0 : response->payload().body().size();
}

// The connection has taken no harm.
void ExpectStillGood(CaseClient& client) {
  const auto call = Unary(client, kEmptyCall, RpcMessage::Of(pb::Empty()));
  EXPECT_TRUE(call->good()) << call->told();
}

void EmptyUnary(CaseClient& client) {
  const auto call = Unary(client, kEmptyCall, RpcMessage::Of(pb::Empty()));
  ASSERT_TRUE(call->good()) << call->told();
  ASSERT_EQ(call->messages.size(), 1);
  EXPECT_EQ(call->messages[0].As<pb::Empty>()->ByteSizeLong(), 0);
}

void LargeUnary(CaseClient& client) {
  const auto call = Unary(client, kUnaryCall, RpcMessage::Of(LargeRequest()));
  ASSERT_TRUE(call->good()) << call->told();
  ASSERT_EQ(call->messages.size(), 1);
  const pb::Payload& payload = call->messages[0].As<pb::SimpleResponse>()->payload();
  EXPECT_EQ(payload.type(), pb::COMPRESSABLE);
  EXPECT_EQ(payload.body(), std::string(kLargeResponse, '\0'));
}

void ClientStreaming(CaseClient& client) {
  const auto call = Start(client, kInputCall);
  for (const std::int32_t size : kRequestSizes) {
    pb::StreamingInputCallRequest request;
    *request.mutable_payload() = Zeros(size);
    EXPECT_EQ(call->call->Send(RpcMessage::Of(std::move(request))), RpcSend::kTaken);
  }
  call->call->HalfClose();
  ASSERT_TRUE(UntilEnd(client, *call));
  ASSERT_TRUE(call->good()) << call->told();
  ASSERT_EQ(call->messages.size(), 1);
  EXPECT_EQ(call->messages[0].As<pb::StreamingInputCallResponse>()->aggregated_payload_size(),
            74922);
}

void ServerStreaming(CaseClient& client) {
  pb::StreamingOutputCallRequest request;
  for (const std::int32_t size : kResponseSizes) {
    request.add_response_parameters()->set_size(size);
  }
  const auto call = Unary(client, kOutputCall, RpcMessage::Of(std::move(request)));
  ASSERT_TRUE(call->good()) << call->told();
  ASSERT_EQ(call->messages.size(), kResponseSizes.size());
  for (std::size_t i = 0; i < kResponseSizes.size(); ++i) {
    EXPECT_EQ(SizeOf(call->messages[i]), kResponseSizes.at(i));
  }
}

void PingPong(CaseClient& client) {
  const auto call = Start(client, kFullDuplexCall);
  for (std::size_t i = 0; i < kRequestSizes.size(); ++i) {
    call->call->Send(RpcMessage::Of(Asking(kResponseSizes.at(i), kRequestSizes.at(i))));
    ASSERT_TRUE(UntilMessages(client, *call, i + 1)) << call->told();
    EXPECT_EQ(SizeOf(call->messages[i]), kResponseSizes.at(i));
  }
  EXPECT_FALSE(call->end.has_value());
  call->call->HalfClose();
  ASSERT_TRUE(UntilEnd(client, *call));
  EXPECT_TRUE(call->good()) << call->told();
  EXPECT_EQ(call->messages.size(), kRequestSizes.size());
}

void EmptyStream(CaseClient& client) {
  const auto call = Start(client, kFullDuplexCall);
  call->call->HalfClose();
  ASSERT_TRUE(UntilEnd(client, *call));
  EXPECT_TRUE(call->good()) << call->told();
  EXPECT_TRUE(call->messages.empty());
}

void TimeoutOnSleepingServer(CaseClient& client) {
  const auto call =
      Start(client, kFullDuplexCall, {.timeout = Duration::Milliseconds(1), .metadata = {}});
  pb::StreamingOutputCallRequest request;
  *request.mutable_payload() = Zeros(27182);
  call->call->Send(RpcMessage::Of(std::move(request)));
  ASSERT_TRUE(UntilEnd(client, *call));
  ASSERT_FALSE(call->good());
  EXPECT_EQ(call->end->status.error().code, Code::kDeadlineExceeded) << call->told();
  ExpectStillGood(client);
}

void CancelAfterBegin(CaseClient& client) {
  auto call = Start(client, kInputCall);
  call->call.reset();
  ExpectStillGood(client);
  EXPECT_FALSE(call->end.has_value()) << "a call that was let go is told nothing";
}

void CancelAfterFirstResponse(CaseClient& client) {
  auto call = Start(client, kFullDuplexCall);
  call->call->Send(RpcMessage::Of(Asking(31415, 27182)));
  ASSERT_TRUE(UntilMessages(client, *call, 1)) << call->told();
  call->call.reset();
  ExpectStillGood(client);
  EXPECT_FALSE(call->end.has_value()) << "a call that was let go is told nothing";
}

void ExpectStatus(const Call& call, Code code, const std::string& message) {
  ASSERT_TRUE(call.end.has_value());
  ASSERT_FALSE(call.good());
  EXPECT_EQ(call.end->status.error().code, code);
  EXPECT_EQ(call.end->status.error().message, message);
}

void StatusCodeAndMessage(CaseClient& client) {
  const std::string text = "test status message";
  pb::SimpleRequest simple;
  simple.mutable_response_status()->set_code(2);
  simple.mutable_response_status()->set_message(text);
  ExpectStatus(*Unary(client, kUnaryCall, RpcMessage::Of(std::move(simple))), Code::kUnknown, text);
  pb::StreamingOutputCallRequest request;
  request.mutable_response_status()->set_code(2);
  request.mutable_response_status()->set_message(text);
  const auto call = Start(client, kFullDuplexCall);
  call->call->Send(RpcMessage::Of(std::move(request)));
  call->call->HalfClose();
  ASSERT_TRUE(UntilEnd(client, *call));
  ExpectStatus(*call, Code::kUnknown, text);
}

void SpecialStatusMessage(CaseClient& client) {
  const std::string text =
      "\t\ntest with whitespace\r\nand Unicode BMP \u263A and non-BMP \U0001F608\t\n";
  pb::SimpleRequest request;
  request.mutable_response_status()->set_code(2);
  request.mutable_response_status()->set_message(text);
  ExpectStatus(*Unary(client, kUnaryCall, RpcMessage::Of(std::move(request))), Code::kUnknown,
               text);
}

void ExpectEchoed(const Call& call) {
  ASSERT_TRUE(call.good()) << call.told();
  ASSERT_TRUE(call.metadata.has_value());
  const std::string* initial = FindMetadata(*call.metadata, kEchoInitial);
  const std::string* trailing = FindMetadata(call.end->trailing, kEchoTrailing);
  ASSERT_NE(initial, nullptr);
  EXPECT_EQ(*initial, "test_initial_metadata_value");
  ASSERT_NE(trailing, nullptr);
  EXPECT_EQ(*trailing, "\xab\xab\xab");
  EXPECT_EQ(FindMetadata(*call.metadata, kEchoTrailing), nullptr);
}

void CustomMetadata(CaseClient& client) {
  const RpcCallOptions options = {
      .timeout = std::nullopt,
      .metadata = {{.name = std::string(kEchoInitial), .value = "test_initial_metadata_value"},
                   {.name = std::string(kEchoTrailing), .value = "\xab\xab\xab"}}};
  ExpectEchoed(*Unary(client, kUnaryCall, RpcMessage::Of(LargeRequest()), options));
  const auto call = Start(client, kFullDuplexCall, options);
  call->call->Send(RpcMessage::Of(Asking(kLargeResponse, kLargeRequest)));
  ASSERT_TRUE(UntilMessages(client, *call, 1)) << call->told();
  call->call->HalfClose();
  ASSERT_TRUE(UntilEnd(client, *call));
  ExpectEchoed(*call);
}

void UnimplementedMethod(CaseClient& client) {
  const auto call = Unary(client, kUnimplementedCall, RpcMessage::Of(pb::Empty()));
  ASSERT_FALSE(call->good());
  EXPECT_EQ(call->end->status.error().code, Code::kUnimplemented) << call->told();
  EXPECT_EQ(call->end->status.error().outcome, Outcome::kNotDone);
}

void UnimplementedService(CaseClient& client) {
  const auto call = Unary(client, kUnimplementedService, RpcMessage::Of(pb::Empty()));
  ASSERT_FALSE(call->good());
  EXPECT_EQ(call->end->status.error().code, Code::kUnimplemented) << call->told();
  EXPECT_EQ(call->end->status.error().outcome, Outcome::kNotDone);
}

constexpr std::array kCases = {
    ClientCase{.name = "empty_unary", .run = &EmptyUnary},
    ClientCase{.name = "large_unary", .run = &LargeUnary},
    ClientCase{.name = "client_streaming", .run = &ClientStreaming},
    ClientCase{.name = "server_streaming", .run = &ServerStreaming},
    ClientCase{.name = "ping_pong", .run = &PingPong},
    ClientCase{.name = "empty_stream", .run = &EmptyStream},
    ClientCase{.name = "timeout_on_sleeping_server", .run = &TimeoutOnSleepingServer},
    ClientCase{.name = "cancel_after_begin", .run = &CancelAfterBegin},
    ClientCase{.name = "cancel_after_first_response", .run = &CancelAfterFirstResponse},
    ClientCase{.name = "status_code_and_message", .run = &StatusCodeAndMessage},
    ClientCase{.name = "special_status_message", .run = &SpecialStatusMessage},
    ClientCase{.name = "custom_metadata", .run = &CustomMetadata},
    ClientCase{.name = "unimplemented_method", .run = &UnimplementedMethod},
    ClientCase{.name = "unimplemented_service", .run = &UnimplementedService},
};

}  // namespace

std::span<const ClientCase> ClientCases() { return kCases; }

void RunClientCase(std::string_view name, CaseClient client) {
  for (const ClientCase& one : kCases) {
    if (one.name == name) return one.run(client);
  }
  ADD_FAILURE() << "there is no case " << name;
}

}  // namespace nstance::interop
