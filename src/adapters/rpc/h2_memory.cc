#include "adapters/rpc/h2_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace nstance::grpc {
namespace {

// In front of every block; keeps what follows aligned.
struct alignas(std::max_align_t) Head {
  std::size_t size = 0;    // Of the block, as asked for.
  std::size_t mapped = 0;  // Bytes from the kernel; 0: from malloc().
};

constexpr std::size_t kPage = 4096;

void* Allocate(std::size_t size, void* /*user*/) {
  if (size > std::numeric_limits<std::size_t>::max() - sizeof(Head) - kPage) return nullptr;
  const std::size_t whole = size + sizeof(Head);
  void* base = nullptr;
  std::size_t mapped = 0;
  if (size >= kLargeBlockBytes) {
    mapped = (whole + kPage - 1) / kPage * kPage;
    base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    // A huge page would be resident as a whole. The kernel may not know of them.
    static_cast<void>(madvise(base, mapped, MADV_NOHUGEPAGE));
  } else {
    base = std::malloc(whole);
    if (base == nullptr) return nullptr;
  }
  Head* head = new (base) Head{.size = size, .mapped = mapped};
  return head + 1;
}

void Free(void* block, void* /*user*/) {
  if (block == nullptr) return;
  Head* head = static_cast<Head*>(block) - 1;
  if (head->mapped > 0) {
    munmap(head, head->mapped);
  } else {
    std::free(head);
  }
}

void* AllocateZeroed(std::size_t count, std::size_t size, void* user) {
  if (size != 0 && count > std::numeric_limits<std::size_t>::max() / size) return nullptr;
  void* block = Allocate(count * size, user);
  // The kernel's pages are zero.
  if (block != nullptr && count * size < kLargeBlockBytes) std::memset(block, 0, count * size);
  return block;
}

void* Reallocate(void* block, std::size_t size, void* user) {
  if (block == nullptr) return Allocate(size, user);
  Head* head = static_cast<Head*>(block) - 1;
  void* moved = Allocate(size, user);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, std::min(size, head->size));
  Free(block, user);
  return moved;
}

}  // namespace

nghttp2_mem* H2Memory() {
  static nghttp2_mem memory = {.mem_user_data = nullptr,
                               .malloc = Allocate,
                               .free = Free,
                               .calloc = AllocateZeroed,
                               .realloc = Reallocate};
  return &memory;
}

}  // namespace nstance::grpc
