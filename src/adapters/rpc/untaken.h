// Messages that were decoded and that the loop has not taken yet, counted per connection and, by
// their size, per process: what a slow loop makes us hold is bounded.
//
// A connection with kMaxUntaken of them decodes no more until half are taken. A message that would
// exceed kMaxUntakenBytes of the process is refused.
//
// Threads: the I/O thread counts, the loop (or whoever drops the message) gives back.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace nstance::grpc {

inline constexpr std::size_t kMaxUntaken = 8;
inline constexpr std::size_t kMaxUntakenBytes = std::size_t{256} * 1024 * 1024;

// Of one connection.
class UntakenCount final {
 public:
  // Of all connections of the process together.
  using Bytes = std::shared_ptr<std::atomic<std::size_t>>;

  // `half_taken` runs on the thread that gives back, each time that the count falls to the half.
  UntakenCount(Bytes all, std::function<void()> half_taken)
      : all_(std::move(all)), half_taken_(std::move(half_taken)) {}

  [[nodiscard]] bool full() const { return count_.load() >= kMaxUntaken; }

 private:
  friend class Untaken;
  Bytes all_;
  std::function<void()> half_taken_;
  std::atomic<std::size_t> count_ = 0;
};

// One message's share, given back when it is destroyed.
class Untaken final {
 public:
  // Empty when the process holds too much.
  [[nodiscard]] static std::optional<Untaken> Of(std::shared_ptr<UntakenCount> count,
                                                 std::size_t bytes) {
    if (count->all_->fetch_add(bytes) + bytes > kMaxUntakenBytes) {
      count->all_->fetch_sub(bytes);
      return std::nullopt;
    }
    count->count_.fetch_add(1);
    return Untaken(std::move(count), bytes);
  }
  Untaken(Untaken&& other) noexcept = default;
  Untaken& operator=(Untaken&& other) noexcept {
    if (this != &other) {
      GiveBack();
      count_ = std::move(other.count_);
      bytes_ = other.bytes_;
    }
    return *this;
  }
  Untaken(const Untaken&) = delete;
  Untaken& operator=(const Untaken&) = delete;
  ~Untaken() { GiveBack(); }

 private:
  Untaken(std::shared_ptr<UntakenCount> count, std::size_t bytes)
      : count_(std::move(count)), bytes_(bytes) {}
  void GiveBack() {
    const std::shared_ptr<UntakenCount> count = std::exchange(count_, nullptr);
    if (count == nullptr) return;
    count->all_->fetch_sub(bytes_);
    if (count->count_.fetch_sub(1) == kMaxUntaken / 2 + 1) count->half_taken_();
  }

  std::shared_ptr<UntakenCount> count_;
  std::size_t bytes_ = 0;
};

}  // namespace nstance::grpc
