#include "adapters/log_sink/stream_log_sink.h"

#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string>
#include <string_view>

namespace nstance {
namespace {

Timestamp WallClock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return Timestamp::FromUnix(now.tv_sec, static_cast<std::int32_t>(now.tv_nsec));
}

bool WriteAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

void StreamLogSink::Write(const log::Record& record) {
  const Timestamp now = WallClock();
  std::string line = options_.format == LogFormat::kJson ? log::FormatJson(record, now)
                                                         : log::FormatText(record, now);
  line += '\n';
  const std::scoped_lock lock(mutex_);
  if (!WriteAll(options_.descriptor, line)) ++lost_lines_;
}

}  // namespace nstance
