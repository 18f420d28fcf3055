// RPC as a port: calls of four kinds between a server that knows who is calling and a client that
// knows whether it may have been heard.
//
// Two levels meet here. Above are typed messages: server, agent, operator and admin code handles
// structs of ports/api inside an RpcMessage and never sees bytes, protobuf, HTTP/2 or TLS. Below
// are bytes. What lies between is a table of RpcMethod (ports/rpc_codec.h), so that the transport
// needs to know no message type and the codec no socket:
//
//   server, agent, operator, admin     RpcServer, RpcServerCall, RpcDialer, RpcChannel, RpcCall
//   ─────────── ports/rpc.h ────────────────────────────────────────────────────────────────────
//   adapters/rpc   implements them on sockets. Is made with
//                    std::span<const RpcMethod>      path -> kind, decode, encode
//                    std::span<const RpcPolicyRow>   who may call what (core/rpc_policy.h)
//                  Decodes on its I/O thread as soon as a message is whole, encodes in Send() on
//                  the caller's thread (EncodeShared). Everything below that is its own business.
//   adapters/rpc_codec   makes the RpcMethod table of nstance.v1; no sockets, no threads
//   sim/sim_rpc    implements the same port in virtual time, passing the structs
//
// Common rules, for both sides:
//   - everything is called, and every event comes, on the loop that the server or dialer was made
//     for; no event comes from inside a verb
//   - messages arrive whole, in the order sent, each once; the half-close after all of them
//   - an event may destroy the call, the channel or the server that it came from
//   - destroying a call is cancelling it: no event comes afterwards
//
// Back-pressure, the same on both sides. Send() takes a message whole while the queue is below its
// limit and says when that made it full; then the sender stops until `drained`, which comes once
// per "full". The receiver's Pause() withholds messages and what follows them in order (the
// half-close, the end by Finish()) until Resume(); every other end comes all the same. The sender
// then fills up and stops.
//
// The end. A server's Finish(), with its status and trailing metadata, is delivered after all
// messages sent before. Anything else that ends a call (reset, deadline, lost connection, a closed
// identity, a limit) may overtake and drop messages under way. Either side learns of it in one last
// event, and verbs called after the end do nothing.
//
// Outcomes at the client. A status that the server gave on purpose is kNotDone where it says that
// nothing was done: INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED,
// UNAUTHENTICATED, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, ABORTED, UNIMPLEMENTED, OUT_OF_RANGE.
// So is a call that was refused or never sent. Every other end after sending is kMaybeDone.
//
// A handler, server side:
//
//   void OnCall(std::unique_ptr<RpcServerCall> call) {        // The RpcAcceptor of the listener.
//     call_ = std::move(call);
//     call_->Listen({.message = [this](RpcMessage m) { call_->Send(Answer(m)); },
//                    .half_close = [this] { call_->Finish({}); },
//                    .cancelled = [this](const Error&) { call_.reset(); }});
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "core/rpc_policy.h"
#include "crypto/certificate.h"
#include "crypto/ed25519.h"
#include "crypto/verify_peer.h"
#include "ports/loop.h"
#include "ports/pending.h"
#include "ports/rpc_message.h"

namespace nstance {

// --- Both sides ----------------------------------------------------------------------------------

struct RpcMetadataEntry {
  std::string name = {};   // Lower case; a name that ends in `-bin` has any bytes as its value.
  std::string value = {};  // Else printable ASCII without blanks at its ends.

  friend bool operator==(const RpcMetadataEntry&, const RpcMetadataEntry&) = default;
};

// In the order sent; a name may occur several times.
using RpcMetadata = std::vector<RpcMetadataEntry>;

// The first value of that name, or null.
[[nodiscard]] inline const std::string* FindMetadata(const RpcMetadata& metadata,
                                                     std::string_view name) {
  for (const RpcMetadataEntry& entry : metadata) {
    if (entry.name == name) return &entry.value;
  }
  return nullptr;
}

// What a status that the server gave says about the effect of the call.
[[nodiscard]] constexpr Outcome OutcomeOfRpcStatus(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
    case Code::kFailedPrecondition:
    case Code::kResourceExhausted:
    case Code::kAborted:
    case Code::kUnimplemented:
    case Code::kOutOfRange: return Outcome::kNotDone;
    default: return Outcome::kMaybeDone;
  }
}

