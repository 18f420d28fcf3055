#include "adapters/signals/signal_watch.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace nstance {

SignalWatch::SignalWatch(RealLoop& loop, std::initializer_list<int> numbers, Handler handler)
    : handler_(std::move(handler)) {
  sigset_t mask{};
  sigemptyset(&mask);
  for (const int number : numbers) sigaddset(&mask, number);
  CHECK(pthread_sigmask(SIG_BLOCK, &mask, &old_mask_) == 0);
  descriptor_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  CHECK(descriptor_ >= 0, "errno {}", errno);
  watch_ = loop.Watch(descriptor_, {.readable = true}, [this](Readiness) { Take(); });
}

SignalWatch::~SignalWatch() {
  watch_.reset();
  (void)close(descriptor_);
  (void)pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void SignalWatch::Take() {
  signalfd_siginfo about{};
  while (read(descriptor_, &about, sizeof(about)) == sizeof(about)) {
    handler_(static_cast<int>(about.ssi_signo));
  }
}

}  // namespace nstance
