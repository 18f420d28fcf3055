// Secret: what must not compile is asserted with concepts, what the kernel must know is read back
// from /proc/self/smaps.
#include "crypto/secret.h"

#include <concepts>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include "crypto/ed25519.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::crypto {
namespace {

template <class T>
concept Streamable = requires(std::ostream& out, const T& value) { out << value; };
template <class T>
concept Comparable = requires(const T& a, const T& b) { a == b; };
template <class T>
concept Iterable = requires(const T& value) { value.begin(); };

static_assert(Streamable<std::string> && Comparable<std::string>, "the concepts work");
static_assert(!Streamable<Secret>);
static_assert(!Comparable<Secret>);
static_assert(!Iterable<Secret>);
static_assert(!fmt::is_formattable<Secret>::value);
static_assert(!std::copyable<Secret> && std::movable<Secret>);
static_assert(!std::is_copy_constructible_v<Secret> && !std::is_copy_assignable_v<Secret>);
static_assert(!std::is_convertible_v<Secret, std::span<const std::uint8_t>>);
static_assert(!std::is_convertible_v<Secret, std::string>);
static_assert(!std::is_convertible_v<Secret, std::string_view>);
static_assert(!std::is_convertible_v<Secret, bool>);
static_assert(!std::is_convertible_v<std::span<const std::uint8_t>, Secret>);
static_assert(!std::is_convertible_v<std::size_t, Secret>);
static_assert(!std::is_copy_constructible_v<PrivateKey> && !Streamable<PrivateKey> &&
              !Comparable<PrivateKey> && !fmt::is_formattable<PrivateKey>::value);

// The VmFlags line of the mapping that holds `address`; empty when nothing is mapped there.
std::string VmFlagsOf(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t low = 0;
    std::uintptr_t high = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &low, &high) == 2) {
      inside = wanted >= low && wanted < high;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line + " ";
    }
  }
  return "";
}

TEST(Secret, KeepsTheBytesItWasGiven) {
  const Secret secret = Secret::CopyOf(AsBytes("hello"));
  EXPECT_EQ(AsText(secret.Reveal()), "hello");
  EXPECT_EQ(secret.size(), 5U);
}

TEST(Secret, StartsAsZeros) {
  const Secret secret(10'000);
  EXPECT_EQ(secret.size(), 10'000U);
  for (const std::uint8_t byte : secret.Reveal()) ASSERT_EQ(byte, 0);
}

TEST(Secret, MayBeEmpty) {
  EXPECT_TRUE(Secret().empty());
  EXPECT_TRUE(Secret(0).Reveal().empty());
  EXPECT_TRUE(Secret::CopyOf({}).empty());
}

TEST(Secret, MovesItsPagesInsteadOfCopying) {
  Secret first = Secret::CopyOf(AsBytes("hello"));
  const void* pages = first.Reveal().data();
  Secret second = std::move(first);
  EXPECT_EQ(second.Reveal().data(), pages);
  EXPECT_TRUE(
      first.empty());  // NOLINT(bugprone-use-after-move): the state after a move is promised.
  Secret third = Secret::CopyOf(AsBytes("other"));
  third = std::move(second);
  EXPECT_EQ(AsText(third.Reveal()), "hello");
}

TEST(Secret, IsLeftOutOfCoreDumps) {
  const Secret secret = Secret::CopyOf(AsBytes("hello"));
  const std::string flags = VmFlagsOf(secret.Reveal().data());
  EXPECT_NE(flags.find(" dd "), std::string::npos) << flags;
}

TEST(Secret, GivesItsPagesBack) {
  const void* address = nullptr;
  {
    const Secret secret = Secret::CopyOf(AsBytes("hello"));
    address = secret.Reveal().data();
    EXPECT_NE(VmFlagsOf(address).find(" dd "), std::string::npos);
  }
  EXPECT_EQ(VmFlagsOf(address).find(" dd "), std::string::npos);
}

TEST(Secret, WipeOverwritesTheBuffer) {
  std::string text = "a secret that is longer than a short string";
  const char* at = text.data();
  const std::size_t size = text.size();
  Wipe(text);
  EXPECT_TRUE(text.empty());
  // The buffer is still the string's own: clear() does not give it back. Only the first byte may
  // differ from zero, since it is the end of the empty string, which is zero as well.
  text.resize(size);
  EXPECT_EQ(text.data(), at);
  EXPECT_EQ(text, std::string(size, '\0'));
}

TEST(SecureHeap, HoldsPrivateKeysAndMayBeInitialisedTwice) {
  InitSecureHeap();
  InitSecureHeap();
  ASSERT_EQ(CRYPTO_secure_malloc_initialized(), 1);
  const std::size_t before = CRYPTO_secure_used();
  {
    const PrivateKey key = test::KeyOf(7);
    EXPECT_GE(CRYPTO_secure_used(), before + PrivateKey::kSeedSize);
  }
  EXPECT_EQ(CRYPTO_secure_used(), before);
}

}  // namespace
}  // namespace nstance::crypto
