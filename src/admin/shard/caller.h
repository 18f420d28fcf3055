// ShardCaller: unary calls to the leader of one shard, one at a time, on a connection that is kept.
//
// A failover is not an error: what could not be reached, and a call whose answer does not come, is
// tried again on a new connection with a growing pause, until the deadline. Every request of this
// tool may be repeated (it sets a size, names an instance or carries a request id). What comes out
// at the end says what to do: which flag, which file, who holds the lease of the shard.
//
// The lease is read shortly before the deadline, while the last tries are made: what is told at the
// deadline is then a few seconds old, and nothing takes longer than asked for.
//
// State        | Event                                    | Next
// -------------+------------------------------------------+---------------------------------------
// idle         | Call()                                   | connecting, or calling when connected
// connecting   | ready                                    | calling
//              | gone: our certificate or theirs refused  | idle, with the error
//              | gone: anything else                      | pausing
// calling      | answer, or an error that stays           | idle, with it
//              | UNAVAILABLE, or no answer to this try    | pausing
// pausing      | pause over                               | connecting
// any but idle | deadline                                 | idle, with the last error
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "admin/shard/identity.h"
#include "admin/shard/lease_news.h"
#include "admin/shard_command.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/api/methods.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/rpc.h"
#include "ports/rpc_unary.h"

namespace nstance::admin {

// Our pings come as rarely as the most sensitive server bears.
[[nodiscard]] RpcTarget TargetOf(const ServerAddress& server, const OperatorIdentity& identity);

// "10.0.0.1:8993", "[fd00::1]:8993".
[[nodiscard]] std::string AddressText(const RpcAddress& address);

// What to do about a call that was refused.
[[nodiscard]] Error AdviseOnCall(Error error, const OperatorIdentity& identity);
// What to do about a connection that one side refused.
[[nodiscard]] Error AdviseOnConnection(Error error, const OperatorIdentity& identity);
// Neither will do better next time.
[[nodiscard]] bool IsRefusal(const Error& error);

// One line of --debug per change of a connection.
void LogState(const log::Logger& log, RpcChannelState state, const Status& why);

// A pause before the next try: 100 ms, then twice as long each time up to 2 s, by up to a quarter
// longer.
class RetryPause final {
 public:
  [[nodiscard]] Duration Next(Prng& jitter);
  void Reset() { next_ = kFirst; }

 private:
  static constexpr Duration kFirst = Duration::Milliseconds(100);
  static constexpr Duration kMost = Duration::Seconds(2);
  Duration next_ = kFirst;
};

class ShardCaller final {
 public:
  struct Setup {
    Loop& loop;
    RpcDialer& dialer;
    const OperatorIdentity& identity;
    Prng jitter;
    log::Logger log;
    LeaseBucket leases = {};
    // The shard cannot be reached, and is tried again: once per call.
    std::function<void(const ServerAddress& server, const Error& why)> trouble = {};
  };

  ShardCaller(Setup setup, ServerAddress server);
  ShardCaller(const ShardCaller&) = delete;
  ShardCaller& operator=(const ShardCaller&) = delete;
  ~ShardCaller();

  [[nodiscard]] const ServerAddress& server() const { return server_; }
  // How long all its calls have taken together.
  [[nodiscard]] Duration spent() const { return spent_; }

  // REQUIRES: no call is under way. `done` may destroy the caller.
  template <class Request, class Response>
  void Call(const api::Method<Request, Response>& method, std::type_identity_t<Request> request,
            Instant deadline,
            std::move_only_function<void(Result<std::type_identity_t<Response>>)> done) {
    using Done = std::move_only_function<void(Result<Response>)>;
    const auto tell = std::make_shared<Done>(std::move(done));
    attempt_ = [this, method, request = std::move(request), tell](RpcChannel& channel,
                                                                  Duration limit) {
      return CallUnary(channel, method, {.message = request, .timeout = limit},
                       [this, tell](Result<Response> answer) {
                         if (!answer) return OnCallFailed(answer.error());
                         OnAnswered();
                         Done last = std::move(*tell);  // End() destroys this callback.
                         End();
                         last(std::move(answer));
                       });
    };
    fail_ = [tell](Error error) { (*tell)(Fail(std::move(error))); };
    path_ = method.path;
    Begin(deadline);
  }

  // The call under way is forgotten; `done` does not come.
  void Cancel();

 private:
  static constexpr Duration kOneTry = Duration::Seconds(10);
  // So long before the deadline the lease is read, or at half of a shorter time.
  static constexpr Duration kLeaseLead = Duration::Seconds(5);

  void Begin(Instant deadline);
  void Connect();
  void OnState(RpcChannelState state, const Status& why);
  void Try();
  void OnAnswered();
  void OnCallFailed(const Error& error);
  void Again(const Error& error);
  void AskForLease();
  void OnDeadline();
  // Who leads, or how to find out.
  [[nodiscard]] std::string LeaderClause() const;
  void GiveUp(Error error);
  void End();
  [[nodiscard]] Duration Remaining() const;

  Setup setup_;
  ServerAddress server_;
  std::unique_ptr<RpcChannel> channel_;
  bool call_under_way_ = false;
  std::function<Pending(RpcChannel& channel, Duration limit)> attempt_;
  std::function<void(Error error)> fail_;
  std::string_view path_;
  int tries_ = 0;
  Duration spent_;
  Instant call_began_;
  Instant began_;  // The first of the calls with this deadline.
  Instant deadline_;
  std::optional<Error> gave_up_;  // What the last call ended with when its time was over.
  std::optional<Error> last_;     // Why the last try failed.
  bool told_ = false;             // Of the trouble.
  RetryPause pause_;
  std::optional<Result<Object>> lease_;  // As it was read for this call.
  Pending lease_timer_;
  Pending lease_call_;
  Pending call_;
  Pending timer_;
  Pending deadline_timer_;
};

}  // namespace nstance::admin
