// Renewal: when an agent's certificate is exchanged, and what to do about a failure. The machine;
// agent/renewer.h runs it.
//
//   state   | event                                        | next    | command
//   --------+----------------------------------------------+---------+----------------------------
//   resting | Look: due (or rebind asked for), connected   | keying  | PrepareKey
//   keying  | next key is durable                          | calling | Call
//   keying  | error                                        | resting | -        retry later
//   calling | certificate                                  | storing | Store
//   calling | kUnimplemented                               | resting | -        at next reconnect
//   calling | any other error                              | resting | -        retry later
//   storing | stored: key and certificate are exchanged    | resting | Switch   new due time
//   storing | error                                        | stored? | -        retry later
//   stored? | Look: time for the retry                     | storing | Store    the same answer
//
// Due is a random moment between 1/2 and 2/3 of the certificate's life, by the wall clock or by the
// monotonic one, whichever is first (faults.md 4.8 F11). A wall clock by which a certificate that
// has just come is due already is wrong, and is not asked until the next one: else every
// certificate would be exchanged at once. Of the first one, which a process finds, only the wall
// clock tells the age. Retries wait as a stream does (backoff.h), at most 1/20 of the life that is
// left.
//
// The key asked for is kept (`next.key`) until its certificate is in place, so a lost answer is
// asked for again with the same key; another key would look like a clone (security.md 4). For the
// same reason an answer that could not be stored is stored again and not asked for again: part of
// the exchange may have happened. Clocks may jump: Look() is called every few seconds and keeps no
// timer. `Link::kUp` means a connection that shows the
// present certificate: asking with an older one and a new key would look like a clone, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "core/agent/backoff.h"

namespace nstance::agent {

struct Validity {
  Timestamp not_before;
  Timestamp not_after;
};

class Renewal final {
 public:
  struct Nothing {};
  struct PrepareKey {};
  struct Call {};
  struct Store {
    std::string certificate_pem;
  };
  struct Switch {};
  using Command = std::variant<Nothing, PrepareKey, Call, Store, Switch>;

  enum class Link : std::uint8_t { kDown, kUp };
  struct Moment {
    Instant now;
    Timestamp wall;
    Link link = Link::kDown;
  };

  Renewal(Validity validity, Prng& jitter);

  [[nodiscard]] Command Look(const Moment& moment);
  [[nodiscard]] Command KeyReady(const Status& status, const Moment& moment, Prng& jitter);
  // The certificate as PEM: the runner has checked that it is for the key asked for.
  [[nodiscard]] Command Answered(Result<std::string> certificate_pem, const Moment& moment,
                                 Prng& jitter);
  // The validity of what is now in force, or why it could not be stored.
  [[nodiscard]] Command Stored(const Result<Validity>& stored, const Moment& moment, Prng& jitter);

  // The server asks for a new certificate now. One whose call has not been made yet is the answer;
  // otherwise another one follows.
  void Rebind() { rebind_ = true; }
  // A new connection: a server that did not know the method may have been replaced.
  void Reconnected() { unimplemented_ = false; }

  [[nodiscard]] Timestamp due() const { return due_; }
  [[nodiscard]] const Validity& validity() const { return validity_; }
  [[nodiscard]] bool Expired(Timestamp wall) const { return wall >= validity_.not_after; }

 private:
  enum class State : std::uint8_t { kResting, kKeying, kCalling, kStoring, kUnstored };

  void Enter(State from, State to);
  void Plan(Prng& jitter);
  [[nodiscard]] Command Retry(Code code, const Moment& moment, Prng& jitter);

  State state_ = State::kResting;
  Validity validity_;
  Timestamp due_;
  std::optional<Instant> due_at_;  // The same by the monotonic clock; empty: not known.
  bool wall_is_wrong_ = false;
  bool rebind_ = false;         // Asked for.
  bool rebind_called_ = false;  // Asked for before the call under way.
  bool unimplemented_ = false;
  std::optional<Instant> retry_at_;
  Backoff backoff_;
  std::string answer_;  // Of a call whose certificate is not in place yet.
};

}  // namespace nstance::agent
