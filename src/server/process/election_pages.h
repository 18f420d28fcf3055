// ElectionPages: the election listener (server.md 15), HTTPS, open on every server of the shard.
//
//   GET /health/leadership/shard    200 and the lease record, as of now, on the leader; else 404
//   GET /health/leadership/cluster  likewise, for the cluster's lease
//
// Nothing of ours asks here: it tells others who leads. An address that cannot be bound is told in
// the log and tried again; nothing else waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/log.h"
#include "core/config/config.h"
#include "ports/http_server.h"
#include "ports/loop.h"
#include "ports/pending.h"
#include "ports/rpc.h"

namespace nstance {

class ElectionPages final {
 public:
  static constexpr Duration kRetry = Duration::Seconds(10);

  struct Deps {
    Loop& loop;
    HttpServer& server;  // Made for TLS.
    log::Logger log;
  };
  struct Owner {
    // The bytes of the lease record, while it is ours.
    std::function<std::optional<std::string>()> shard;
    std::function<std::optional<std::string>()> cluster;
    std::function<void(const config::Address& bound)> open;
  };

  ElectionPages(Deps deps, config::Address address, Owner owner)
      : deps_(std::move(deps)), address_(std::move(address)), owner_(std::move(owner)) {}
  ElectionPages(const ElectionPages&) = delete;
  ElectionPages& operator=(const ElectionPages&) = delete;

  void Start();
  void UseTls(const RpcTls& material);
  // 0 until it is open.
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  [[nodiscard]] HttpAnswer Page(const HttpQuestion& question) const;

  Deps deps_;
  config::Address address_;
  Owner owner_;
  std::uint16_t port_ = 0;
  Pending retry_;
};

}  // namespace nstance
