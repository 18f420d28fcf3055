// Listings of S3 and the XML below them: any bytes give a page or an error. A page that is accepted
// has keys and goes on or ends; what CheckPage() lets through are keys of ours in order; and every
// cut of an accepted text is refused.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "adapters/cloud_http/list_position.h"
#include "adapters/s3_store/s3_answers.h"
#include "base/check.h"
#include "base/xml.h"

namespace nstance {
namespace {

void CheckElement(const xml::Element& element, std::size_t depth) {
  CHECK(!element.name.empty() && depth <= 16);
  for (const xml::Element& child : element.children) CheckElement(child, depth + 1);
}

void CheckListing(std::string_view text) {
  const auto raw = s3::ParseListing(text);
  if (!raw) {
    CHECK(raw.error().code == Code::kUnavailable && !raw.error().message.empty());
    return;
  }
  for (const auto& entry : raw->entries) CHECK(!entry.key.empty());
  const auto page = cloud::CheckPage(*raw, {.prefix = ""}, {});
  if (page) {
    std::string before;
    for (const ListedObject& object : page->objects) {
      CHECK(object.key.text() > before, "{}", object.key.text());
      before = object.key.text();
    }
    CHECK(page->next_page_token.empty() == raw->next_token.empty());
    const auto position = cloud::ListPosition::FromToken(page->next_page_token);
    CHECK(position.has_value() && position->store_token == raw->next_token);
  }
  const std::size_t end = text.find_last_of('>');
  CHECK(!s3::ParseListing(text.substr(0, end)).has_value());
}

}  // namespace
}  // namespace nstance

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto root = nstance::xml::Parse(text)) nstance::CheckElement(*root, 1);
  nstance::CheckListing(text);
  (void)nstance::s3::ParseError(text);
  return 0;
}
