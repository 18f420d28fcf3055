// Channel: what crosses between the loop of the callers and the loop of the sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "adapters/http/mailbox.h"
#include "ports/http.h"

namespace nstance::http {

// Counted from 1, never used twice.
using TransferId = std::uint64_t;

enum class Kind : std::uint8_t { kRequest, kStream };

struct StartCommand {
  TransferId id = 0;
  Kind kind = Kind::kRequest;
  HttpRequest request;
};
// Nobody waits any more. The transfer may have ended.
struct CancelCommand {
  TransferId id = 0;
};
// The stream's reader has taken that much.
struct TakenCommand {
  TransferId id = 0;
  std::size_t bytes = 0;
};
using Command = std::variant<StartCommand, CancelCommand, TakenCommand>;

struct AnswerEvent {
  Result<HttpResponse> answer;
};
struct HeadEvent {
  HttpResponse head;
};
struct DataEvent {
  std::string data;
};
struct EndEvent {
  Status end;
};
struct Event {
  TransferId id = 0;
  std::variant<AnswerEvent, HeadEvent, DataEvent, EndEvent> what;
};

struct Channel {
  Channel(Loop& io, Loop& home) : to_io(io), to_home(home) {}
  Mailbox<Command> to_io;
  Mailbox<Event> to_home;
};

// The last event of a transfer that got no answer.
[[nodiscard]] inline Event FailureOf(TransferId id, Kind kind, Error error) {
  if (kind == Kind::kRequest) return {.id = id, .what = AnswerEvent{Fail(std::move(error))}};
  return {.id = id, .what = EndEvent{Fail(std::move(error))}};
}

}  // namespace nstance::http
