#include <utility>

#include "server/cancellable.h"
#include "server/services/operator_service.h"

namespace nstance {
namespace {

// Calls in flight are bounded per tenant; what is older than this many has been answered.
constexpr std::size_t kMaxRefreshes = 4'096;

}  // namespace

void OperatorService::GetConfigStatus(Call call) {
  calls_.Serve(
      api::kGetConfigStatus, std::move(call),
      [this](const api::Empty&, const RpcCallInfo&, const Reply<api::ConfigStatusResponse>& reply) {
        const ConfigRef& config = context_.config.current();
        if (config == nullptr) {
          return reply(Fail(Unavailable("no configuration is loaded")));
        }
        reply(api::ConfigStatusResponse{.etag = config->etag,
                                        .last_modified = config->modified_at,
                                        .size = static_cast<std::int64_t>(config->size)});
      });
}

// Configuration first, then the groups on top of it; both are in force when the caller is answered.
void OperatorService::RefreshConfig(Call call) {
  calls_.Serve(
      api::kRefreshConfig, std::move(call),
      [this](const api::Empty&, const RpcCallInfo&,
             const Reply<api::RefreshConfigResponse>& reply) {
        auto reload = Cancellable<Result<ConfigSource::Reload>>(
            [this, reply](Result<ConfigSource::Reload> loaded) { OnReload(loaded, reply); });
        refreshes_.push_back(std::move(reload.pending));
        if (refreshes_.size() > kMaxRefreshes) refreshes_.pop_front();
        context_.config.Refresh(std::move(reload.call));
      });
}

void OperatorService::OnReload(const Result<ConfigSource::Reload>& reload,
                               const Reply<api::RefreshConfigResponse>& reply) {
  if (!reload.has_value()) return reply(Fail(reload.error()));
  const api::RefreshConfigResponse answer = {
      .updated = reload->updated(), .prev_etag = reload->prev_etag, .etag = reload->config->etag};
  context_.groups.Refresh(reload->config, [reply, answer](const Result<GroupAnswer>& groups) {
    if (!groups.has_value()) return reply(Fail(groups.error()));
    reply(answer);
  });
}

}  // namespace nstance
