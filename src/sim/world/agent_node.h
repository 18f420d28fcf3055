// A machine of the fleet: what the provider started, with the product's Agent on it. The disk lasts
// as long as the machine; the process may die and start again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "sim/seeded_random.h"
#include "sim/sim_agent_files.h"
#include "sim/sim_host.h"
#include "sim/sim_loop.h"
#include "sim/sim_provider.h"
#include "sim/sim_rpc.h"
#include "sim/world/server_node.h"

namespace nstance::sim {

class AgentMachine final {
 public:
  // Of a VM that was asked for with user data. `on_certificate` is told of what it is given.
  AgentMachine(const WorldParts& parts, const SimVm& vm,
               std::function<void(const AgentMachine&, std::string_view pem)> on_certificate);
  // Another machine, with a copy of that one's disk.
  AgentMachine(const AgentMachine& of, std::string name);
  AgentMachine(const AgentMachine&) = delete;
  AgentMachine& operator=(const AgentMachine&) = delete;
  ~AgentMachine() { Kill(); }

  void Start();
  void Kill();  // kill -9; nothing when it does not run.
  // In the middle of a change of its disk.
  struct Death {
    std::int64_t change = 1;  // Counted from now.
    SimAgentDisk::Death when = SimAgentDisk::Death::kBefore;
    // Told in the task that it dies in: nothing that it does from then on leaves the machine. It is
    // to be killed after the task.
    std::function<void()> told;
  };
  // While `disk` changes: what it keeps of its identity, or what it received.
  enum class Disk : std::uint8_t { kIdentity, kReceived };
  void DieAtChange(Disk disk, Death death);
  // The disk of its identity is again what the machine was started with; of one that has joined.
  void ResetDisk();
  // No more deaths.
  void Spare();
  [[nodiscard]] bool up() const { return agent_ != nullptr; }
  void Pause() {
    if (up()) loop_->Pause();
  }
  void Resume() {
    if (up()) loop_->Resume();
  }
  void JumpWall(Duration length);
  // The provider announces the end of the machine; a report tells of it for as long as it is
  // announced. Empty: it is no longer.
  void Announce(std::optional<Timestamp> end) { announced_ = end; }
  // One of its tasks is being run.
  [[nodiscard]] bool running() const { return up() && loop_->running(); }

  // "agent-sim-000007", or another one where the provider has used the id before.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& provider_id() const { return provider_id_; }
  [[nodiscard]] const InstanceId& id() const { return id_; }
  [[nodiscard]] const ShardId& shard() const { return shard_; }
  // It has a certificate on its disk, or had one before the disk was reset.
  [[nodiscard]] bool has_joined() const {
    return was_reset_ || identity_disk_.files.contains("identity.crt");
  }
  // The public keys of which it has the private half on its disk, as PEM.
  [[nodiscard]] std::vector<std::string> KeysOnDisk() const;
  // Those that went with a reset of the disk: a request with one of them may still be under way.
  [[nodiscard]] const std::vector<std::string>& keys_before_reset() const {
    return keys_before_reset_;
  }
  // Of the certificate that it shows. Empty: it has none that can be read.
  [[nodiscard]] std::optional<std::string> SerialOnDisk() const;
  // Its `ca.crt`, which no process of ours writes.
  [[nodiscard]] const std::string& Roots() const { return identity_disk_.files.at("ca.crt"); }
  void SetRoots(const std::string& pem) { identity_disk_.files["ca.crt"] = pem; }
  // The agent's streams are open, and it does not hang.
  [[nodiscard]] bool serving() const;
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }

  // Something was done to it that a server may take for illness.
  bool harmed = false;

 private:
  void TellOfCertificates();
  // The agent does not ask the provider for notices; others of its kind do.
  [[nodiscard]] RpcMessage WithNotice(std::string_view path, RpcMessage message) const;

  const WorldParts& parts_;
  std::string provider_id_;
  std::string name_;
  InstanceId id_;
  ShardId shard_;
  std::function<void(const AgentMachine&, std::string_view pem)> on_certificate_;
  SimAgentDisk identity_disk_;
  SimAgentDisk received_disk_;
  SimAgentFiles identity_{identity_disk_};
  SimAgentFiles received_{received_disk_};
  SimHost host_;
  std::string first_token_;
  bool was_reset_ = false;
  std::vector<std::string> keys_before_reset_;
  Duration wall_skew_ = {};
  std::optional<Timestamp> announced_ = std::nullopt;
  std::optional<int> exit_code_ = std::nullopt;
  std::unique_ptr<SimLoop> loop_;
  std::unique_ptr<SimRpcDialer> dialer_;
  std::unique_ptr<SeededRandom> random_;
  std::unique_ptr<agent::Agent> agent_;
};

}  // namespace nstance::sim
