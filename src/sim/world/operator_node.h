// An operator of one tenant: a client of both shards that joins with a token, keeps a watch on
// instances open, answers drains, and calls what the workload asks for. It dials again whenever a
// connection ends, and tells of every answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/prng.h"
#include "core/cluster_keys_machine.h"
#include "ports/rpc_unary.h"
#include "sim/seeded_random.h"
#include "sim/sim_loop.h"
#include "sim/sim_rpc.h"
#include "sim/world/checker.h"
#include "sim/world/server_node.h"

namespace nstance::sim {

class OperatorNode final {
 public:
  // How drains are answered.
  enum class Mood : std::uint8_t { kPrompt, kSlow, kNever, kTwice, kConfused };
  struct Told {
    std::function<void(const OperatorAnswer&)> answered;
    std::function<void(const TenantId&, const ShardId&, const api::InstanceEvent&)> event;
    std::function<void(const std::string& process, std::string_view pem)> certificate;
  };

  OperatorNode(const WorldParts& parts, TenantId tenant, ClusterIdentityRef identity, Told told);
  OperatorNode(const OperatorNode&) = delete;
  OperatorNode& operator=(const OperatorNode&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const TenantId& tenant() const { return tenant_; }
  [[nodiscard]] bool joined() const { return tls_ != nullptr; }
  void set_mood(Mood mood) { mood_ = mood; }

  // Sent when the shard can be reached, in order; an answer other than a refusal is tried again a
  // few times, with the same request.
  void Ask(const ShardId& shard, OperatorAnswer::Request request);
  void RefreshConfig(const ShardId& shard);
  // A server whose clock was wrong may have given it a certificate of another time: then somebody
  // notices and gives out a new token.
  void JoinAgainIfRefused();
  // Forgets what was asked for and not done yet.
  void Rest();

 private:
  struct Line {
    ShardId shard;
    std::unique_ptr<RpcChannel> channel = nullptr;
    std::unique_ptr<RpcCall> watch = nullptr;
    Pending again = {};
    std::map<std::uint64_t, Pending> calls = {};
  };

  void TakeToken();
  void Join();
  void OnJoined(const Result<api::RegisterClientResponse>& answer);
  void Dial(Line& line);
  void OnState(Line& line, RpcChannelState state);
  void OnEvent(Line& line, const api::InstanceEvent& event);
  void Acknowledge(Line& line, const api::InstanceEvent& event, Duration after);
  void Send(Line& line, OperatorAnswer::Request request, int tries);
  void OnAnswer(Line& line, OperatorAnswer answer, int tries);
  template <class Request, class Response>
  void Call(Line& line, const api::Method<Request, Response>& method, const Request& request,
            int tries);
  void Later(Line& line, Duration after, Task task);
  [[nodiscard]] Line& LineTo(const ShardId& shard) { return shard == ShardA() ? a_ : b_; }

  const WorldParts& parts_;
  TenantId tenant_;
  ClusterIdentityRef identity_;
  Told told_;
  std::string name_;
  Prng prng_;
  SeededRandom random_;
  SimLoop loop_;
  SimRpcDialer dialer_;
  std::shared_ptr<const crypto::PrivateKey> key_;
  std::string token_;
  RpcTls tls_;
  Mood mood_ = Mood::kPrompt;
  std::unique_ptr<RpcChannel> joining_;
  Pending join_call_;
  Pending join_again_;
  std::uint64_t next_call_ = 1;
  Line a_;
  Line b_;
};

}  // namespace nstance::sim
