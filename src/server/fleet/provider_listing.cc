#include "server/fleet/provider_listing.h"

#include <iterator>

namespace nstance {

void ProviderListing::NextPage(std::string token) {
  call_ = provider_.List(frame_(), {.page_token = std::move(token)},
                         [this](ProviderResult<ProviderPage> page) { OnPage(std::move(page)); });
}

void ProviderListing::OnPage(ProviderResult<ProviderPage> page) {
  if (!page.has_value()) return Finish(std::unexpected(std::move(page).error()));
  found_.insert(found_.end(), std::make_move_iterator(page->instances.begin()),
                std::make_move_iterator(page->instances.end()));
  if (page->next_page_token.empty()) return Finish(std::move(found_));
  if (++pages_ > kMaxPages) {
    return Finish(
        std::unexpected(ProviderError{.error = Internal("the provider's listing does not end")}));
  }
  NextPage(std::move(page->next_page_token));
}

void ProviderListing::Finish(ProviderResult<std::vector<ProviderInstance>> result) {
  Done done = std::move(done_);
  done(std::move(result));
}

}  // namespace nstance
