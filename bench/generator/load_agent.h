// LoadAgent: one agent as a server sees it: a connection with three streams that answers patches
// and key requests, reports when told to, and comes back when it was lost.
//
// It comes back as an agent does: after uniform(0, 1 s), then 0.5 s x 2^n with jitter, at most 2 s.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/prng.h"
#include "ports/api/agent.h"
#include "ports/loop.h"
#include "ports/rpc.h"
#include "ports/rpc_message.h"

namespace nstance::bench {

// Counted over all agents.
struct AgentTally {
  std::uint64_t up = 0;    // Connected, with three streams, now.
  std::uint64_t lost = 0;  // Were up and lost the connection or a stream.
  std::uint64_t failed_connects = 0;
  std::uint64_t refused = 0;   // Reports that the send queue did not take.
  std::uint64_t patches = 0;   // Commits received.
  std::string last_loss = {};  // Why, for messages.
};

// A report of about 1 KiB, as an agent on a machine with four cores and six files sends it.
[[nodiscard]] api::HealthReportRequest SampleReport(const std::string& instance_id,
                                                    const std::string& config_hash);

class LoadAgent final {
 public:
  struct Setup {
    Loop& loop;
    RpcDialer& dialer;
    Prng& chance;
    AgentTally& tally;
    RpcAddress server;
    std::string instance_id;
    RpcTls tls;
  };

  explicit LoadAgent(Setup setup);

  // `ready` runs each time that the streams have been started.
  void Connect(std::function<void()> ready);
  // False when it is not connected, or the send queue is full.
  bool Report();
  // A unary call without effect on the same connection; `done` runs at its good end. What was
  // reported before has been taken by then. False when it is not connected or still waits for
  // another.
  bool Probe(std::function<void()> done);

  [[nodiscard]] bool up() const { return up_; }

 private:
  void Dial();
  void OnState(RpcChannelState state, const Status& why);
  void StartStreams();
  void OnFile(const RpcMessage& message);
  void OnKeys(const RpcMessage& message);
  void Lost(const std::string& why);

  Setup setup_;
  std::function<void()> ready_;
  bool up_ = false;
  bool waiting_ = false;  // For the next try.
  bool probing_ = false;
  int failures_ = 0;
  std::string config_hash_;
  api::HealthReportRequest report_;
  std::unique_ptr<RpcChannel> channel_;
  std::unique_ptr<RpcCall> reports_;
  std::unique_ptr<RpcCall> keys_;
  std::unique_ptr<RpcCall> files_;
  Pending unary_;
  Pending submission_;
  Pending retry_;
};

}  // namespace nstance::bench
