// LearnedPutRunner: carries out what the machine of learned_put.h says, for any store.
#pragma once

#include <functional>
#include <string>

#include "adapters/cloud_http/learned_put.h"
#include "ports/pending.h"

namespace nstance::cloud {

class LearnedPutRunner final {
 public:
  // The two calls of one store, each called at most once. Both answer later.
  struct Calls {
    std::move_only_function<Pending(std::move_only_function<void(LearnedPut::WriteResult)>)> write;
    std::move_only_function<Pending(std::move_only_function<void(Result<Object>)>)> read;
  };
  using Done = std::move_only_function<void(Result<ObjectVersion>)>;

  // `done` is called once and may destroy the runner.
  LearnedPutRunner(Calls calls, std::string bytes, Done done);

  void Start() { Do(machine_.Start()); }

 private:
  void Do(LearnedPut::Command command);

  Calls calls_;
  LearnedPut machine_;
  Done done_;
  Pending pending_;
};

// Starts a write and hands over its result; nobody else needs to keep the runner.
[[nodiscard]] Pending RunLearnedPut(LearnedPutRunner::Calls calls, std::string bytes,
                                    LearnedPutRunner::Done done);

}  // namespace nstance::cloud
