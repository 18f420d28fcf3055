// The three streams that an agent keeps open: health reports in, key requests and files out.
//
// Of each kind an instance has at most one; a newer one ends the older with ABORTED (an agent that
// announced no feature would exit on that: its file stream ends with OK, its key stream is left
// alone until the connection goes). Health streams drive the fleet's view of the agent: opened,
// report, ended. Keys and files are served by later work: those streams stay open and idle.
//
// Reports: one per second is processed, ten at once at most; of more the latest waits for its turn
// and the others are merged away. Above a hundred in a second the stream ends with
// RESOURCE_EXHAUSTED.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "server/services/service_context.h"
#include "server/services/unary_calls.h"

namespace nstance {

class AgentStreams final {
 public:
  explicit AgentStreams(ServiceContext& context) : context_(context) {}
  AgentStreams(const AgentStreams&) = delete;
  AgentStreams& operator=(const AgentStreams&) = delete;

  void OpenHealth(const InstanceId& id, std::unique_ptr<RpcServerCall> call);
  void OpenKeys(const InstanceId& id, std::unique_ptr<RpcServerCall> call);
  void OpenFiles(const InstanceId& id, std::unique_ptr<RpcServerCall> call);
  // The identity is refused from now on.
  void End(const InstanceId& id, const Error& why);

  void Measure(metrics::Registry& gauges) const;
  [[nodiscard]] std::size_t connected() const { return health_.size(); }

 private:
  struct Stream {
    std::unique_ptr<RpcServerCall> call;
    std::uint64_t number = 0;
    // Of health streams: the bucket of reports, and how many came in this second.
    Instant refilled_at = {};
    std::int64_t tokens = 0;
    Instant second_began = {};
    int in_second = 0;
    std::int64_t last_count = 0;
    bool out_of_order = false;  // Its counts went back or stood still: told once.
    std::optional<api::HealthReportRequest> latest = std::nullopt;  // Waits for its turn.
    Pending turn = {};
  };
  using Streams = std::map<InstanceId, Stream>;

  Stream& Replace(Streams& streams, const InstanceId& id, std::unique_ptr<RpcServerCall> call,
                  Status to_the_older);
  // The stream's own event may be on the stack: it goes in a turn of its own.
  template <class Map, class Key>
  void Drop(Map& streams, const Key& key) {
    const auto at = streams.find(key);
    if (at == streams.end()) return;
    auto ended = std::make_shared<Stream>(std::move(at->second));
    streams.erase(at);
    context_.loop.Post([ended] {});
  }
  void CheckAge(const InstanceId& id, const crypto::PeerIdentity& newer);
  void OnReport(const InstanceId& id, const RpcMessage& message);
  void HealthEnded(const InstanceId& id, std::uint64_t number);
  [[nodiscard]] bool MayProcess(Stream& stream, Instant now);
  void Take(const InstanceId& id, const api::HealthReportRequest& report);
  void TakeLatest(const InstanceId& id, std::uint64_t number);

  ServiceContext& context_;
  Streams health_;
  Streams keys_;
  Streams files_;
  std::map<std::uint64_t, Stream> left_alone_;  // Key streams that a newer one replaced.
  std::uint64_t next_ = 1;
};

}  // namespace nstance
