// CreationMachine: one creation, from its durable intent to a VM with a provider id, a definite
// refusal, or a tombstone. Sans I/O; the runner is creation_run.h.
//
//   state      | event                                   | next       | command
//   -----------+-----------------------------------------+------------+---------------------------
//   new        | Start, no record                        | turn       | AwaitTurn
//   new        | Start, record                           | looking    | Look (an earlier leader may
//              |                                         |            |   have called)
//   turn       | the turn has come                       | preparing  | Prepare
//   preparing  | prepared: the record is durable         | calling    | Call
//   preparing  | an input is missing                     | turn       | AwaitTurn, later
//   preparing  | it would be another request             | cancelling | Look, or Bury
//   calling    | a VM                                    | adopting   | WriteProvisioned
//   calling    | definitely refused                      | failing    | WriteFailed
//   calling    | not done, may be tried again            | turn       | AwaitTurn, later
//   calling    | maybe done                              | looking    | Look
//   looking    | found                                   | adopting   | WriteProvisioned
//   looking    | not found, may still appear             | look wait  | Wait 5, 15, 30 s ...
//   looking    | not found, and the window has ended     | turn       | AwaitTurn
//   looking    | no answer                               | look wait  | Wait
//   look wait  | woke                                    | looking    | Look
//   turn, look | time is up (T_intent, token half gone), | cancelling | Look, or Bury when nothing
//   wait       |   or it is no longer wanted             |            |   was ever sent
//   cancelling | found                                   | adopting   | WriteProvisioned
//   cancelling | not found, first of two                 | grave wait | Wait T_vis
//   cancelling | not found, second                       | burying    | Bury
//   adopting, failing, burying | written                 | done       | Finish
//
// Guarantees, each held by a test:
//   - a request is sent only after Prepare has succeeded in the same leadership
//   - after a call whose effect cannot be excluded no other call is made before a look that came
//     after the provider's consistency window
//   - a creation that may have left the process is buried only after two looks T_vis apart
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/error.h"
#include "base/prng.h"
#include "base/time.h"
#include "core/fleet/backoff.h"
#include "ports/provider.h"

namespace nstance {

class CreationMachine final {
 public:
  struct Options {
    Duration consistency_window = {};
    Duration t_vis = Duration::Seconds(60);
    Duration t_intent = Duration::Minutes(10);
  };
  struct Input {
    Instant now;
    Prng& jitter;
  };

  struct Nothing {};
  struct AwaitTurn {
    std::optional<Instant> not_before;
  };
  struct Prepare {};
  struct Call {};
  struct Look {};
  struct Wait {
    Instant until;
  };
  struct WriteProvisioned {
    ProviderInstance vm;
  };
  struct WriteFailed {
    Error error;
    fleet::FailureClass failure = fleet::FailureClass::kOther;
  };
  struct Bury {
    Error why;
  };
  enum class Result : std::uint8_t { kProvisioned, kFailed, kCancelled };
  struct Finish {
    Result result = Result::kCancelled;
  };
  using Command = std::variant<Nothing, AwaitTurn, Prepare, Call, Look, Wait, WriteProvisioned,
                               WriteFailed, Bury, Finish>;

  enum class Record : std::uint8_t { kNone, kCreating };

  CreationMachine(Options options, Record record, Instant opened_at)
      : options_(options), record_(record), opened_at_(opened_at) {}

  [[nodiscard]] Command Start(const Input& input);
  [[nodiscard]] Command TurnCame(const Input& input);
  // The record is durable and holds what will be sent; until when the token leaves enough time.
  [[nodiscard]] Command Prepared(const Input& input, Instant token_good_until);
  // The error is the reason. kFailedPrecondition and kInvalidArgument: this request can never be
  // made; anything else: an input is missing, or the store did not answer.
  [[nodiscard]] Command NotPrepared(const Input& input, const Error& error);
  [[nodiscard]] Command Called(const Input& input, ProviderResult<ProviderInstance> answer);
  [[nodiscard]] Command Looked(const Input& input, ProviderResult<ProviderInstance> answer);
  // The time of the last Wait has come.
  [[nodiscard]] Command Woke(const Input& input);
  [[nodiscard]] Command Written(const Input& input);
  // It is to be deleted: no call is begun any more. Harmless at any time.
  [[nodiscard]] Command NoLongerWanted(const Input& input);

  // Waits for its turn: Call comes after TurnCame() only.
  [[nodiscard]] bool waits_for_turn() const { return state_ == State::kTurn; }
  [[nodiscard]] bool calling() const {
    return state_ == State::kPreparing || state_ == State::kCalling;
  }
  // Why it is not further, for people; empty: nothing went wrong.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  enum class State : std::uint8_t {
    kNew,
    kTurn,
    kPreparing,
    kCalling,
    kLooking,
    kLookWait,
    kCancelling,
    kGraveWait,
    kAdopting,
    kFailing,
    kBurying,
    kDone,
  };

  [[nodiscard]] bool TimeIsUp(Instant now) const;
  [[nodiscard]] Command ToTurn(const Input& input, std::optional<Instant> not_before);
  [[nodiscard]] Command Cancel(const Input& input, std::string why);
  [[nodiscard]] Command LookLater(const Input& input);
  [[nodiscard]] Duration Backoff(Prng& jitter);

  Options options_;
  Record record_;
  Instant opened_at_;
  State state_ = State::kNew;
  bool sent_ = false;  // A request may have left a process.
  bool unwanted_ = false;
  std::optional<Instant> unsure_since_ = std::nullopt;  // When a call with an open end ended.
  std::optional<Instant> token_good_until_ = std::nullopt;
  std::optional<Instant> missing_since_ = std::nullopt;
  int looks_ = 0;
  int failures_ = 0;
  std::string trouble_;
  Result result_ = Result::kCancelled;
};

}  // namespace nstance
