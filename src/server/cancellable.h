// Cancellable: a callback for something that cannot be told to forget it, and the Pending that
// makes it forget: when the Pending goes, the callback is destroyed and a later call does nothing.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "ports/pending.h"

namespace nstance {

template <class T>
struct CancellableCall {
  std::move_only_function<void(T)> call;
  Pending pending;
};

template <class T>
[[nodiscard]] CancellableCall<T> Cancellable(std::move_only_function<void(T)> target) {
  auto held = std::make_shared<std::move_only_function<void(T)>>(std::move(target));
  return {.call =
              [held](T value) {
                if (!*held) return;
                auto run = std::exchange(*held, nullptr);
                run(std::move(value));
              },
          .pending = Pending([held] { *held = nullptr; })};
}

}  // namespace nstance
