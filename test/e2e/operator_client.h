// OperatorClient: an operator of the shard under test, with the product's own RPC client: it joins
// with a token, calls OperatorService through the forwarder, and may acknowledge drains.
//
//   OperatorClient client({.loop = loop, .bucket = ..., .cluster = ..., ...});
//   ASSERT_TRUE(client.Join(Duration::Seconds(30)));
//   ASSERT_TRUE(client.Resize("workers", 30, Duration::Seconds(30)));
//   client.AcknowledgeDrains();   // From now on, whenever the loop runs.
//
// The token is signed with the cluster's own key, which lies sealed in the bucket: the client knows
// the encryption key, as an administrator does.
//
// Calls are repeated on a new connection until the time is up when nobody could be reached or the
// answer was lost: use it for what may be repeated.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "base/name.h"
#include "base/result.h"
#include "crypto/ed25519.h"
#include "ports/rpc.h"
#include "ports/rpc_unary.h"

namespace nstance::test {

class OperatorClient final {
 public:
  struct Options {
    RealLoop& loop;
    std::string bucket;  // The folder of the file store.
    ClusterId cluster;
    std::string encryption_key;        // 32 bytes.
    std::string registration_address;  // "host:port", as the next one.
    std::string operator_address;
    TenantId tenant = DefaultTenant();
  };
  // A drain that was told by WatchInstances, once per drain id.
  struct Drain {
    api::InstanceEvent event = {};
    Instant told_at = {};
    bool acknowledged = false;
  };

  explicit OperatorClient(Options options);
  OperatorClient(const OperatorClient&) = delete;
  OperatorClient& operator=(const OperatorClient&) = delete;
  ~OperatorClient();

  // Waits for the cluster's keys, registers, keeps the certificate.
  [[nodiscard]] Status Join(Duration limit);

  // The identity as the admin tool keeps it: ca.crt, identity.key, identity.crt. After Join().
  [[nodiscard]] Status WriteIdentity(const std::string& folder) const;

  template <class Request, class Response>
  [[nodiscard]] Result<Response> Call(const api::Method<Request, Response>& method,
                                      const std::type_identity_t<Request>& request,
                                      Duration limit) {
    const Instant end = options_.loop.Now() + limit;
    for (;;) {
      std::optional<Result<Response>> answer;
      if (const Status ready = Connect(end); !ready) {
        answer = Fail(ready.error());
      } else {
        const Pending call =
            CallUnary(*channel_, method, {.message = request, .timeout = kPatience},
                      [&](Result<Response> got) { answer = std::move(got); });
        Run([&] { return answer.has_value(); }, end);
      }
      const bool over = options_.loop.Now() >= end;
      if (answer && (answer->has_value() || over || !MayRepeat(answer->error()))) return *answer;
      if (over) return Fail(DeadlineExceeded("the call was not answered in time"));
      channel_.reset();
      Pause();
    }
  }

  [[nodiscard]] Status Resize(const std::string& group, int size, Duration limit);
  [[nodiscard]] Result<api::GroupStatus> Group(const std::string& group, Duration limit);

  // Watches the tenant's instances and acknowledges every drain, on a connection of its own that is
  // made again whenever it ends.
  void AcknowledgeDrains();
  [[nodiscard]] const std::map<std::string, Drain>& drains() const { return drains_; }

 private:
  static constexpr Duration kPatience = Duration::Seconds(5);

  [[nodiscard]] static bool MayRepeat(const Error& error);
  [[nodiscard]] Result<api::RegisterClientRequest> JoinRequest() const;
  [[nodiscard]] Status JoinOnce(Instant end);
  [[nodiscard]] std::unique_ptr<RpcChannel> Dial(const std::string& address);
  [[nodiscard]] Status WaitReady(RpcChannel& channel, Instant end);
  [[nodiscard]] Status Connect(Instant end);
  void Run(const std::function<bool()>& done, Instant end) const;
  void Pause() const;
  void Watch();
  void WatchAgain();
  void OnEvent(const api::InstanceEvent& event);
  void Acknowledge(const std::string& drain_id);

  Options options_;
  std::vector<RpcMethod> methods_;
  grpc::SocketRpcDialer dialer_;
  std::shared_ptr<const crypto::PrivateKey> key_;
  std::shared_ptr<RpcTlsMaterial> tls_ = std::make_shared<RpcTlsMaterial>();
  std::unique_ptr<RpcChannel> channel_;
  // Always the same: a lost answer is asked for again with the same token.
  std::optional<api::RegisterClientRequest> join_;

  std::map<std::string, Drain> drains_;  // By drain id.
  std::unique_ptr<RpcChannel> watch_channel_;
  std::unique_ptr<RpcCall> watch_;
  std::map<std::string, Pending> acks_;  // By drain id.
  Pending again_;
};

}  // namespace nstance::test