enum class RpcSend : std::uint8_t {
  kTaken,
  kTakenNowFull,  // Taken; send no more before `drained`.
  kRefused,       // Not taken: the queue was full, the call has ended, or this side has finished.
  kTooLarge,      // Not taken: above kMaxRpcMessageBytes. The call goes on; the log says so.
};

struct RpcAddress {
  std::string host = {};  // A name or a literal address, IPv6 without brackets.
  std::uint16_t port = 0;

  friend bool operator==(const RpcAddress&, const RpcAddress&) = default;
};

// What one side shows, and what it trusts. Shared, so that an exchange is a swap of pointers.
struct RpcTlsMaterial {
  // Leaf first. Empty, without a key: a client that shows none.
  std::vector<crypto::Certificate> chain = {};
  std::shared_ptr<const crypto::PrivateKey> key = {};
  // The cluster's trust bundle: what the other side's certificate must lead to.
  std::vector<crypto::Certificate> roots = {};
};
using RpcTls = std::shared_ptr<const RpcTlsMaterial>;

// --- Server --------------------------------------------------------------------------------------

// Whom a call comes from, as TLS has shown it; nothing that the caller wrote counts.
struct RpcPeer {
  // Role, tenant, id, serial, key's SHA-256, notAfter, OU `pool`. Empty only on the registration
  // port. Its role fits the port and the method: the transport has checked.
  std::optional<crypto::PeerIdentity> identity = std::nullopt;
  RpcAddress address = {};  // Of the socket's other end.
};

// What the transport knows when the request's headers are there.
struct RpcCallInfo {
  RpcPort port = RpcPort::kRegistration;
  // The row of the method: offered, of this port, admitting this role. Static storage or as long as
  // the server lives.
  const RpcPolicyRow* policy = nullptr;
  RpcPeer peer = {};
  RpcMetadata metadata = {};  // Only the names that the policy row lists.
  // The caller's, clamped to the row's time limit; Never() when neither is set.
  Instant deadline = Instant::Never();
};

// The four events of a handler. Any may be left empty.
struct RpcServerEvents {
  // Methods with a single request: once, followed by the half-close.
  std::move_only_function<void(RpcMessage message)> message = {};
  // The client will send no more. Not an error; the handler may go on sending.
  std::move_only_function<void()> half_close = {};
  // The last event of a call that ended other than by Finish(): the client's reset (kCancelled),
  // kDeadlineExceeded, a lost connection (kUnavailable), a closed identity (the status given), a
  // limit (kResourceExhausted), an undecodable message (kInvalidArgument). Nothing can be sent any
  // more; the client has been told where it can be.
  std::move_only_function<void(const Error& why)> cancelled = {};
  std::move_only_function<void()> drained = {};
};

// One call as its handler holds it. Destroyed without Finish(), it ends with UNAVAILABLE: that is
// what a step-down looks like from outside.
class RpcServerCall {
 public:
  RpcServerCall() = default;
  RpcServerCall(const RpcServerCall&) = delete;
  RpcServerCall& operator=(const RpcServerCall&) = delete;
  virtual ~RpcServerCall() = default;

  [[nodiscard]] virtual const RpcCallInfo& info() const = 0;

  // Events that came before wait until now. May be called again: later events go to the new ones,
  // so a gate can look at a call first and hand it on.
  virtual void Listen(RpcServerEvents events) = 0;

