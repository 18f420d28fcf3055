// CHECK: for what cannot happen. Always on; prints where, what and the values, then aborts.
//
// It is for our own mistakes only. Input, configuration, network, disk and clocks are never checked
// with it: they give an Error.
//
//   CHECK(index < size, "index {} of {}", index, size);
#pragma once

#include <string_view>

#include <fmt/core.h>

namespace nstance {

// Writes "file:line: CHECK failed: condition: detail" to standard error and aborts.
[[noreturn]] void CheckFailed(std::string_view where, std::string_view condition,
                              std::string_view detail);

}  // namespace nstance

#define NSTANCE_STRINGIZE_INNER(x) #x
#define NSTANCE_STRINGIZE(x) NSTANCE_STRINGIZE_INNER(x)

#define CHECK(condition, ...)                                                      \
  do {                                                                             \
    if (!(condition)) [[unlikely]] {                                               \
      ::nstance::CheckFailed(__FILE__ ":" NSTANCE_STRINGIZE(__LINE__), #condition, \
                             ::fmt::format(__VA_ARGS__ __VA_OPT__(, ) ""));        \
    }                                                                              \
  } while (false)
