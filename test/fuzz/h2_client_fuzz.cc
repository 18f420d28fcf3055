// Bytes of a hostile server into a client session, TLS cut away: whatever it says, each call ends
// exactly once, messages come before the end and stay within their limit, and what the connection
// holds is bounded. The first byte decides how the rest is cut into pieces, the second what the
// client does meanwhile; the server's SETTINGS stand in front, so that frames are reached at once.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "adapters/rpc/client_session.h"
#include "base/check.h"
#include "test/adapters/rpc/raw_frames.h"

namespace nstance::grpc {
namespace {

// Holds the rules that a caller relies on.
class Handler final : public ClientCallHandler {
 public:
  ClientSession* session = nullptr;

  void OnMetadata(StreamId call, Metadata metadata) override {
    CHECK(Open(call));
    CHECK(metadata.size() <= kMaxHeaderListBytes / 32);
  }
  Status OnMessage(StreamId call, std::span<const std::uint8_t> message) override {
    CHECK(Open(call));
    CHECK(message.size() <= kClientLimits.max_message);
    if (!message.empty() && message[0] == 'p') session->Pause(call);
    if (!message.empty() && message[0] == 'c') {
      session->Cancel(call);
      ended[call] = true;
    }
    if (!message.empty() && message[0] == 'e') return Fail(Internal("undecodable"));
    return {};
  }
  void OnDrained(StreamId call) override { CHECK(Open(call)); }
  void OnEnd(StreamId call, const Status& /*status*/, Metadata /*trailing*/) override {
    CHECK(Open(call));
    ended[call] = true;
  }
  void OnGoaway(const H2Goaway& goaway) override { CHECK(goaway.debug.size() <= 256); }

  [[nodiscard]] bool Open(StreamId call) const {
    const auto at = ended.find(call);
    return at != ended.end() && !at->second;
  }

  std::map<StreamId, bool> ended;
};

void Check(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 2) return;
  const std::size_t piece = bytes[0] % 64 + 1;
  const std::uint8_t choice = bytes[1];
  bytes = bytes.subspan(2);
  Handler handler;
  ClientSession client(kClientLimits, handler, {});
  handler.session = &client;
  Instant now = Instant::FromClock(Duration::Seconds(1));
  Bytes opening;
  test::AppendFrame(opening, {.type = test::FrameType::kSettings});
  test::AppendFrame(opening, {.type = test::FrameType::kSettings, .flags = test::kAck});
  CHECK(client.Receive(opening, now).has_value());
  const Metadata metadata;
  for (int i = 0; i < 3; ++i) {
    const StreamId call = client.Start(
        {.path = "/t/any",
         .authority = "test",
         .kind = i == 0 ? RpcKind::kUnary : RpcKind::kBidirectional,
         .timeout = i == 2 ? std::optional(Duration::Milliseconds(choice)) : std::nullopt,
         .metadata = metadata},
        now);
    CHECK(call > 0);
    handler.ended[call] = false;
    client.Send(call, std::make_shared<const std::string>(std::size_t{choice} * 100, 'x'), now);
    if (choice % (i + 2) == 0) client.HalfClose(call);
  }
  Bytes out;
  while (!bytes.empty() && !client.h2().closing()) {
    out.clear();
    client.Collect(out, std::size_t{1} << 16U, now);
    const std::size_t size = std::min(piece, bytes.size());
    static_cast<void>(client.Receive(bytes.first(size), now));
    bytes = bytes.subspan(size);
    now = now + Duration::Milliseconds(10);
    client.OnTime(now);
    CHECK(client.calls() <= 3);
    if (choice % 2 == 0) client.Resume(static_cast<StreamId>(size % 3 * 2 + 1), now);
  }
  client.Lost(Unavailable("over"), ClientSession::Heard::kMaybe);
  // Ends that the server gave and a paused reader has not seen yet.
  for (const auto& [call, ended] : handler.ended) {
    if (!ended) client.Resume(call, now);
  }
}

}  // namespace
}  // namespace nstance::grpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::grpc::Check({data, size});
  return 0;
}
