#include <utility>

#include "server/services/operator_service.h"

namespace nstance {

void OperatorService::GetConfigStatus(Call call) {
  calls_.Serve(api::kGetConfigStatus, std::move(call),
               [this](const api::Empty&, const RpcCallInfo&,
                      const Reply<api::ConfigStatusResponse>& reply) {
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
        context_.config.Refresh([this, reply](Result<ConfigSource::Reload> reload) {
          if (!reload.has_value()) return reply(Fail(std::move(reload).error()));
          api::RefreshConfigResponse answer = {.updated = reload->updated(),
                                               .prev_etag = reload->prev_etag,
                                               .etag = reload->config->etag};
          context_.groups.Refresh(reload->config,
                                  [reply, answer](const Result<GroupAnswer>& groups) {
                                    if (!groups.has_value()) return reply(Fail(groups.error()));
                                    reply(answer);
                                  });
        });
      });
}

}  // namespace nstance
