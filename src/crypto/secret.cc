#include "crypto/secret.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <openssl/crypto.h>

#include "base/check.h"

namespace nstance::crypto {
namespace {

std::size_t MappedSize(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

}  // namespace

Secret::Secret(std::size_t size) : size_(size) {
  if (size == 0) return;
  const std::size_t mapped = MappedSize(size);
  void* pages = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED, "no memory for a secret of {} bytes", size);
  // Both are protection in depth: a kernel that refuses must not stop the process.
  (void)madvise(pages, mapped, MADV_DONTDUMP);
  (void)mlock(pages, mapped);
  data_ = static_cast<std::uint8_t*>(pages);
}

Secret Secret::CopyOf(std::span<const std::uint8_t> bytes) {
  Secret secret(bytes.size());
  std::ranges::copy(bytes, secret.MutableBytes().begin());
  return secret;
}

Secret::Secret(Secret&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    Release();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Secret::~Secret() { Release(); }

void Secret::Release() {
  if (data_ == nullptr) return;
  OPENSSL_cleanse(data_, size_);
  munmap(data_, MappedSize(size_));
  data_ = nullptr;
  size_ = 0;
}

void Wipe(std::string& text) {
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

void Wipe(Bytes& bytes) {
  OPENSSL_cleanse(bytes.data(), bytes.size());
  bytes.clear();
}

void InitSecureHeap(std::size_t bytes) {
  if (CRYPTO_secure_malloc_initialized() != 0) return;
  constexpr std::size_t kSmallestBlock = 32;
  // 0 is failure; 2 is success without a lock or guard page, which is the best effort meant here.
  const int result = CRYPTO_secure_malloc_init(bytes, kSmallestBlock);
  CHECK(result != 0, "no memory for the secure heap of {} bytes", bytes);
}

}  // namespace nstance::crypto
