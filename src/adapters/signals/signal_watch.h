// SignalWatch: signals as events of a RealLoop (signalfd), so that a handler is an ordinary task.
//
//   const SignalWatch signals(loop, {SIGINT, SIGTERM}, [&](int) { agent.Stop(); });
//
// The signals are blocked for this thread and those it starts later: make it before any thread. The
// old mask comes back when it goes.
#pragma once

#include <csignal>
#include <functional>
#include <initializer_list>
#include <memory>

#include "adapters/real_loop/real_loop.h"

namespace nstance {

class SignalWatch final {
 public:
  using Handler = std::function<void(int number)>;
  SignalWatch(RealLoop& loop, std::initializer_list<int> numbers, Handler handler);
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch();

 private:
  void Take();

  Handler handler_;
  sigset_t old_mask_{};
  int descriptor_ = -1;
  std::unique_ptr<DescriptorWatch> watch_;
};

}  // namespace nstance
