// An attack beside a neighbour: a good agent of another identity calls all the time and must be
// served, and what the process holds meanwhile is watched.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/adapters/rpc/raw_client.h"
#include "test/adapters/rpc/rpc_fixture.h"

// Of the sanitizers, where one is linked.
extern "C" [[gnu::weak]] std::size_t __sanitizer_get_current_allocated_bytes();

namespace nstance::grpc::test {

inline std::size_t AllocatedBytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) {
    return __sanitizer_get_current_allocated_bytes();
  }
  return mallinfo2().uordblks;
}

class AbuseFixture : public RpcFixture {
 public:
  // Runs the attack on a thread of its own while the neighbour calls. The neighbour is served
  // before, during and after it, on one connection.
  void Attack(const std::function<void()>& attack) {
    if (neighbour_ == nullptr) {
      neighbour_ = &Dial(agents_, AgentMaterial('x'));
      ASSERT_TRUE(Until([&] { return neighbour_->ready(); }));
    }
    const std::size_t before = AllocatedBytes();
    peak_ = 0;
    served_ = 0;
    std::atomic<bool> done = false;
    std::thread attacker([&] {
      attack();
      done = true;
    });
    const auto call_on = [&] {
      const std::size_t now = AllocatedBytes();
      peak_ = std::max(peak_, now > before ? now - before : 0);
      if (!Serve()) return false;
      return done.load() && served_ > 0;
    };
    EXPECT_TRUE(nstance::test::RunUntil(loop_, call_on, Duration::Seconds(120)));
    attacker.join();
    EXPECT_TRUE(neighbour_->ready());
  }

  RpcAddress agents_ = Open(RpcPort::kAgent);
  TestClient* neighbour_ = nullptr;
  std::size_t served_ = 0;
  std::size_t peak_ = 0;  // Of the bytes allocated during the last attack.

 private:
  // True when the neighbour's call has ended; the next one begins at the next look.
  bool Serve() {
    if (call_ == nullptr) {
      call_ = std::make_unique<TestCall>();
      call_->call = neighbour_->channel->Start(
          kUnary, {.timeout = Duration::Seconds(30)},
          {.metadata = {},
           .message = [](RpcMessage) {},
           .drained = {},
           .end = [call = call_.get()](const RpcEnd& end) { call->end = end; }});
      call_->call->Send(Text("neighbour"));
      return false;
    }
    if (!call_->end) return false;
    EXPECT_TRUE(call_->end->status.has_value()) << call_->end->status.error().ToString();
    ++served_;
    call_.reset();
    std::erase_if(handlers_, [](const auto& handler) {
      if (handler->messages != std::vector<std::string>{"neighbour"}) return false;
      handler->call.reset();  // Its events hold the handler.
      return true;
    });
    return true;
  }

  std::unique_ptr<TestCall> call_;
};

}  // namespace nstance::grpc::test
