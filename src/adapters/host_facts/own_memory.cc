#include "adapters/host_facts/own_memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace nstance {
namespace {

// The program is the first object; libraries are shared with others and stay.
int DropConstantPages(dl_phdr_info* info, std::size_t /*size*/, void* /*unused*/) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    // Whole pages only: the first and the last may belong to a neighbour that is written to.
    const std::uintptr_t begin = (info->dlpi_addr + segment.p_vaddr + page - 1) / page * page;
    const std::uintptr_t end = (info->dlpi_addr + segment.p_vaddr + segment.p_filesz) / page * page;
    if (begin >= end) continue;
    // The kernel may refuse; then the pages stay.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses of segments are numbers.
    (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 1;  // Only the first object.
}

}  // namespace

void ReturnUnusedMemory() {
  (void)::malloc_trim(0);
  (void)::dl_iterate_phdr(DropConstantPages, nullptr);
}

}  // namespace nstance
