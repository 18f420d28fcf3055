// LoadOperator: one operator's connection: upserts one at a time, a watch whose events it times,
// and the list that tells whether an update was lost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bench/generator/histogram.h"
#include "ports/api/groups.h"
#include "ports/loop.h"
#include "ports/rpc.h"

namespace nstance::bench {

class LoadOperator final {
 public:
  struct Setup {
    Loop& loop;
    RpcDialer& dialer;
    RpcAddress server;
    std::string tenant;
    std::string group;  // The one that it changes.
    RpcTls tls;
  };

  explicit LoadOperator(Setup setup);

  using Done = std::move_only_function<void(Status)>;
  void Connect(Done done);

  // `at` travels in the group's vars, and watchers tell how long it took. REQUIRES: not upserting.
  void Upsert(std::int32_t size, Instant at, Done done);
  [[nodiscard]] bool upserting() const { return upserting_; }

  // Counts events that carry a time from now on.
  void Watch(Histogram& latency);
  // kAborted when the size of its group is not that of the last upsert that was accepted.
  void Check(Done done);

  [[nodiscard]] const Setup& setup() const { return setup_; }
  [[nodiscard]] std::uint64_t watches_ended() const { return watches_ended_; }

 private:
  void OnEvent(const RpcMessage& message);

  Setup setup_;
  Done connected_;
  bool upserting_ = false;
  std::int32_t accepted_size_ = -1;
  std::int32_t asked_size_ = -1;
  Histogram* latency_ = nullptr;
  std::uint64_t watches_ended_ = 0;
  std::unique_ptr<RpcChannel> channel_;
  std::unique_ptr<RpcCall> watch_;
  Pending upsert_;
  Pending list_;
};

}  // namespace nstance::bench
