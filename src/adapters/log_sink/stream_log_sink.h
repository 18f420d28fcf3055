// StreamLogSink: log lines to a descriptor, usually standard error, where systemd or a container
// runtime picks them up.
//
// One line is one write(2), under a lock, so lines of several threads do not mix. A descriptor that
// cannot be written to loses lines, never the process; lost ones are counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/log.h"

namespace nstance {

enum class LogFormat : std::uint8_t { kJson, kText };

class StreamLogSink final : public log::Sink {
 public:
  struct Options {
    int descriptor = 2;  // Stays the caller's.
    LogFormat format = LogFormat::kJson;
    log::Level level = log::Level::kInfo;
  };
  explicit StreamLogSink(Options options) : options_(options) {}

  [[nodiscard]] bool Wants(log::Level level) const override { return level >= options_.level; }
  void Write(const log::Record& record) override;

  [[nodiscard]] std::uint64_t lost_lines() const { return lost_lines_; }

 private:
  Options options_;
  std::mutex mutex_;
  std::atomic<std::uint64_t> lost_lines_ = 0;
};

}  // namespace nstance