  // Goes out with the first Send() or Finish(); REQUIRES: before both. Replaces what was set.
  virtual void SetResponseMetadata(RpcMetadata metadata) = 0;
  // REQUIRES: the message is of the method's response type; at most one where it is not a stream.
  virtual RpcSend Send(RpcMessage message) = 0;
  // Success or an error, whose outcome is not sent. No event comes afterwards; what was sent before
  // goes out first, and the handler may destroy the call at once. Before the client's half-close it
  // also ends the client's sending. REQUIRES: not called before; on success a method with a single
  // response has sent it.
  virtual void Finish(Status status, RpcMetadata trailing) = 0;
  // Not inlined: GCC 12 would take the error of a success for an uninitialised one.
  [[gnu::noinline]] void Finish(Status status) { Finish(std::move(status), {}); }

  virtual void Pause() = 0;
  virtual void Resume() = 0;
};

// One for all methods of a listener: the gate stands here, and dispatches by info().policy->path.
// Runs when the request's headers are there; for a method with a single request when that is
// complete, so that a slow or cut one costs the loop nothing (none or two messages: UNIMPLEMENTED
// by the transport).
using RpcAcceptor = std::move_only_function<void(std::unique_ptr<RpcServerCall> call)>;
// Whether the acceptor would let the caller in, whatever the method.
using RpcGate = std::move_only_function<Status(const RpcCallInfo& info)>;

// Whose connections to close.
struct RpcSerial {
  std::string decimal = {};
};
struct RpcIdentity {
  crypto::Role role = crypto::Role::kAgent;
  std::string id = {};  // The CN.
};
using RpcConnectionsOf = std::variant<RpcSerial, RpcIdentity, TenantId>;

struct RpcListen {
  RpcPort port = RpcPort::kRegistration;
  // Where; port 0 is chosen at the first opening and used again by later ones of this server.
  RpcAddress bind = {};
  RpcAcceptor accept = {};
  // Asked on the loop about a call whose method is not offered: its error is the answer, else
  // UNIMPLEMENTED. Empty: everybody is let in.
  RpcGate gate = {};
};

// Guarantees, each held by the contract suite:
//   - no acceptor runs for a path without an offered policy row, for a role that the row does not
//     admit, or for a certificate without a sound identity
//   - a handler's deadline is never later than its policy row allows
//   - after Close(), CloseConnections() or Stop() has taken effect no call is accepted that they
//     exclude
class RpcServer {
 public:
  RpcServer() = default;
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;
  // Everything still open is cut off; no handler learns of it.
  virtual ~RpcServer() = default;

  // Shown and trusted from now on. Open connections stay, except those whose root has left the
  // bundle. kInvalidArgument: chain, key and roots do not fit; the old material stays in force.
  [[nodiscard]] virtual Status SetTls(RpcTls material) = 0;

  // Answers with the address that is listened on. kFailedPrecondition without TLS material;
  // kUnavailable when the address cannot be bound. REQUIRES: that port is closed.
  using Opened = std::move_only_function<void(Result<RpcAddress> address)>;
  [[nodiscard]] virtual Pending Open(RpcListen listen, Opened done) = 0;

  // No new connection and no new call from now on (GOAWAY); open calls go on until their handlers
  // finish them or `deadline`, when they end with kUnavailable. `done` runs when the last
  // connection is gone; at once when the port is closed. Dropping the Pending changes nothing else.
  [[nodiscard]] virtual Pending Close(RpcPort port, Instant deadline, Task done) = 0;

  // Ends the calls of these connections with `why` and closes them. New ones are not kept out: the
  // gate refuses them.
  virtual void CloseConnections(const RpcConnectionsOf& whose, const Error& why) = 0;

  // Close() of all listeners; nothing can be opened afterwards, no thread or timer is left when
  // `done` has run.
  [[nodiscard]] virtual Pending Stop(Instant deadline, Task done) = 0;
};

// --- Client --------------------------------------------------------------------------------------

// State        Next                      When
// kIdle        kResolving, kGone         Connect(); Close()
// kResolving   kConnecting, kGone        the name has addresses (literal ones at once); none
// kConnecting  kReady, kGone             TCP, TLS and HTTP/2 are up; one of them failed
// kReady       kGone                     lost, missed ping, Close(); told to go (GOAWAY), once the
//                                        open calls have ended: no new ones begin meanwhile
// kGone        -                         final: who wants to try again dials again, when it likes
enum class RpcChannelState : std::uint8_t { kIdle, kResolving, kConnecting, kReady, kGone };

