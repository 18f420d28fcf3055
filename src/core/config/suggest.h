// Lists and suggestions in messages: "one of: a, b, c" and "Did you mean "b"?".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nstance::config {

// The candidate nearest to `word` by edit distance, case ignored, within max(1, length / 3); empty
// when there is none. Long words and long lists are not searched to the end: work is bounded.
[[nodiscard]] std::string_view Nearest(std::string_view word,
                                       std::span<const std::string_view> candidates);

// How many entries a list may have to be told.
inline constexpr std::size_t kMaxListed = 12;

// "a, b, c".
[[nodiscard]] std::string Listed(std::span<const std::string_view> names);

// ". Did you mean "b"?" or nothing.
[[nodiscard]] std::string DidYouMean(std::string_view word,
                                     std::span<const std::string_view> candidates);

}  // namespace nstance::config
