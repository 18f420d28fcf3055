// SettledPutRunner: carries out what the machine of settled_put.h says.
//
// Every runner has this shape: Do() turns one command into one port call, and each callback is one
// line that hands the answer to the machine and does what it says next. There is nothing to unwind:
// destroying the runner drops its one Pending, and no callback runs afterwards.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "ports/loop.h"
#include "ports/pending.h"
#include "test/examples/settled_put/settled_put.h"

namespace nstance::example {

// The part of a store that the example needs. A write carries its write id and nothing else.
class ExampleStore {
 public:
  ExampleStore() = default;
  ExampleStore(const ExampleStore&) = delete;
  ExampleStore& operator=(const ExampleStore&) = delete;
  virtual ~ExampleStore() = default;
  using PutDone = std::move_only_function<void(Status)>;
  using GetDone = std::move_only_function<void(Result<std::optional<std::string>>)>;
  [[nodiscard]] virtual Pending PutIfAbsent(std::string write_id, PutDone done) = 0;
  [[nodiscard]] virtual Pending Get(GetDone done) = 0;
};

class SettledPutRunner final {
 public:
  struct Deps {
    Loop& loop;
    ExampleStore& store;
  };
  using Done = std::move_only_function<void(Status)>;

  // `done` is called once, on the loop, and may destroy the runner.
  SettledPutRunner(Deps deps, SettledPut machine, Done done)
      : deps_(deps), machine_(std::move(machine)), done_(std::move(done)) {}

  void Start() { Do(machine_.Start()); }

 private:
  void Do(SettledPut::Command command) {
    std::visit(Overloaded{
                   [this](SettledPut::Put& put) {
                     pending_ = deps_.store.PutIfAbsent(put.write_id, [this](Status result) {
                       Do(machine_.On({std::move(result)}));
                     });
                   },
                   [this](SettledPut::Get&) {
                     pending_ = deps_.store.Get([this](auto write_id) {
                       Do(machine_.On(SettledPut::GetAnswer{std::move(write_id)}));
                     });
                   },
                   [this](SettledPut::Wait& wait) {
                     pending_ = deps_.loop.CallAfter(wait.length, [this] {
                       Do(machine_.On(SettledPut::Woke{}, deps_.loop.Now()));
                     });
                   },
                   [this](SettledPut::Finish& finish) {
                     pending_ = Pending();
                     Done done = std::move(done_);
                     done(std::move(finish.result));
                   },
               },
               command);
  }

  Deps deps_;
  SettledPut machine_;
  Done done_;
  Pending pending_;
};

}  // namespace nstance::example
