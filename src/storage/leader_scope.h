// LeaderScope: what everything that acts under one leadership asks of it.
//
// It is made when the journal has been taken over and outlives whatever holds a reference to it;
// when leadership ends, those are destroyed first, so nothing of an older epoch is left to act.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/time.h"

namespace nstance {

struct LeaderScope {
  std::int64_t epoch = 0;
  // The longest that one storage call takes (`server.store_timeout`).
  Duration store_timeout = Duration::Seconds(3);
  // Whether an effect that takes at most so long may start now (RU4). To be asked in the turn that
  // starts it.
  std::function<bool(Duration bound)> may_start;
  // Number of the last durable journal write: the `seq` of what is stored now.
  std::function<std::int64_t()> seq;
  // The present by the store's clock, from its last answer that told it; empty: none has.
  std::function<std::optional<Timestamp>()> store_now = [] { return std::nullopt; };
  // A higher epoch was seen (RU3): leadership ends, in a later turn.
  std::function<void(Error why)> step_down;
};

}  // namespace nstance
