// Registration: how an agent joins with its nonce. The machine; agent/registrar.h runs it.
//
//   state     | event                                   | next      | command
//   ----------+-----------------------------------------+-----------+-----------------------------
//   new       | Start                                   | calling   | Call
//   calling   | certificate                             | storing   | Store
//   calling   | kUnauthenticated                        | waiting   | Wait 10-30 s
//   calling   | kInvalidArgument, kPermissionDenied,    | waiting   | Wait 30-60 s
//             | kUnimplemented, kNotFound ...           |           |
//   calling   | any other error, no connection          | waiting   | Wait 0.5 s x 2^n, cap 10 s,
//             |                                         |           | times uniform(0.5, 1.5)
//   storing   | stored                                  | done      | Finish
//   storing   | error                                   | waiting   | Wait, as any other error
//   waiting   | woke, nonce still good                  | calling   | Call
//   waiting   | woke, nonce expired                     | leaving   | Wait 0-9 s
//   leaving   | woke                                    | done      | GiveUp
//
// Guarantees, each held by a test:
//   - at least one call is made, also when our clock says that the nonce has expired: the server's
//     clock decides, and ours may be wrong
//   - no error ends the agent before the nonce expires; a wait does not reach beyond that moment
// Every call shows the same key, which the runner has stored before, so an answer that was lost is
// asked for again. An event that a state does not expect is our own mistake, and a CHECK.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"

namespace nstance::agent {

class Registration final {
 public:
  // What the runner is to do next.
  struct Call {};
  struct Wait {
    Duration length;
  };
  struct Store {
    std::string certificate_pem;
  };
  struct Finish {};
  struct GiveUp {
    Error why;  // Of the last attempt.
  };
  using Command = std::variant<Call, Wait, Store, Finish, GiveUp>;

  explicit Registration(Timestamp nonce_expires_at) : expires_at_(nonce_expires_at) {}

  [[nodiscard]] Command Start();
  // The certificate as PEM: the runner has checked that it is ours.
  [[nodiscard]] Command Answered(Result<std::string> certificate_pem, Timestamp wall, Prng& jitter);
  [[nodiscard]] Command Stored(const Status& status, Timestamp wall, Prng& jitter);
  [[nodiscard]] Command Woke(Timestamp wall, Prng& jitter);

  // Why the last attempt failed, for /readyz; kUnavailable before the first answer.
  [[nodiscard]] const Error& last_error() const { return last_error_; }

 private:
  enum class State : std::uint8_t { kNew, kCalling, kStoring, kWaiting, kLeaving, kDone };

  void Enter(State from, State to);
  [[nodiscard]] Command WaitAfter(State from, Error error, Timestamp wall, Prng& jitter);
  [[nodiscard]] Duration DelayAfter(Code code, Prng& jitter);

  Timestamp expires_at_;
  State state_ = State::kNew;
  int quick_retries_ = 0;
  Error last_error_ = Unavailable("no answer yet");
};

}  // namespace nstance::agent
