#include "adapters/cloud_http/list_position.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"

namespace nstance::cloud {
namespace {

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

bool HasDotComponent(std::string_view key) {
  for (;;) {
    const std::size_t end = key.find('/');
    const std::string_view component = key.substr(0, end);
    if (component == "." || component == "..") return true;
    if (end == std::string_view::npos) return false;
    key.remove_prefix(end + 1);
  }
}

Status CheckKey(std::string_view key, std::string_view prefix, std::string_view before) {
  const auto bad = [&](std::string_view why) {
    return Fail(Unavailable(fmt::format("the listing has the key {}, {}", Quote(key), why)));
  };
  if (std::ranges::any_of(key, IsControl)) return bad("with a control character");
  if (HasDotComponent(key)) return bad("with a component . or ..");
  if (!key.starts_with(prefix)) return bad("which does not start with what was asked for");
  if (key <= before) return bad("which does not come after the one before it");
  return {};
}

}  // namespace

// "<empty pages>\n<last key>\n<token of the store>": keys hold no control characters.
std::string ListPosition::ToToken() const {
  if (store_token.empty()) return {};
  return fmt::format("{}\n{}\n{}", empty_pages, last_key, store_token);
}

Result<ListPosition> ListPosition::FromToken(std::string_view token) {
  ListPosition position;
  if (token.empty()) return position;
  const std::size_t first = token.find('\n');
  const std::size_t second = first == std::string_view::npos ? first : token.find('\n', first + 1);
  const auto bad = [] { return Fail(InvalidArgument("a page token that is not ours")); };
  if (second == std::string_view::npos || second + 1 == token.size()) return bad();
  const char* end = token.data() + first;
  const auto read = std::from_chars(token.data(), end, position.empty_pages);
  if (read.ec != std::errc() || read.ptr != end || position.empty_pages < 0) return bad();
  position.last_key = token.substr(first + 1, second - first - 1);
  position.store_token = token.substr(second + 1);
  return position;
}

Result<ListPage> CheckPage(RawPage page, const ListRequest& request, const ListPosition& position) {
  if (page.entries.size() > request.page_size) {
    return Fail(Unavailable(fmt::format("the store listed {} keys where {} were asked for",
                                        page.entries.size(), request.page_size)));
  }
  ListPosition next{.empty_pages = page.entries.empty() ? position.empty_pages + 1 : 0,
                    .last_key = position.last_key,
                    .store_token = std::move(page.next_token)};
  ListPage checked;
  for (RawPage::Entry& entry : page.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key, request.prefix, next.last_key));
    Result<ObjectKey> key = ObjectKey::Parse(entry.key);
    next.last_key = std::move(entry.key);
    if (!key) continue;
    checked.objects.push_back(
        {.key = *std::move(key), .version = std::move(entry.version), .size = entry.size});
  }
  if (!next.store_token.empty() && next.store_token == position.store_token) {
    return Fail(Unavailable("the store repeats its page token: the listing has no end"));
  }
  if (!next.store_token.empty() && next.empty_pages > kMaxEmptyPages) {
    return Fail(Unavailable("the store lists one empty page after the other"));
  }
  checked.next_page_token = next.ToToken();
  return checked;
}

}  // namespace nstance::cloud
