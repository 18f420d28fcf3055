// All pages of ListInstances, one after the other.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "admin/shard/caller.h"
#include "admin/shard/fan.h"
#include "ports/api/instances.h"

namespace nstance::admin {

class InstancePages final : public Running {
 public:
  using Told = std::move_only_function<void(Result<std::vector<api::Instance>> instances)>;
  // Memory is bounded whatever a server answers.
  static constexpr std::size_t kMostInstances = 1'000'000;

  // Begins at once. `told` may destroy it.
  InstancePages(ShardCaller& caller, Instant deadline, api::ListInstancesRequest request,
                Told told);

 private:
  void Ask();
  void OnPage(Result<api::ListInstancesResponse> page);

  ShardCaller& caller_;
  Instant deadline_;
  api::ListInstancesRequest request_;
  Told told_;
  std::vector<api::Instance> instances_;
};

// Of every shard.
[[nodiscard]] std::unique_ptr<Running> ListAll(
    Session& session, std::vector<std::size_t> servers, api::ListInstancesRequest request,
    std::move_only_function<void(ShardAnswers<std::vector<api::Instance>>)> done);

}  // namespace nstance::admin
