// CloudCall: one authorised request to a cloud. The machine (docs/decisions/003); its runner is
// cloud_call_runner.h.
//
//   state       | event                                 | next        | command
//   ------------+---------------------------------------+-------------+---------------------------
//   new         | Start                                 | authorizing | Authorize
//   authorizing | authorised, time left                 | sending     | Send(time left)
//   authorizing | authorised, too late                  | done        | Finish(too late, not done)
//   authorizing | too late                              | done        | Finish(too late, not done)
//   authorizing | error                                 | done        | Finish(that error)
//   sending     | passing trouble; a read; tries and    | waiting     | Wait(back-off)
//               | time left                             |             |
//   sending     | any other answer or error             | done        | Finish(that)
//   waiting     | woke                                  | authorizing | Authorize
//
// Any other event in a state is our own mistake, and a CHECK.
//
// Passing trouble is kUnavailable, or status 408, 429, 500, 502, 503, 504. A read is sent at most
// 1 + kMaxRepeats times, with waits of 50, 100, 200 ms, each shortened by up to half by chance. A
// write is sent once, whatever comes back.
#pragma once

#include <cstdint>
#include <variant>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/http.h"

namespace nstance::cloud {

enum class Repeat : std::uint8_t {
  kNever,  // The request changes something.
  kRead,
};

class CloudCall final {
 public:
  static constexpr int kMaxRepeats = 3;
  static constexpr Duration kFirstWait = Duration::Milliseconds(50);

  struct Authorize {
    Instant deadline;
  };
  struct Send {
    Duration left;
  };
  struct Wait {
    Duration length;
  };
  struct Finish {
    Result<HttpResponse> answer;
  };
  using Command = std::variant<Authorize, Send, Wait, Finish>;

  CloudCall(Repeat repeat, Instant deadline) : repeat_(repeat), deadline_(deadline) {}

  [[nodiscard]] Command Start();

  struct Authorized {
    Status result;
  };
  struct TooLate {};
  struct Answer {
    Result<HttpResponse> answer;
  };
  struct Woke {};
  [[nodiscard]] Command On(Authorized event, Instant now);
  [[nodiscard]] Command On(TooLate event);
  [[nodiscard]] Command On(Answer event, Instant now, Prng& prng);
  [[nodiscard]] Command On(Woke event);

 private:
  enum class State : std::uint8_t { kNew, kAuthorizing, kSending, kWaiting, kDone };
  void Enter(State from, State to);

  Repeat repeat_;
  Instant deadline_;
  int repeats_ = 0;
  State state_ = State::kNew;
};

}  // namespace nstance::cloud
