// Files that a kernel could have written, below a folder of our own; and this machine.
#include "adapters/host_facts/linux_host.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/temp_dir.h"

namespace nstance {
namespace {

using testing::HasSubstr;

class LinuxHostTest : public testing::Test {
 public:
  void Put(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = folder.path().string() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void PutInterface(const std::string& name) const {
    int value = 1;
    for (const std::string counter :
         {"rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped"}) {
      Put("/sys/class/net/" + name + "/statistics/" + counter, std::to_string(value++) + "\n");
    }
  }

  test::TempDir folder;
};

TEST_F(LinuxHostTest, ReadsWhatTheKernelSays) {
  Put("/proc/stat", "cpu  1 1 1 7 0 0 0 0 0 0\ncpu0 1 1 1 7 0 0 0 0 0 0\nbtime 1700000000\n");
  Put("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 25 kB\n");
  Put("/proc/uptime", "61.5 100.0\n");
  Put("/proc/sys/net/netfilter/nf_conntrack_count", "7\n");
  Put("/proc/sys/net/netfilter/nf_conntrack_max", "9\n");
  PutInterface("eth0");
  LinuxHost host({.interface = "eth0", .root = folder.path().string()});
  const HostReading reading = host.Sample();
  ASSERT_TRUE(reading.cpu);
  EXPECT_EQ(reading.cpu->all.busy, 3U);
  EXPECT_EQ(reading.memory->available, 25U);
  EXPECT_EQ((*reading.traffic)->tx_drops, 6U);
  EXPECT_EQ((*reading.conntrack)->count, 7U);
  EXPECT_EQ((*reading.conntrack)->max, 9U);
  EXPECT_EQ(host.Uptime(), Duration::Seconds(61));
  EXPECT_EQ(host.BootedAt(), Timestamp::FromUnix(1'700'000'000));
}

TEST_F(LinuxHostTest, EachSourceFailsByItself) {
  Put("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 25 kB\n");
  LinuxHost host({.interface = "eth9", .root = folder.path().string()});
  const HostReading reading = host.Sample();
  EXPECT_FALSE(reading.cpu);
  EXPECT_TRUE(reading.memory);
  ASSERT_TRUE(reading.traffic);
  EXPECT_THAT(reading.traffic->error().message, HasSubstr("/sys/class/net/eth9/"));
  EXPECT_FALSE(*reading.conntrack);
  EXPECT_FALSE(host.Uptime());
  EXPECT_FALSE(host.BootedAt());
}

TEST_F(LinuxHostTest, RU9_TheBootIdIsReadEachTimeAnew) {
  LinuxHost host({.root = folder.path().string()});
  EXPECT_FALSE(host.BootId());
  Put("/proc/sys/kernel/random/boot_id", "6fa1b6d6-3f5c-4f0e-8a55-000000000001\n");
  EXPECT_EQ(host.BootId(), "6fa1b6d6-3f5c-4f0e-8a55-000000000001");
  Put("/proc/sys/kernel/random/boot_id", "6fa1b6d6-3f5c-4f0e-8a55-000000000002\n");
  EXPECT_EQ(host.BootId(), "6fa1b6d6-3f5c-4f0e-8a55-000000000002");
  EXPECT_EQ(LinuxHost({}).BootId()->size(), 36U);
}

TEST_F(LinuxHostTest, WithoutAnInterfaceNothingOfItIsRead) {
  LinuxHost host({});
  const HostReading reading = host.Sample();
  EXPECT_FALSE(reading.traffic);
  EXPECT_FALSE(reading.conntrack);
}

TEST_F(LinuxHostTest, ThisMachineHasTimesMemoryAndAName) {
  LinuxHost host({});
  const HostReading reading = host.Sample();
  ASSERT_TRUE(reading.cpu) << reading.cpu.error().ToString();
  EXPECT_FALSE(reading.cpu->cores.empty());
  ASSERT_TRUE(reading.memory);
  EXPECT_GE(reading.memory->total, reading.memory->available);
  EXPECT_TRUE(host.Uptime());
  EXPECT_TRUE(host.BootedAt());
  const HostNames names = host.Names();
  EXPECT_FALSE(names.hostname.empty());
  EXPECT_FALSE(names.ipv4.starts_with("127."));
}

}  // namespace
}  // namespace nstance
