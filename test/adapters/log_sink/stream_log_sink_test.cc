// Lines of several threads arrive whole; a broken descriptor loses lines, not the process.
#include "adapters/log_sink/stream_log_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"

namespace nstance {
namespace {

TEST(StreamLogSinkTest, LinesOfSeveralThreadsDoNotMix) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  std::string all;
  std::thread reader([&] {
    std::array<char, 4096> buffer{};
    for (ssize_t count = 0; (count = read(ends[0], buffer.data(), buffer.size())) > 0;) {
      all.append(buffer.data(), static_cast<std::size_t>(count));
    }
  });
  {
    StreamLogSink sink({.descriptor = ends[1]});
    std::vector<std::thread> writers;
    writers.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      writers.emplace_back([&sink] {
        const log::Logger logger(sink, "t");
        for (int n = 0; n < kLines; ++n) logger.Info("line", {{"pad", std::string(500, 'p')}});
      });
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_EQ(sink.lost_lines(), 0U);
  }
  close(ends[1]);
  reader.join();
  close(ends[0]);
  int lines = 0;
  for (std::size_t at = 0; at < all.size(); ++lines) {
    const std::size_t end = all.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    EXPECT_TRUE(json::Parse(std::string_view(all).substr(at, end - at)).has_value());
    at = end + 1;
  }
  EXPECT_EQ(lines, kThreads * kLines);
}

TEST(StreamLogSinkTest, ABrokenDescriptorLosesLinesAndCountsThem) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  StreamLogSink sink({.descriptor = full, .format = LogFormat::kText});
  log::Logger(sink, "t").Info("lost");
  EXPECT_EQ(sink.lost_lines(), 1U);
  close(full);
}

}  // namespace
}  // namespace nstance
