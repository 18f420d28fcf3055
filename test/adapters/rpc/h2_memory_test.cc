// The allocator of HTTP/2 sessions: contents survive every way between small and large blocks, and
// what does not fit into memory is refused. Leaks and bad frees are the sanitizer's to find.
#include "adapters/rpc/h2_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace nstance::grpc {
namespace {

std::vector<std::uint8_t> Pattern(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 + 7);
  return bytes;
}

TEST(H2MemoryTest, ContentsSurviveReallocationBetweenAllSizes) {
  const nghttp2_mem& memory = *H2Memory();
  const std::vector<std::size_t> sizes = {
      0, 1, 100, kLargeBlockBytes - 1, kLargeBlockBytes, kLargeBlockBytes + 5'000};
  for (const std::size_t from : sizes) {
    for (const std::size_t to : sizes) {
      auto* block = static_cast<std::uint8_t*>(memory.malloc(from, nullptr));
      ASSERT_NE(block, nullptr);
      const std::vector<std::uint8_t> pattern = Pattern(from);
      std::ranges::copy(pattern, block);
      block = static_cast<std::uint8_t*>(memory.realloc(block, to, nullptr));
      ASSERT_NE(block, nullptr);
      EXPECT_TRUE(std::equal(block, block + std::min(from, to), pattern.begin()))
          << from << " to " << to;
      std::fill_n(block, to, std::uint8_t{1});  // All of it is ours.
      memory.free(block, nullptr);
    }
  }
}

TEST(H2MemoryTest, ZeroedBlocksAreZero) {
  const nghttp2_mem& memory = *H2Memory();
  for (const std::size_t size : {std::size_t{24}, kLargeBlockBytes, 2 * kLargeBlockBytes}) {
    for (int again = 0; again < 3; ++again) {
      auto* block = static_cast<std::uint8_t*>(memory.calloc(size, 1, nullptr));
      ASSERT_NE(block, nullptr);
      EXPECT_TRUE(std::all_of(block, block + size, [](std::uint8_t byte) { return byte == 0; }));
      std::fill_n(block, size, std::uint8_t{0xAA});
      memory.free(block, nullptr);
    }
  }
}

TEST(H2MemoryTest, NullIsFreedAndReallocated) {
  const nghttp2_mem& memory = *H2Memory();
  memory.free(nullptr, nullptr);
  void* block = memory.realloc(nullptr, 10, nullptr);
  ASSERT_NE(block, nullptr);
  memory.free(block, nullptr);
}

TEST(H2MemoryTest, SizesThatOverflowAreRefused) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  const nghttp2_mem& memory = *H2Memory();
  EXPECT_EQ(memory.malloc(kMost, nullptr), nullptr);
  EXPECT_EQ(memory.malloc(kMost - 64, nullptr), nullptr);
  EXPECT_EQ(memory.calloc(kMost / 2, 3, nullptr), nullptr);
}

}  // namespace
}  // namespace nstance::grpc
