// ListPosition: the page tokens of cloud stores, made so that a listing without progress is
// noticed.
//
// A token of ours holds the store's own, the last key seen and how many empty pages came in a row.
// CheckPage() turns what a store listed into what the port promises, or into an error: an error
// means "unknown", never "empty".
//
// Guarantees, each held by a test:
//   - keys ascend strictly, within a page and from page to page, and start with the prefix; a store
//     that lists otherwise fails the listing
//   - a store that repeats its token, or sends more than kMaxEmptyPages empty pages in a row, fails
//     the listing, so that no listing is endless without new keys
//   - a key with a control character or a component `.` or `..` fails the listing
//   - any other key that cannot be ours (a folder mark `a/`, letters outside ASCII, blanks) is
//     passed over: people may keep things of their own in a bucket
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ports/object_store.h"

namespace nstance::cloud {

inline constexpr int kMaxEmptyPages = 16;

struct ListPosition {
  int empty_pages = 0;
  std::string last_key = {};
  std::string store_token = {};  // Empty: the first page.

  // Empty for the position before the first page.
  [[nodiscard]] std::string ToToken() const;
  // kInvalidArgument when the text is not one that ToToken() wrote.
  [[nodiscard]] static Result<ListPosition> FromToken(std::string_view token);
};

// What a store listed, before anybody has looked at it.
struct RawPage {
  struct Entry {
    std::string key;
    ObjectVersion version;
    std::uint64_t size = 0;
  };
  std::vector<Entry> entries = {};
  std::string next_token = {};  // Empty: the last page.
};

// `request` is what was asked for and `position` the one its page token stands for.
[[nodiscard]] Result<ListPage> CheckPage(RawPage page, const ListRequest& request,
                                         const ListPosition& position);

}  // namespace nstance::cloud
