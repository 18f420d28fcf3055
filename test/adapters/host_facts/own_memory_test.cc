// What the kernel says of our own pages before and after. The whole program is touched first, so
// that something has to go.
#include "adapters/host_facts/own_memory.h"

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace nstance {
namespace {

// Reads a byte of every page of the program that is never written to, between its objects too.
[[gnu::no_sanitize_address]] int TouchConstantPages(dl_phdr_info* info, std::size_t /*size*/,
                                                    void* sum) {
  for (std::size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const auto* bytes =
        reinterpret_cast<const volatile unsigned char*>(info->dlpi_addr + segment.p_vaddr);
    for (std::size_t at = 0; at < segment.p_filesz; at += 4'096) {
      *static_cast<std::uint64_t*>(sum) += bytes[at];
    }
  }
  return 1;
}

std::uint64_t SumOfConstantPages() {
  std::uint64_t sum = 0;
  (void)::dl_iterate_phdr(TouchConstantPages, &sum);
  return sum;
}

// KiB of the program's file that are in memory for us.
std::size_t ResidentProgram() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::ifstream maps("/proc/self/smaps");
  std::size_t resident = 0;
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ') && line.find(':') > line.find(' ')) {
      ours = line.ends_with(program);
    } else if (ours && line.starts_with("Rss:")) {
      resident += std::stoul(line.substr(4));
    }
  }
  return resident;
}

TEST(OwnMemoryTest, PagesOfTheProgramGoAndComeBackAsTheyWere) {
  const std::uint64_t sum = SumOfConstantPages();
  const std::size_t before = ResidentProgram();
  ASSERT_GT(before, 0U);
  ReturnUnusedMemory();
  EXPECT_LT(ResidentProgram(), before);
  EXPECT_EQ(SumOfConstantPages(), sum);
}

}  // namespace
}  // namespace nstance