struct RpcCallOptions {
  // From now; sent as the deadline and watched here as well. Empty: none.
  std::optional<Duration> timeout = std::nullopt;
  RpcMetadata metadata = {};
};

// How a call ended, for the client.
struct RpcEnd {
  Status status = {};         // With the outcome of the rules at the top.
  RpcMetadata metadata = {};  // The response's, empty when nothing came.
  RpcMetadata trailing = {};
};

struct RpcCallEvents {
  // Once, before the first message, as soon as the response has begun.
  std::move_only_function<void(const RpcMetadata& metadata)> metadata = {};
  // Methods with a single response: only together with a good end; two of them, or a good end
  // without any, end the call with kUnimplemented.
  std::move_only_function<void(RpcMessage message)> message = {};
  std::move_only_function<void()> drained = {};
  // The last event, always.
  std::move_only_function<void(const RpcEnd& end)> end = {};
};

// One call as its caller holds it. Destroying it before its end resets it (CANCEL).
class RpcCall {
 public:
  RpcCall() = default;
  RpcCall(const RpcCall&) = delete;
  RpcCall& operator=(const RpcCall&) = delete;
  virtual ~RpcCall() = default;

  // REQUIRES: the message is of the method's request type; at most one where it is not a stream.
  virtual RpcSend Send(RpcMessage message) = 0;
  // No more will be sent. A method with a single request: Send() implies it.
  virtual void HalfClose() = 0;
  virtual void Pause() = 0;
  virtual void Resume() = 0;
};

struct RpcChannelEvents {
  // Every change of state, in order. `why` is set for kGone: kUnauthenticated when the server
  // refused our certificate, kPermissionDenied when it is not who it should be, kUnavailable else.
  // Before kGone every call is told its end, unless it withholds it by Pause().
  std::move_only_function<void(RpcChannelState state, const Status& why)> state = {};
};

// One connection, or the attempt at one. No hidden reconnects, no hidden retries.
class RpcChannel {
 public:
  RpcChannel() = default;
  RpcChannel(const RpcChannel&) = delete;
  RpcChannel& operator=(const RpcChannel&) = delete;
  // Closes without telling anybody: neither the state nor the end of a call is told.
  virtual ~RpcChannel() = default;

  [[nodiscard]] virtual RpcChannelState state() const = 0;
  // REQUIRES: kIdle.
  virtual void Connect() = 0;
  // Calls end with kUnavailable, then the state becomes kGone. Nothing when it is.
  virtual void Close() = 0;

  // `path` is a method of the table. Any state but kReady: the call ends at once with kUnavailable,
  // kNotDone. The server's limit of streams reached: it waits, and ends with kDeadlineExceeded,
  // kNotDone, if it was not sent in time. Never null.
  [[nodiscard]] virtual std::unique_ptr<RpcCall> Start(std::string_view path,
                                                       RpcCallOptions options,
                                                       RpcCallEvents events) = 0;
};

struct RpcTarget {
  RpcAddress address = {};
  RpcTls tls = {};
  // From Connect() to kReady.
  Duration connect_limit = Duration::Seconds(10);
  // A ping after so long a silence, also without calls, and how long its answer may take.
  Duration ping_after = Duration::Seconds(20);
  Duration ping_limit = Duration::Seconds(10);
};

// Makes channels. Outlives them.
class RpcDialer {
 public:
  RpcDialer() = default;
  RpcDialer(const RpcDialer&) = delete;
  RpcDialer& operator=(const RpcDialer&) = delete;
  virtual ~RpcDialer() = default;

  // A channel in state kIdle. Never null.
  [[nodiscard]] virtual std::unique_ptr<RpcChannel> Dial(RpcTarget target,
                                                         RpcChannelEvents events) = 0;
};

}  // namespace nstance
