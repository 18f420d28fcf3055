#include "server/process/election_pages.h"

#include <utility>

namespace nstance {

void ElectionPages::Start() {
  const Result<std::uint16_t> port = deps_.server.Listen(
      address_.host, address_.port,
      [this](const HttpQuestion& question, HttpReply reply) { reply(Page(question)); });
  if (!port.has_value()) {
    deps_.log.Error("the election listener cannot be opened; it is tried again",
                    {{"error", port.error()}});
    retry_ = deps_.loop.CallAfter(kRetry, [this] { Start(); });
    return;
  }
  port_ = *port;
  owner_.open({.host = address_.host, .port = port_});
}

void ElectionPages::UseTls(const RpcTls& material) {
  const Status used = deps_.server.UseTls(*material);
  if (!used.has_value()) {
    deps_.log.Error("the election listener's certificate", {{"error", used.error()}});
  }
}

HttpAnswer ElectionPages::Page(const HttpQuestion& question) const {
  std::optional<std::string> record;
  if (question.path == "/health/leadership/shard") record = owner_.shard();
  if (question.path == "/health/leadership/cluster") record = owner_.cluster();
  if (!record) return {.status = 404, .body = "not the leader\n"};
  return {.content_type = "application/json", .body = *std::move(record)};
}

}  // namespace nstance
