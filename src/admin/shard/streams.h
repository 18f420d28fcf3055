// ShardStreams: streams of one shard's leader that are opened again whenever they end, so that a
// failover shows as a gap and not as an end.
//
// All streams share one connection. Whichever ends, or when the connection does, all are dropped
// and opened again after a pause (RetryPause): a server sends what is true now at the beginning of
// each. A stream that the server does not offer is told once per connection and left alone.
//
// Nothing is sent on a stream, and we ping rarely (wire.md 1.2): a server that is frozen, or whose
// host is gone without a word, would be listened to for minutes. So a small question is asked on
// the same connection every 10 s; no answer within 10 s is an end of the streams like any other.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "admin/shard/caller.h"
#include "admin/shard/identity.h"
#include "admin/shard_command.h"
#include "base/error.h"
#include "base/log.h"
#include "base/prng.h"
#include "ports/loop.h"
#include "ports/rpc.h"

namespace nstance::admin {

struct StreamWanted {
  std::string_view path = {};  // Of a method of ports/api/methods.h.
  RpcMessage request;
  std::function<void(const RpcMessage& message)> message;
};

struct StreamsEvents {
  std::function<void()> up = {};                    // Streams begin anew.
  std::function<void(const Error& why)> lost = {};  // Tried again by itself.
  std::function<void(std::string_view path)> not_offered = {};
};

class ShardStreams final {
 public:
  struct Setup {
    Loop& loop;
    RpcDialer& dialer;
    const OperatorIdentity& identity;
    Prng jitter;
    log::Logger log;
  };

  // Begins at once.
  ShardStreams(Setup setup, ServerAddress server, std::vector<StreamWanted> wanted,
               StreamsEvents events);
  ShardStreams(const ShardStreams&) = delete;
  ShardStreams& operator=(const ShardStreams&) = delete;
  ~ShardStreams();

 private:
  void Connect();
  void OnState(RpcChannelState state, const Status& why);
  void Open();
  void OnEnd(const StreamWanted& wanted, const RpcEnd& end);
  void AskLater();
  void Ask();
  void Again(const Error& why);

  Setup setup_;
  ServerAddress server_;
  std::vector<StreamWanted> wanted_;
  StreamsEvents events_;
  std::unique_ptr<RpcChannel> channel_;
  std::vector<std::unique_ptr<RpcCall>> calls_;
  RetryPause pause_;
  Pending timer_;
  Pending next_question_;
  Pending question_;
};

}  // namespace nstance::admin
