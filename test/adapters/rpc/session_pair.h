// A client and a server session whose bytes are carried in memory, in pieces of any size, and the
// log of what each side was told.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "adapters/rpc/client_session.h"
#include "adapters/rpc/server_session.h"
#include "base/prng.h"

namespace nstance::grpc::test {

inline RpcMessage::Encoded Message(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

// What a text says about a message: short ones whole, long ones by length.
inline std::string Shown(std::span<const std::uint8_t> message) {
  return message.size() <= 32 ? std::string(AsText(message))
                              : fmt::format("<{} bytes>", message.size());
}

// Paths decide what the server does: /t/unary echoes when the request is complete, /t/echo echoes
// every message, /t/early finishes at the first one, /t/hold and /t/one do nothing by themselves.
class ScriptedServer final : public ServerCallHandler {
 public:
  std::vector<std::string> log;
  std::map<StreamId, std::string> paths;
  std::map<StreamId, Metadata> metadata;
  std::map<StreamId, std::string> unary;
  ServerSession* session = nullptr;
  Instant now;
  std::size_t hold_up_at = 0;  // So many lines of the log hold the connection up.

  Result<ServerCallRules> OnCall(StreamId call, RequestHead head) override {
    log.push_back(fmt::format("{} call {}", call, head.path));
    paths[call] = head.path;
    metadata[call] = head.metadata;
    const Instant deadline = head.timeout ? now + *head.timeout : Instant::Never();
    if (head.path == "/t/unary" || head.path == "/t/one") {
      return ServerCallRules{.kind = RpcKind::kUnary, .deadline = deadline};
    }
    if (head.path == "/t/echo" || head.path == "/t/early" || head.path == "/t/hold") {
      return ServerCallRules{.kind = RpcKind::kBidirectional, .deadline = deadline};
    }
    return Fail({.code = Code::kUnimplemented, .message = "no method " + head.path});
  }
  Status OnMessage(StreamId call, std::span<const std::uint8_t> message) override {
    log.push_back(fmt::format("{} message {}", call, Shown(message)));
    if (log.size() == hold_up_at) session->HoldUp();
    if (AsText(message) == "undecodable") return Fail(InvalidArgument("undecodable"));
    if (paths[call] == "/t/unary") unary[call] = AsText(message);
    if (paths[call] == "/t/echo") {
      session->Send(call, Message(std::string(AsText(message))), ServerSession::Queue::kBelow, now);
    }
    if (paths[call] == "/t/early") session->Finish(call, Fail(Aborted("early")), {});
    return {};
  }
  void OnHalfClose(StreamId call) override {
    log.push_back(fmt::format("{} half-close", call));
    if (paths[call] == "/t/unary") {
      session->SetMetadata(call, {{.name = "x-head", .value = "1"}});
      session->Send(call, Message(unary[call]), ServerSession::Queue::kBelow, now);
      session->Finish(call, {}, {{.name = "x-trail-bin", .value = std::string("\0\xff", 2)}});
    } else if (paths[call] != "/t/hold") {
      session->Finish(call, {}, {});
    }
  }
  void OnCancelled(StreamId call, const Error& why) override {
    log.push_back(fmt::format("{} cancelled {}", call, CodeName(why.code)));
  }
  void OnWritten(StreamId call, std::size_t bytes) override { written[call] += bytes; }
  void OnDrained(StreamId call) override { log.push_back(fmt::format("{} drained", call)); }
  void OnGone(StreamId call) override { log.push_back(fmt::format("{} gone", call)); }

  std::map<StreamId, std::size_t> written;
};

class RecordingClient final : public ClientCallHandler {
 public:
  std::vector<std::string> log;
  std::map<StreamId, Status> ends;
  std::map<StreamId, Metadata> metadata;
  std::map<StreamId, Metadata> trailing;

  void OnMetadata(StreamId call, Metadata received) override {
    metadata[call] = std::move(received);
  }
  Status OnMessage(StreamId call, std::span<const std::uint8_t> message) override {
    log.push_back(fmt::format("{} message {}", call, Shown(message)));
    return {};
  }
  void OnDrained(StreamId call) override { log.push_back(fmt::format("{} drained", call)); }
  void OnEnd(StreamId call, const Status& status, Metadata received) override {
    log.push_back(
        fmt::format("{} end {}", call, status.has_value() ? "OK" : status.error().ToString()));
    ends[call] = status;
    trailing[call] = std::move(received);
  }
  void OnGoaway(const H2Goaway& goaway) override {
    log.push_back(fmt::format("goaway {} {}", static_cast<int>(goaway.code), goaway.debug));
  }
};

class SessionPair {
 public:
  explicit SessionPair(const SessionLimits& limits = kAgentLimits)
      : server(limits, server_handler, {}), client(kClientLimits, client_handler, {}) {
    server_handler.session = &server;
    SetTime(Instant::FromClock(Duration::Seconds(1'000)));
    Pump();
  }

  ScriptedServer server_handler;
  RecordingClient client_handler;
  ServerSession server;
  ClientSession client;
  Instant now;
  Prng* cut = nullptr;  // How bytes are cut; whole when null.

  void SetTime(Instant at) {
    now = at;
    server_handler.now = at;
  }
  void Advance(Duration by) {
    SetTime(now + by);
    server.OnTime(now);
    client.OnTime(now);
    Pump();
  }

  // Carries bytes both ways until neither side has more to say.
  void Pump() {
    for (;;) {
      Bytes up;
      client.Collect(up, std::size_t{1} << 20U, now);
      Bytes down;
      server.Collect(down, std::size_t{1} << 20U, now);
      if (up.empty() && down.empty()) return;
      Carry(up, [&](std::span<const std::uint8_t> piece) {
        static_cast<void>(server.Receive(piece, now));
      });
      Carry(down, [&](std::span<const std::uint8_t> piece) {
        static_cast<void>(client.Receive(piece, now));
      });
    }
  }

  StreamId Start(std::string_view path, RpcKind kind = RpcKind::kBidirectional,
                 std::optional<Duration> timeout = std::nullopt) {
    const Metadata metadata = {{.name = "x-ask", .value = "why"}};
    return client.Start({.path = path,
                         .authority = "test:1",
                         .kind = kind,
                         .timeout = timeout,
                         .metadata = metadata},
                        now);
  }
  ClientSession::Taken Send(StreamId call, std::string text) {
    return client.Send(call, Message(std::move(text)), now);
  }
  StreamId Unary(std::string_view path, std::string text,
                 std::optional<Duration> timeout = std::nullopt) {
    const StreamId call = Start(path, RpcKind::kUnary, timeout);
    Send(call, std::move(text));
    client.HalfClose(call);
    Pump();
    return call;
  }
  [[nodiscard]] Error EndOf(StreamId call) {
    const auto at = client_handler.ends.find(call);
    if (at == client_handler.ends.end()) return {.code = Code::kUnknown, .message = "not ended"};
    return at->second.has_value() ? Error{.code = Code::kUnknown, .message = "OK"}
                                  : at->second.error();
  }
  [[nodiscard]] bool Ok(StreamId call) {
    const auto at = client_handler.ends.find(call);
    return at != client_handler.ends.end() && at->second.has_value();
  }

 private:
  template <class Sink>
  void Carry(std::span<const std::uint8_t> bytes, Sink&& sink) {
    while (!bytes.empty()) {
      const std::size_t size =
          cut == nullptr
              ? bytes.size()
              : std::min<std::size_t>(bytes.size(), cut->Below(cut->Chance(1, 2) ? 4 : 400) + 1);
      sink(bytes.first(size));
      bytes = bytes.subspan(size);
    }
  }
};

}  // namespace nstance::grpc::test
