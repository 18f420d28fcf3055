// LeaderForwarder: what stands in front of the servers of a shard where the provider offers no
// leader network: three loopback ports that never change, each forwarded to the acting leader.
//
// Servers are found through the file that each writes when it becomes acting (--addresses-file),
// and the leader among them by asking /leader/health; of several that say yes the highest epoch
// counts. It looks every 50 ms.
//
//   LeaderForwarder forwarder({"s1/addresses.json", "s2/addresses.json"});
//   ... forwarder.Address(LeaderForwarder::kAgent) ... forwarder.WaitForLeader(limit) ...
//
// Guarantees, each held by leader_forwarder_test:
//   - a connection goes to the server that was leader when it was accepted, byte for byte both
//     ways, half-closes included
//   - without a leader a connection is closed at once, and so is one to a service that is shut
//   - connections to a server that is no longer the leader are closed
//   - files that do not exist, are cut or tell nonsense are passed over
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"

namespace nstance::test {

class LeaderForwarder final {
 public:
  enum Service : std::uint8_t { kRegistration, kOperator, kAgent };
  static constexpr std::size_t kServices = 3;

  struct Leader {
    std::string file = {};    // Whose addresses these are.
    std::string health = {};  // "host:port".
    std::int64_t epoch = 0;
    std::array<std::uint16_t, kServices> ports = {};
    friend bool operator==(const Leader&, const Leader&) = default;
  };

  explicit LeaderForwarder(std::vector<std::string> addresses_files);
  LeaderForwarder(const LeaderForwarder&) = delete;
  LeaderForwarder& operator=(const LeaderForwarder&) = delete;
  ~LeaderForwarder();

  // "127.0.0.1:port".
  [[nodiscard]] std::string Address(Service service) const;
  [[nodiscard]] std::optional<Leader> leader() const;
  // Waits for a leader with an epoch above `after`; nothing when the time was up.
  [[nodiscard]] std::optional<Leader> WaitForLeader(Duration limit, std::int64_t after = 0) const;
  // Who comes to a service that is shut is turned away; who is there stays.
  void Shut(Service service);
  void Open(Service service);
  // Connections that are forwarded now.
  [[nodiscard]] std::size_t connections() const;

 private:
  class Pump;
  void Look();
  [[nodiscard]] std::optional<Leader> FindLeader() const;

  std::vector<std::string> files_;
  std::unique_ptr<Pump> pump_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Leader> leader_;
  bool stopping_ = false;
  std::thread prober_;
};

}  // namespace nstance::test
