// Resolver: one name looked up with c-ares on a RealLoop, without a thread and without glibc's
// resolver, so that it works in static programs too. /etc/hosts and /etc/resolv.conf count.
//
// Literal addresses answer without any look-up. The answer never comes from inside the constructor;
// destroying the object means that it does not come.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapters/real_loop/real_loop.h"
#include "base/result.h"
#include "ports/rpc.h"

namespace nstance::grpc {

struct ResolvedAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

class Resolver final {
 public:
  using Done = std::move_only_function<void(Result<std::vector<ResolvedAddress>>)>;
  Resolver(RealLoop& loop, const RpcAddress& address, Done done);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

 private:
  struct Query;
  std::unique_ptr<Query> query_;
  Pending literal_;
};

}  // namespace nstance::grpc
