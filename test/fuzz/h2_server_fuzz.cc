// Bytes into a server session, TLS cut away: any bytes are calls that are answered, calls that are
// refused, or an end of the connection. The first byte decides how the rest is cut into pieces; the
// client's preface and SETTINGS are put in front, so that frames are reached at once.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "adapters/rpc/server_session.h"
#include "base/check.h"
#include "test/adapters/rpc/raw_frames.h"

namespace nstance::grpc {
namespace {

// Answers everything that it is asked, and holds the rules that a handler relies on.
class Handler final : public ServerCallHandler {
 public:
  ServerSession* session = nullptr;
  Instant now = Instant::FromClock(Duration::Seconds(1));

  Result<ServerCallRules> OnCall(StreamId call, RequestHead head) override {
    CHECK(!open.contains(call));
    if (head.path == "/none") return Fail(NotFound("none"));
    open[call] = false;
    return ServerCallRules{.kind = head.path == "/one" ? RpcKind::kUnary : RpcKind::kBidirectional,
                           .deadline = head.timeout ? now + *head.timeout : Instant::Never()};
  }
  Status OnMessage(StreamId call, std::span<const std::uint8_t> message) override {
    CHECK(open.contains(call) && !open[call]);
    CHECK(message.size() <= kRegistrationLimits.max_message);
    if (!message.empty() && message[0] == 'p') session->Pause(call);
    if (!message.empty() && message[0] == 'f') {
      session->Finish(call, {}, {});
      open[call] = true;
      return {};
    }
    session->Send(call, std::make_shared<const std::string>(AsText(message)),
                  ServerSession::Queue::kFull, now);
    return {};
  }
  void OnHalfClose(StreamId call) override {
    CHECK(open.contains(call) && !open[call]);
    session->Finish(call, {}, {});
    open[call] = true;
  }
  void OnCancelled(StreamId call, const Error& why) override {
    CHECK(open.contains(call) && !open[call] && !why.message.empty());
    open[call] = true;
  }
  void OnWritten(StreamId call, std::size_t bytes) override {
    CHECK(open.contains(call) && bytes > 0);
  }
  void OnDrained(StreamId call) override { CHECK(open.contains(call) && !open[call]); }
  void OnGone(StreamId call) override { CHECK(open.erase(call) == 1); }

  std::map<StreamId, bool> open;  // Value: the handler has been told, or has said, the end.
};

void Check(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return;
  const std::size_t piece = bytes[0] % 64 + 1;
  bytes = bytes.subspan(1);
  Handler handler;
  ServerSession server(kRegistrationLimits, handler, {});
  handler.session = &server;
  Bytes out;
  CHECK(server.Receive(test::ClientOpening(), handler.now).has_value());
  while (!bytes.empty() && !server.h2().closing()) {
    const std::size_t size = std::min(piece, bytes.size());
    static_cast<void>(server.Receive(bytes.first(size), handler.now));
    bytes = bytes.subspan(size);
    out.clear();
    server.Collect(out, std::size_t{1} << 16U, handler.now);
    handler.now = handler.now + Duration::Milliseconds(10);
    server.OnTime(handler.now);
    CHECK(server.calls() <= kRegistrationLimits.max_streams);
  }
  server.Lost(Unavailable("over"));
  CHECK(handler.open.empty());
}

}  // namespace
}  // namespace nstance::grpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::grpc::Check({data, size});
  return 0;
}
