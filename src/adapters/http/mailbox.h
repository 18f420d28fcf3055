// Mailbox: values from any thread to one loop, in order.
//
// A loop runs posted tasks in any order, so the values stand in a queue of their own and the loop
// is only told to look at it, once until it has looked.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "ports/loop.h"

namespace nstance::http {

template <class T>
class Mailbox final {
 public:
  // `reader` is not touched before the first Put() nor after Close().
  explicit Mailbox(Loop& reader) : reader_(reader) {}

  // What the reader's loop runs when there is something to take; it calls Take(). Set once, before
  // the first Put().
  void OnMail(std::function<void()> look) { look_ = std::move(look); }

  // From any thread. After Close() the value is dropped.
  void Put(T value) {
    const std::scoped_lock lock(mutex_);
    if (closed_) return;
    values_.push_back(std::move(value));
    if (!std::exchange(told_, true)) reader_.Post(look_);
  }

  // On the reader's loop.
  [[nodiscard]] std::vector<T> Take() {
    const std::scoped_lock lock(mutex_);
    told_ = false;
    return std::exchange(values_, {});
  }

  // Once it returns, nothing is posted to the reader any more.
  void Close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    values_.clear();
  }

 private:
  Loop& reader_;
  std::function<void()> look_;
  std::mutex mutex_;
  std::vector<T> values_;
  bool told_ = false;
  bool closed_ = false;
};

}  // namespace nstance::http
