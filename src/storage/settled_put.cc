#include "storage/settled_put.h"

#include <variant>

#include <fmt/core.h>

#include "base/fault_point.h"
#include "base/overloaded.h"

namespace nstance {
namespace {

Result<SettledWrite::Content> ContentOf(Result<Object> read) {
  if (!read) return Fail(std::move(read).error());
  return SettledWrite::Content{.bytes = std::move(read->bytes),
                               .version = std::move(read->version)};
}

}  // namespace

SettledPut::SettledPut(Deps deps, Request request, Done done)
    : deps_(deps),
      key_(std::move(request.put.key)),
      machine_({.bytes = std::move(request.put.bytes),
                .condition = std::move(request.put.condition),
                .deadline = request.deadline}),
      done_(std::move(done)) {}

void SettledPut::Do(SettledWrite::Command command) {
  std::visit(Overloaded{
                 [this](SettledWrite::Put&) {
                   const SettledWrite::Write& write = machine_.write();
                   const auto answered = [this](auto answer) {
                     Do(machine_.On(SettledWrite::PutAnswer{std::move(answer)}));
                   };
                   if (Planted(Plant::kPutsUnconditionally)) {
                     pending_ = deps_.store.PutUnconditionally(key_, write.bytes, answered);
                     return;
                   }
                   pending_ = deps_.store.Put(
                       {.key = key_, .bytes = write.bytes, .condition = write.condition}, answered);
                 },
                 [this](SettledWrite::Get&) {
                   pending_ = deps_.store.Get(key_, [this](auto answer) {
                     Do(machine_.On(SettledWrite::GetAnswer{ContentOf(std::move(answer))},
                                    deps_.loop.Now(), deps_.jitter));
                   });
                 },
                 [this](SettledWrite::Wait& wait) {
                   pending_ = deps_.loop.CallAfter(
                       wait.length, [this] { Do(machine_.On(SettledWrite::Woke{})); });
                 },
                 [this](SettledWrite::Finish& finish) {
                   pending_ = Pending();
                   Done done = std::move(done_);
                   done(Under(std::move(finish.result), fmt::format("put {}", key_.text())));
                 },
             },
             command);
}

}  // namespace nstance
