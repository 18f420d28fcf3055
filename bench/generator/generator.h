// Generator: the load of the benchmarks, on one thread: agents, joiners and operators that a
// harness commands by lines. Every command is answered by one JSON object on one line, with
// "command" and "error" (empty when it did what it was told):
//
//   join COUNT RATE          the next COUNT tokens join, RATE per second by a fixed schedule
//   connect RATE             agents that have joined and are not connected yet, RATE per second
//   report RATE SECONDS N    reports evenly over all agents, by a fixed schedule; every Nth is
//                            followed by a unary call on its connection that is timed
//   settle SECONDS           waits, and tells how many agents are up
//   operators PER_TENANT     every operator token joins, and opens so many connections
//   upsert SECONDS           each operator changes its own group, one request after the other
//   watch RATE SECONDS       all operators watch; the first of each tenant changes groups
//
// Latencies count from the scheduled time. `behind_us` is how late the generator itself was: a run
// in which that is large measured the generator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/real_loop/real_loop.h"
#include "base/json.h"
#include "base/prng.h"
#include "bench/generator/histogram.h"
#include "bench/generator/join.h"
#include "bench/generator/load_agent.h"
#include "bench/generator/open_loop.h"
#include "bench/generator/operator_load.h"
#include "bench/generator/token_file.h"

namespace nstance::bench {

class Generator final {
 public:
  struct Setup {
    RealLoop& loop;
    // One per source address; used in turn.
    std::vector<std::unique_ptr<RpcDialer>> dialers;
    JoinDeps join;
    RpcAddress agent;
    RpcAddress operators;
    std::vector<TokenLine> agent_tokens;
    std::vector<TokenLine> operator_tokens;
    std::uint64_t seed = 1;
  };
  using Answer = std::function<void(const json::Value& line)>;

  Generator(Setup setup, Answer answer);

  // One command; the next may come when this one was answered. What is wrong with it is answered.
  void Obey(std::string_view line);

 private:
  // A command under way: what its answer says besides the command and the error.
  struct Work {
    std::string command;
    std::uint64_t begun = 0;
    std::uint64_t good = 0;
    std::uint64_t bad = 0;
    bool all_begun = false;
    std::string error;
    Histogram latency;
    Instant start;
  };

  void Join(std::uint64_t count, std::uint64_t rate);
  void JoinOne(std::size_t index, Instant due);
  void Connect(std::uint64_t rate);
  void Report(std::uint64_t rate, std::uint64_t seconds, std::uint64_t every);
  void Settle(std::uint64_t seconds);
  void Operators(std::uint64_t per_tenant);
  void OpenOperators(std::size_t token, std::uint64_t per_tenant, const RpcTls& identity);
  void Upsert(std::uint64_t seconds);
  void UpsertNext(LoadOperator& one);
  void CheckSizes();
  void Watch(std::uint64_t rate, std::uint64_t seconds);

  [[nodiscard]] RpcDialer& NextDialer();
  void Begin(std::string command);
  // One of the things begun has ended.
  void Ended(const Status& status);
  void AnswerWhenOver();
  void AnswerNow();

  Setup setup_;
  Answer answer_;
  Prng chance_;
  AgentTally tally_;
  std::size_t next_dialer_ = 0;
  std::size_t next_token_ = 0;
  Work work_;
  Instant until_;
  Duration behind_;
  std::unique_ptr<OpenLoop> schedule_;
  std::vector<std::unique_ptr<bench::Join>> joins_;  // By token; null when over.
  std::vector<std::unique_ptr<LoadAgent>> agents_;
  std::size_t connected_ = 0;  // Agents that were told to connect.
  std::vector<std::unique_ptr<bench::Join>> operator_joins_;
  std::vector<std::unique_ptr<LoadOperator>> operators_;
  Histogram watch_latency_;
  Pending timer_;
};

}  // namespace nstance::bench
