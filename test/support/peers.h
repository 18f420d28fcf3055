// Peers: programs of other makers that tests compare us with. A machine without a peer skips:
//
//   const Result<std::string> peer = test::BuildGoPeer("go_json");
//   if (!peer) GTEST_SKIP() << peer.error().message;
//   const auto answer = test::RunProcess({.argv = {*peer, "json"}, .input = lines});
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace nstance::test {

// The full path of the `go` program, version 1.24 or later. The error's message is the reason to
// skip.
[[nodiscard]] Result<std::string> FindGo();

// Builds test/peers/<name>, a Go module that needs nothing but the standard library, and returns
// the path of the program. kNotFound is the reason to skip: there is no Go here. Any other error
// means that the peer does not build, which is a failure. Takes no network. Tests that build one
// peer at the same time do not disturb each other.
[[nodiscard]] Result<std::string> BuildGoPeer(std::string_view name);

// Builds a program of a Go module that speaks the wire contract (tools/go_program), for example
// BuildGoProgram("test/go_peers", "go-agent"), unless it is in the cache, and returns its path. Its
// modules may come from the network the first time. kNotFound is the reason to skip.
[[nodiscard]] Result<std::string> BuildGoProgram(std::string_view module, std::string_view program);

}  // namespace nstance::test

// The same for a program of a Go module of this tree.
#define NSTANCE_GO_PROGRAM_OR_SKIP(variable, module, program)                         \
  const ::nstance::Result<std::string> variable##_result =                            \
      ::nstance::test::BuildGoProgram(module, program);                               \
  if (!variable##_result.has_value() &&                                               \
      variable##_result.error().code == ::nstance::Code::kNotFound) {                 \
    GTEST_SKIP() << variable##_result.error().message;                                \
  }                                                                                   \
  ASSERT_TRUE(variable##_result.has_value()) << variable##_result.error().ToString(); \
  const std::string& variable = *variable##_result

// Sets `variable` to the path of a built Go peer; skips the test without Go, fails it when the peer
// does not build.
#define NSTANCE_GO_PEER_OR_SKIP(variable, name)                                                \
  const ::nstance::Result<std::string> variable##_result = ::nstance::test::BuildGoPeer(name); \
  if (!variable##_result.has_value() &&                                                        \
      variable##_result.error().code == ::nstance::Code::kNotFound) {                          \
    GTEST_SKIP() << variable##_result.error().message;                                         \
  }                                                                                            \
  ASSERT_TRUE(variable##_result.has_value()) << variable##_result.error().ToString();          \
  const std::string& variable = *variable##_result
