#include "admin/shard/instance_pages.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nstance::admin {
namespace {

constexpr std::int32_t kPage = 1'000;

}  // namespace

InstancePages::InstancePages(ShardCaller& caller, Instant deadline,
                             api::ListInstancesRequest request, Told told)
    : caller_(caller), deadline_(deadline), request_(std::move(request)), told_(std::move(told)) {
  request_.page_size = kPage;
  Ask();
}

void InstancePages::Ask() {
  caller_.Call(api::kListInstances, request_, deadline_,
               [this](Result<api::ListInstancesResponse> page) { OnPage(std::move(page)); });
}

void InstancePages::OnPage(Result<api::ListInstancesResponse> page) {
  if (!page) {
    auto told = std::move(told_);
    return told(Fail(page.error()));
  }
  std::ranges::move(page->instances, std::back_inserter(instances_));
  // A token that does not move on would never end.
  const bool stuck = page->instances.empty() || page->next_page_token == request_.page_token;
  if (page->next_page_token.empty() || stuck || instances_.size() >= kMostInstances) {
    auto told = std::move(told_);
    return told(std::move(instances_));
  }
  request_.page_token = std::move(page->next_page_token);
  Ask();
}

std::unique_ptr<Running> ListAll(
    Session& session, std::vector<std::size_t> servers, api::ListInstancesRequest request,
    std::move_only_function<void(ShardAnswers<std::vector<api::Instance>>)> done) {
  auto fan = std::make_unique<Fan<std::vector<api::Instance>>>(
      std::move(servers),
      [&session, request = std::move(request)](std::size_t server, InstancePages::Told told) {
        return std::make_shared<InstancePages>(session.caller(server), session.Deadline(server),
                                               request, std::move(told));
      },
      std::move(done));
  fan->Start();
  return fan;
}

}  // namespace nstance::admin
