// What crosses between the loop and an I/O thread of the server, as values in two queues.
//
// Towards the loop: events of calls, drained in batches, one wake-up per batch. More than
// kMaxEvents that have not been handled make the queue full; the thread then stops reading from its
// sockets until half of them are done. Towards the thread: verbs of calls, bounded by the send
// queues of the calls. Either end may go first; what is pushed afterwards is dropped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/admission.h"
#include "adapters/rpc/grpc_metadata.h"
#include "adapters/rpc/h2_session.h"
#include "adapters/rpc/untaken.h"
#include "base/result.h"
#include "ports/loop.h"
#include "ports/rpc.h"
#include "ports/rpc_codec.h"

namespace nstance::grpc {

inline constexpr std::size_t kMaxEvents = 8192;

class ThreadLink;
class ServerCall;

// One call, as both sides know it.
struct CallShared {
  std::shared_ptr<ThreadLink> link;
  ConnectionId connection = 0;
  StreamId stream = 0;
  const RpcMethod* method = nullptr;
  std::size_t queue_full = 0;
  RpcCallInfo info;
  // Bytes that have left the send queue; the thread adds, the loop subtracts it from what it sent.
  std::atomic<std::uint64_t> written = 0;
  // The loop's own: who holds the call. Null before it is accepted and after it was let go.
  ServerCall* holder = nullptr;
};

enum class CallEvent : std::uint8_t { kOpened, kMessage, kHalfClose, kCancelled, kDrained };

struct Event {
  CallEvent kind = CallEvent::kOpened;
  std::shared_ptr<CallShared> call;
  std::optional<RpcMessage> message;
  std::optional<Error> error;
  std::optional<Untaken> untaken = std::nullopt;  // The message's.
};

// kRefuse: nobody takes the call; surely nothing was done. kGoOn is about a connection: half of its
// decoded messages have been taken.
enum class CallVerb : std::uint8_t {
  kMetadata,
  kSend,
  kSendNowFull,
  kFinish,
  kPause,
  kResume,
  kRefuse,
  kGoOn,
};

struct Command {
  CallVerb verb = CallVerb::kSend;
  std::shared_ptr<CallShared> call;  // Null for kGoOn.
  RpcMessage::Encoded message;
  Status status;
  Metadata metadata;
  ConnectionId connection = 0;  // Of kGoOn.
};

class ThreadLink final : public std::enable_shared_from_this<ThreadLink> {
 public:
  // Runs on the loop when events are there, and on the thread when commands are.
  using Wake = std::function<void()>;
  ThreadLink(Wake wake_loop, Wake wake_thread)
      : wake_loop_(std::move(wake_loop)), wake_thread_(std::move(wake_thread)) {}

  // Thread.
  void Push(Event event);
  [[nodiscard]] std::vector<Command> TakeCommands();
  [[nodiscard]] bool full() const { return waiting_.load() >= kMaxEvents; }
  // Loop. Commands between HoldWake() and ReleaseWake() wake the thread once, at the end.
  void Push(Command command);
  void HoldWake();
  void ReleaseWake();
  [[nodiscard]] std::vector<Event> TakeEvents();
  // Events that were taken have been handled; true when the thread waits for that.
  [[nodiscard]] bool Handled(std::size_t count);

  // Nothing crosses any more.
  void Close();
  [[nodiscard]] bool closed() const { return closed_.load(); }

 private:
  std::mutex mutex_;
  std::atomic<bool> closed_ = false;
  Wake wake_loop_;
  Wake wake_thread_;
  std::vector<Event> events_;
  std::vector<Command> commands_;
  bool wake_held_ = false;
  bool wake_owed_ = false;
  std::atomic<std::size_t> waiting_ = 0;  // Events pushed and not handled.
};

}  // namespace nstance::grpc
