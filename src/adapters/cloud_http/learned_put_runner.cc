#include "adapters/cloud_http/learned_put_runner.h"

#include <memory>
#include <utility>
#include <variant>

#include "base/overloaded.h"

namespace nstance::cloud {

LearnedPutRunner::LearnedPutRunner(Calls calls, std::string bytes, Done done)
    : calls_(std::move(calls)), machine_(std::move(bytes)), done_(std::move(done)) {}

void LearnedPutRunner::Do(LearnedPut::Command command) {
  std::visit(Overloaded{
                 [this](LearnedPut::Write&) {
                   pending_ = calls_.write([this](LearnedPut::WriteResult result) {
                     Do(machine_.On(std::move(result)));
                   });
                 },
                 [this](LearnedPut::Read&) {
                   pending_ = calls_.read(
                       [this](Result<Object> object) { Do(machine_.On(std::move(object))); });
                 },
                 [this](LearnedPut::Finish& finish) {
                   pending_ = Pending();
                   Done done = std::move(done_);
                   done(std::move(finish.result));
                 },
             },
             command);
}

Pending RunLearnedPut(LearnedPutRunner::Calls calls, std::string bytes,
                      LearnedPutRunner::Done done) {
  auto runner =
      std::make_unique<LearnedPutRunner>(std::move(calls), std::move(bytes), std::move(done));
  runner->Start();
  return Pending([runner = std::move(runner)]() mutable { runner.reset(); });
}

}  // namespace nstance::cloud
