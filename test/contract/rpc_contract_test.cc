// The suite of rpc_contract.h against the simulated transport: once with structs that cross as they
// are, once with messages that become bytes on the way. The seeds change the order of everything.
#include "test/contract/rpc_contract.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/sim_loop.h"
#include "sim/sim_network.h"
#include "sim/sim_rpc.h"
#include "sim/sim_scheduler.h"

namespace nstance::test {
namespace {

constexpr std::int64_t kSomeDay = 1'900'000'000;

enum class Messages : std::uint8_t { kStructs, kBytes };

class SimRpcUnderTest final : public RpcUnderTest {
 public:
  SimRpcUnderTest(std::uint64_t seed, Messages messages)
      : messages_(messages),
        scheduler_(seed),
        network_(scheduler_,
                 {.methods = messages == Messages::kBytes ? ContractMethods()
                                                          : std::span<const RpcMethod>()}),
        loop_(scheduler_, Timestamp::FromUnix(kSomeDay)),
        server_(std::make_unique<sim::SimRpcServer>(
            network_, loop_,
            sim::SimRpcServer::Options{.process = "server", .policy = ContractPolicy()})),
        dialer_(network_, loop_, {.process = "client", .policy = ContractPolicy()}) {}

  Loop& loop() override { return loop_; }
  RpcServer& server() override { return *server_; }
  RpcDialer& dialer() override { return dialer_; }
  void DestroyServer() override { server_.reset(); }
  [[nodiscard]] std::string host() const override { return "server.example"; }
  bool RunUntil(const std::function<bool()>& done) override {
    return scheduler_.RunUntilTrue(done, Duration::Minutes(1));
  }
  void LoseConnections() override { network_.BreakConnections("client", "server"); }
  [[nodiscard]] bool carries_bytes() const override { return messages_ == Messages::kBytes; }

 private:
  Messages messages_;
  sim::SimScheduler scheduler_;
  sim::SimNetwork network_;
  sim::SimLoop loop_;
  std::unique_ptr<sim::SimRpcServer> server_;
  sim::SimRpcDialer dialer_;
};

std::vector<RpcMaker> Makers() {
  std::vector<RpcMaker> makers;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    makers.push_back({.name = "SimulatedStructs" + std::to_string(seed), .make = [seed] {
                        return std::make_unique<SimRpcUnderTest>(seed, Messages::kStructs);
                      }});
    makers.push_back({.name = "SimulatedBytes" + std::to_string(seed), .make = [seed] {
                        return std::make_unique<SimRpcUnderTest>(seed, Messages::kBytes);
                      }});
  }
  return makers;
}

INSTANTIATE_TEST_SUITE_P(Transports, RpcContractTest, testing::ValuesIn(Makers()), RpcMakerName);

}  // namespace
}  // namespace nstance::test
